import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group, used by one thread at a time. */
final class Member implements ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    private int rebalances;

    /** subscribe HANDLE BOOTSTRAP GROUP TOPIC RESET INSTANCE HEARTBEAT-MS SESSION-MS PROTOCOL */
    Member(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[2]);
        settings.put("group.id", words[3]);
        settings.put("auto.offset.reset", words[5]);
        settings.put("group.protocol", words[9]);
        if (words[9].equals("classic")) {
            settings.put("heartbeat.interval.ms", words[7]);
            settings.put("session.timeout.ms", words[8]);
        }
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "50");
        if (!words[6].isEmpty()) {
            settings.put("group.instance.id", words[6]);
        }
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(words[4]), this);
    }

    /** Partition, offset and value of each record, three words each. */
    synchronized List<?> poll() {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
            found.addAll(List.of(record.partition(), record.offset(), record.value()));
        }
        return found;
    }

    synchronized boolean commit() {
        try {
            consumer.commitSync();
            return true;
        } catch (CommitFailedException | RebalanceInProgressException refused) {
            return false;
        }
    }

    /** How often it was assigned anything, and the partitions. */
    synchronized List<?> assigned() {
        List<Object> found = new ArrayList<>(List.of(rebalances));
        consumer.assignment().forEach(one -> found.add(one.partition()));
        return found;
    }

    synchronized void leave() {
        consumer.close();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalances++;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    }
}

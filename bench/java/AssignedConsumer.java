import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads so many records of a topic from its beginning, with partitions it assigned to itself, as fast as it can, with the
 * settings of Kafka's own ConsumerPerformance. Prints how many records, how many bytes of values, and in how many seconds.
 */
public final class AssignedConsumer {
    private static final long PATIENCE_NANOS = 30_000_000_000L;

    public static void main(String[] arguments) {
        String topic = arguments[1];
        long wanted = Long.parseLong(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", arguments[3]);
        settings.put("enable.auto.commit", "false");
        settings.put("check.crcs", "false");
        settings.put("receive.buffer.bytes", "2097152");
        settings.put("max.partition.fetch.bytes", "1048576");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(one -> new TopicPartition(topic, one.partition()))
                .collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long records = 0;
            long bytes = 0;
            long started = System.nanoTime();
            long last = started;
            while (records < wanted) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> record : found) {
                    records++;
                    bytes += record.serializedValueSize();
                }
                if (!found.isEmpty()) {
                    last = System.nanoTime();
                } else if (System.nanoTime() - last > PATIENCE_NANOS) {
                    throw new IllegalStateException("only " + records + " of " + wanted + " records came");
                }
            }
            System.out.println(records + " " + bytes + " " + (last - started) / 1e9);
        }
    }
}

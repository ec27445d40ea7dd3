import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client, driven line by line over standard input: an id and tab-separated words in, the id and tab-separated
 * words out. Words are written as in a URL's query, so that they may hold tabs and ends of lines. An answer begins with
 * "ok" or with "error", the class of the exception and its message. Questions are answered side by side: who asks
 * decides what waits for what.
 */
public final class Client {
    private final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
    private final Map<String, List<Future<?>>> sent = new ConcurrentHashMap<>();
    private final Map<String, Member> members = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Client client = new Client();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService answering = Executors.newCachedThreadPool();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] idAndWords = line.split("\t", 2);
            answering.execute(() -> {
                String answer = lineOf(client.answer(wordsOf(idAndWords[1])));
                synchronized (out) {
                    out.println(idAndWords[0] + "\t" + answer);
                }
            });
        }
        System.exit(0);
    }

    private static String[] wordsOf(String line) {
        return Arrays.stream(line.split("\t", -1))
            .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
            .toArray(String[]::new);
    }

    private static String lineOf(List<?> words) {
        return words.stream()
            .map(word -> URLEncoder.encode(String.valueOf(word), StandardCharsets.UTF_8))
            .collect(Collectors.joining("\t"));
    }

    private List<?> answer(String[] words) {
        try {
            List<Object> answer = new ArrayList<>(List.of("ok"));
            answer.addAll(run(words));
            return answer;
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return List.of("error", cause.getClass().getSimpleName(), String.valueOf(cause.getMessage()));
        }
    }

    private List<?> run(String[] words) throws Exception {
        switch (words[0]) {
            case "producer": open(words); return List.of();
            case "init": producers.get(words[1]).initTransactions(); return List.of();
            case "begin": producers.get(words[1]).beginTransaction(); return List.of();
            case "send": send(words); return List.of();
            case "flush": flush(words[1]); return List.of();
            case "offsets": offsets(words); return List.of();
            case "commit": flush(words[1]); producers.get(words[1]).commitTransaction(); return List.of();
            case "abort": producers.get(words[1]).abortTransaction(); sent.get(words[1]).clear(); return List.of();
            case "close": producers.remove(words[1]).close(Duration.ZERO); return List.of();
            case "read": return read(words);
            case "end": return List.of(end(words));
            case "committed": return List.of(committed(words));
            case "subscribe": members.put(words[1], new Member(words)); return List.of();
            case "poll": return members.get(words[1]).poll();
            case "commit-polled": return List.of(members.get(words[1]).commit());
            case "assigned": return members.get(words[1]).assigned();
            case "leave": members.remove(words[1]).leave(); return List.of();
            default: return Administrator.run(words);
        }
    }

    private void open(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[2]);
        settings.put("compression.type", words[4]);
        settings.put("acks", words[5]);
        settings.put("linger.ms", "5");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("request.timeout.ms", "20000");
        if (!words[3].isEmpty()) {
            settings.put("transactional.id", words[3]);
        }
        producers.put(words[1], new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()));
        sent.put(words[1], new ArrayList<>());
    }

    /** send HANDLE TOPIC PARTITION KEY VALUE HEADER */
    private void send(String[] words) {
        ProducerRecord<String, String> record =
            new ProducerRecord<>(words[2], Integer.parseInt(words[3]), words[4], words[5]);
        record.headers().add("header", words[6].getBytes(StandardCharsets.UTF_8));
        sent.get(words[1]).add(producers.get(words[1]).send(record));
    }

    private void flush(String handle) throws Exception {
        producers.get(handle).flush();
        for (Future<?> one : sent.get(handle)) {
            one.get();
        }
        sent.get(handle).clear();
    }

    /** offsets HANDLE GROUP TOPIC PARTITION OFFSET */
    private void offsets(String[] words) {
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        producers.get(words[1]).sendOffsetsToTransaction(
            Map.of(partition, new OffsetAndMetadata(Long.parseLong(words[5]), "from java")),
            new ConsumerGroupMetadata(words[2]));
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", "50");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** read BOOTSTRAP ISOLATION TOPIC PARTITION UNTIL: (offset, key, value, header) of each record, four words each */
    private static List<?> read(String[] words) {
        List<Object> found = new ArrayList<>();
        long deadline = System.nanoTime() + 30_000_000_000L;
        try (KafkaConsumer<String, String> consumer = consumer(words[1], words[2])) {
            TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    Header header = record.headers().lastHeader("header");
                    String said = header == null ? "" : new String(header.value(), StandardCharsets.UTF_8);
                    found.addAll(Arrays.asList(record.offset(), record.key(), record.value(), said));
                    if (record.value().equals(words[5])) {
                        return found;
                    }
                }
            }
        }
        throw new IllegalStateException("no record " + words[5] + " in 30 s, only " + found);
    }

    /** end BOOTSTRAP ISOLATION TOPIC PARTITION */
    private static long end(String[] words) {
        try (KafkaConsumer<String, String> consumer = consumer(words[1], words[2])) {
            TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
            return consumer.endOffsets(List.of(partition)).get(partition);
        }
    }

    /** committed BOOTSTRAP GROUP TOPIC PARTITION: the offset, or -1 */
    private static long committed(String[] words) throws Exception {
        TopicPartition partition = new TopicPartition(words[3], Integer.parseInt(words[4]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[1]))) {
            OffsetAndMetadata found = admin.listConsumerGroupOffsets(words[2])
                .partitionsToOffsetAndMetadata().get().get(partition);
            return found == null ? -1 : found.offset();
        }
    }
}

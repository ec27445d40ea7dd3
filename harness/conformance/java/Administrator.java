import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What administrators ask, each by a client of its own: words COMMAND BOOTSTRAP ... as the methods below name them. */
final class Administrator {
    private Administrator() {
    }

    static List<?> run(String[] words) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[1]))) {
            switch (words[0]) {
                case "create": create(admin, words); return List.of();
                case "topics": return List.copyOf(admin.listTopics().names().get());
                case "partitions": return List.of(partitions(admin, words[2]));
                case "grow": grow(admin, words); return List.of();
                case "delete": admin.deleteTopics(List.of(words[2])).all().get(); return List.of();
                case "setting": return List.of(setting(admin, words));
                case "set": set(admin, words); return List.of();
                case "delete-records": return List.of(deleteRecords(admin, words));
                case "groups": return groups(admin);
                case "delete-group": admin.deleteConsumerGroups(List.of(words[2])).all().get(); return List.of();
                default: throw new IllegalArgumentException(words[0]);
            }
        }
    }

    /** create BOOTSTRAP TOPIC PARTITIONS SETTING VALUE */
    private static void create(Admin admin, String[] words) throws Exception {
        NewTopic topic = new NewTopic(words[2], Integer.parseInt(words[3]), (short) 1);
        admin.createTopics(List.of(topic.configs(Map.of(words[4], words[5])))).all().get();
    }

    private static int partitions(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    /** grow BOOTSTRAP TOPIC PARTITIONS */
    private static void grow(Admin admin, String[] words) throws Exception {
        NewPartitions count = NewPartitions.increaseTo(Integer.parseInt(words[3]));
        admin.createPartitions(Map.of(words[2], count)).all().get();
    }

    /** setting BOOTSTRAP TOPIC SETTING */
    private static String setting(Admin admin, String[] words) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, words[2]);
        return admin.describeConfigs(List.of(topic)).all().get().get(topic).get(words[3]).value();
    }

    /** set BOOTSTRAP TOPIC SETTING VALUE */
    private static void set(Admin admin, String[] words) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, words[2]);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(words[3], words[4]), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all().get();
    }

    /** delete-records BOOTSTRAP TOPIC PARTITION BEFORE: where the partition begins now */
    private static long deleteRecords(Admin admin, String[] words) throws Exception {
        TopicPartition partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
        RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(words[4]));
        return admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
    }

    private static List<?> groups(Admin admin) throws Exception {
        return admin.listGroups().all().get().stream().map(GroupListing::groupId).collect(Collectors.toList());
    }
}

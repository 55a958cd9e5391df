import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a web console of Kafka asks a cluster, at its start and for each of its pages.
 *
 * <p>One argument: where the cluster is. A line for each call: its name, and what came of it, or
 * the error's class.
 */
public final class Console {
    private static final String TOPIC = "console";
    private static final String GROUP = "console-group";
    private static Admin admin;

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        StringSerializer text = new StringSerializer();
        try (Admin opened = Admin.create(settings);
                var producer = new KafkaProducer<>(settings, text, text)) {
            admin = opened;
            admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).all().get();
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(TOPIC, 0, "k", "v" + i)).get();
            }
            start();
            pages();
            edits();
        }
    }

    private static void start() {
        tell("cluster", () -> get(admin.describeCluster(new DescribeClusterOptions()
                .includeAuthorizedOperations(true)).nodes()).size());
        tell("broker configs", () -> {
            var nodes = get(admin.describeCluster().nodes());
            var broker = new ConfigResource(
                    ConfigResource.Type.BROKER, nodes.iterator().next().idString());
            var options = new DescribeConfigsOptions().includeSynonyms(true);
            Config found = get(admin.describeConfigs(List.of(broker), options).all()).get(broker);
            ConfigEntry one = found.get("fetch.max.bytes");
            return one.value() + " " + one.source() + " " + one.synonyms().size();
        });
        tell("features", () -> get(admin.describeFeatures().featureMetadata()) != null);
        tell("acls", () -> get(admin.describeAcls(AclBindingFilter.ANY).values()).size());
        tell("quotas", () -> get(
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size());
        tell("quorum", () -> get(admin.describeMetadataQuorum().quorumInfo()) != null);
    }

    private static void pages() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        TopicPartition first = new TopicPartition(TOPIC, 0);
        tell("topics", () -> get(admin.listTopics().names()).contains(TOPIC));
        tell("a topic", () -> get(admin.describeTopics(List.of(TOPIC)).allTopicNames())
                .get(TOPIC).partitions().size());
        tell("its configs", () -> get(admin.describeConfigs(List.of(topic),
                new DescribeConfigsOptions().includeDocumentation(true)).all())
                .get(topic).get("cleanup.policy").value());
        tell("its size", () -> {
            var nodes = get(admin.describeCluster().nodes());
            int broker = nodes.iterator().next().id();
            long size = 0;
            for (var dir : get(admin.describeLogDirs(List.of(broker)).allDescriptions())
                    .get(broker).values()) {
                for (var replica : dir.replicaInfos().entrySet()) {
                    if (replica.getKey().topic().equals(TOPIC)) {
                        size += replica.getValue().size();
                    }
                }
            }
            return size > 500;
        });
        tell("its first offset", () -> get(
                admin.listOffsets(Map.of(first, OffsetSpec.earliest())).all()).get(first).offset());
        tell("its last offset", () -> get(
                admin.listOffsets(Map.of(first, OffsetSpec.latest())).all()).get(first).offset());
        tell("its newest record", () -> get(admin.listOffsets(
                Map.of(first, OffsetSpec.maxTimestamp())).all()).get(first).offset());
        tell("its producers", () -> get(admin.describeProducers(List.of(first)).all())
                .get(first).activeProducers().size());
        tell("reassignments", () -> get(
                admin.listPartitionReassignments().reassignments()).size());
        tell("transactions", () -> get(admin.listTransactions().all()).size());
    }

    private static void edits() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        TopicPartition first = new TopicPartition(TOPIC, 0);
        tell("set a config", () -> get(admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "5000"),
                        AlterConfigOp.OpType.SET)))).all()));
        tell("which is set", () -> get(admin.describeConfigs(List.of(topic)).all())
                .get(topic).get("retention.ms").value());
        tell("more partitions", () -> get(
                admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(4))).all()));
        tell("delete records", () -> get(admin.deleteRecords(
                Map.of(first, RecordsToDelete.beforeOffset(3))).lowWatermarks().get(first))
                .lowWatermark());
        TopicPartition second = new TopicPartition(TOPIC, 1);
        tell("set offsets", () -> get(admin.alterConsumerGroupOffsets(GROUP, Map.of(
                first, new OffsetAndMetadata(5), second, new OffsetAndMetadata(0))).all()));
        tell("groups", () -> get(admin.listGroups().all()).stream()
                .filter(group -> group.groupId().equals(GROUP)).count());
        tell("a group", () -> get(admin.describeConsumerGroups(List.of(GROUP)).all())
                .get(GROUP).groupState().toString());
        tell("its offsets", () -> get(admin.listConsumerGroupOffsets(
                Map.of(GROUP, new ListConsumerGroupOffsetsSpec())).all())
                .get(GROUP).get(first).offset());
        tell("forget an offset", () -> get(admin.deleteConsumerGroupOffsets(
                GROUP, Set.of(first)).all()));
        tell("delete the group", () -> get(admin.deleteConsumerGroups(List.of(GROUP)).all()));
        tell("delete the topic", () -> get(admin.deleteTopics(List.of(TOPIC)).all()));
    }

    private static <T> T get(org.apache.kafka.common.KafkaFuture<T> future) throws Exception {
        try {
            return future.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    private static void tell(String name, Callable<Object> call) {
        String what;
        try {
            what = String.valueOf(call.call());
        } catch (Exception error) {
            what = error.getClass().getSimpleName();
        }
        System.out.println(name + "\t" + what);
    }
}

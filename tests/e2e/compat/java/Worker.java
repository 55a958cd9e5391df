import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * The worker of the Java client, for tests/e2e/compat: operations.py says what it may be asked.
 *
 * <p>One argument: the address. A question is a line of JSON, and is answered by a thread of its own.
 */
public final class Worker {
    private interface Operation {
        Object answer(JsonNode asked) throws Exception;
    }

    private static final class AbsentException extends RuntimeException {
        AbsentException(String why) {
            super(why);
        }
    }

    private static final class Member implements ConsumerRebalanceListener {
        KafkaConsumer<String, String> consumer;
        final List<Object> changes = new ArrayList<>();

        private void note(String kind, Collection<TopicPartition> places) {
            changes.add(List.of(kind, pairs(places)));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            note("assigned", places);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            note("revoked", places);
        }
    }

    private static final Map<String, KafkaProducer<String, String>> producers =
            new ConcurrentHashMap<>();
    private static final Map<String, Member> members = new ConcurrentHashMap<>();
    private static final AtomicInteger numbers = new AtomicInteger();
    private static String bootstrap;
    private static Admin admin;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> SETTINGS = Map.ofEntries(
            Map.entry("acks", "acks"),
            Map.entry("codec", "compression.type"),
            Map.entry("idempotent", "enable.idempotence"),
            Map.entry("in_flight", "max.in.flight.requests.per.connection"),
            Map.entry("batch_bytes", "batch.size"),
            Map.entry("max_bytes", "max.request.size"),
            Map.entry("refresh_ms", "metadata.max.age.ms"),
            Map.entry("reset", "auto.offset.reset"),
            Map.entry("isolation", "isolation.level"),
            Map.entry("instance", "group.instance.id"),
            Map.entry("protocol", "group.protocol"));
    private static final Map<String, Operation> OPERATIONS = Map.ofEntries(
            Map.entry("version", asked -> AppInfoParser.getVersion()),
            Map.entry("produce", Worker::produce),
            Map.entry("transact", Worker::transact),
            Map.entry("topics", Worker::topics),
            Map.entry("create_topic", Worker::createTopic),
            Map.entry("delete_topic", asked ->
                    admin.deleteTopics(List.of(text(asked, "topic"))).all().get()),
            Map.entry("create_partitions", asked -> admin.createPartitions(Map.of(
                    text(asked, "topic"), NewPartitions.increaseTo(asked.get("count").asInt())))
                    .all().get()),
            Map.entry("describe_configs", Worker::describeConfigs),
            Map.entry("alter_configs", Worker::alterConfigs),
            Map.entry("alter_configs_older", asked -> {
                throw new AbsentException("the Java client has it no longer, since 4.0");
            }),
            Map.entry("delete_records", asked -> admin.deleteRecords(Map.of(
                    place(asked), RecordsToDelete.beforeOffset(asked.get("before").asLong())))
                    .all().get()),
            Map.entry("describe_cluster", Worker::describeCluster),
            Map.entry("describe_log_dirs", Worker::describeLogDirs),
            Map.entry("offsets", Worker::offsets),
            Map.entry("open", Worker::open),
            Map.entry("poll", Worker::poll),
            Map.entry("assigned", asked -> pairs(consumer(asked).assignment())),
            Map.entry("changes", asked -> members.get(text(asked, "consumer")).changes),
            Map.entry("seek", asked -> {
                consumer(asked).seek(place(asked), asked.get("offset").asLong());
                return null;
            }),
            Map.entry("pause", asked -> {
                consumer(asked).pause(List.of(place(asked)));
                return null;
            }),
            Map.entry("resume", asked -> {
                consumer(asked).resume(List.of(place(asked)));
                return null;
            }),
            Map.entry("commit", asked -> {
                consumer(asked).commitSync(Map.of(place(asked), new OffsetAndMetadata(
                        asked.get("offset").asLong(), text(asked, "metadata"))));
                return null;
            }),
            Map.entry("committed", Worker::committed),
            Map.entry("close", asked -> {
                members.remove(text(asked, "consumer")).consumer.close();
                return null;
            }),
            Map.entry("group_offset", Worker::groupOffset),
            Map.entry("list_groups", asked -> admin.listGroups().all().get().stream()
                    .map(one -> one.groupId()).toList()),
            Map.entry("describe_group", Worker::describeGroup),
            Map.entry("delete_group", asked ->
                    admin.deleteConsumerGroups(List.of(text(asked, "group"))).all().get()),
            Map.entry("delete_offset", asked -> admin.deleteConsumerGroupOffsets(
                    text(asked, "group"), Set.of(place(asked))).all().get()));

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        admin = Admin.create(settings(Map.of()));
        var questions = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = questions.readLine()) != null) {
            JsonNode asked = JSON.readTree(line);
            Thread answering = new Thread(() -> answer(asked));
            answering.setDaemon(true);
            answering.start();
        }
    }

    private static void answer(JsonNode asked) {
        Map<String, Object> told = new HashMap<>();
        told.put("id", asked.get("id"));
        try {
            told.put("ok", OPERATIONS.get(text(asked, "op")).answer(asked));
        } catch (AbsentException error) {
            told.put("absent", error.getMessage());
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            told.put("error", cause instanceof ApiException
                    ? Errors.forException(cause).name() : cause.getClass().getSimpleName());
            told.put("words", "" + cause);
        }
        try {
            byte[] line = (JSON.writeValueAsString(told) + "\n").getBytes(StandardCharsets.UTF_8);
            synchronized (JSON) {
                System.out.write(line);
                System.out.flush();
            }
        } catch (java.io.IOException impossible) {
            throw new java.io.UncheckedIOException(impossible);
        }
    }

    // ------------------------------------------------------------------------ producing

    private static Object produce(JsonNode asked) throws Exception {
        Map<String, String> settings = named(asked.get("settings"));
        String keep = text(asked, "keep");
        KafkaProducer<String, String> producer = keep == null
                ? producer(settings) : producers.computeIfAbsent(keep, name -> producer(settings));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode one : asked.get("records")) {
            JsonNode partition = one.get("partition");
            JsonNode timestamp = one.get("timestamp");
            var record = new ProducerRecord<>(
                    text(asked, "topic"),
                    partition.isNull() ? null : (Integer) partition.asInt(),
                    timestamp.isNull() ? null : (Long) timestamp.asLong(),
                    text(one, "key"), text(one, "value"));
            for (JsonNode header : one.get("headers")) {
                record.headers().add(header.get(0).asText(),
                        header.get(1).asText().getBytes(StandardCharsets.UTF_8));
            }
            sent.add(producer.send(record));
        }
        List<Object> places = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            RecordMetadata at = one.get();
            places.add(at.hasOffset() ? List.of(at.partition(), at.offset()) : null);
        }
        if (keep == null) {
            producer.close();
        }
        return places;
    }

    private static Object transact(JsonNode asked) throws Exception {
        try (var producer = producer(Map.of("transactional.id", text(asked, "name")))) {
            producer.initTransactions();
            producer.beginTransaction();
            for (JsonNode value : asked.get("values")) {
                producer.send(new ProducerRecord<>(text(asked, "topic"), value.asText()));
            }
            producer.flush();
            if (text(asked, "end").equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        return null;
    }

    private static KafkaProducer<String, String> producer(Map<String, String> more) {
        StringSerializer text = new StringSerializer();
        return new KafkaProducer<>(settings(more), text, text);
    }

    // ------------------------------------------------------------------------ topics

    private static Object topics(JsonNode asked) throws Exception {
        Map<String, Integer> found = new HashMap<>();
        var about = admin.describeTopics(admin.listTopics().names().get()).topicNameValues();
        for (var one : about.entrySet()) {
            try {
                found.put(one.getKey(), one.getValue().get().partitions().size());
            } catch (ExecutionException error) {
                // One that was deleted since it was listed, by another behaviour, is not there.
                if (Errors.forException(error.getCause()) != Errors.UNKNOWN_TOPIC_OR_PARTITION) {
                    throw error;
                }
            }
        }
        return found;
    }

    private static Object createTopic(JsonNode asked) throws Exception {
        var made = new NewTopic(text(asked, "topic"), asked.get("partitions").asInt(), (short) 1);
        made.configs(texts(asked.get("configs")));
        return admin.createTopics(List.of(made)).all().get();
    }

    private static Object describeConfigs(JsonNode asked) throws Exception {
        ConfigResource what = config(asked);
        Map<String, String> found = new HashMap<>();
        for (ConfigEntry one : admin.describeConfigs(List.of(what)).all().get().get(what).entries()) {
            found.put(one.name(), one.value());
        }
        return found;
    }

    private static Object alterConfigs(JsonNode asked) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        texts(asked.get("set")).forEach((name, value) -> changes.add(
                new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        for (JsonNode name : asked.get("delete")) {
            changes.add(new AlterConfigOp(
                    new ConfigEntry(name.asText(), null), AlterConfigOp.OpType.DELETE));
        }
        return admin.incrementalAlterConfigs(Map.of(config(asked), changes)).all().get();
    }

    private static Object describeCluster(JsonNode asked) throws Exception {
        var found = admin.describeCluster();
        List<Object> brokers = new ArrayList<>();
        for (Node one : found.nodes().get()) {
            brokers.add(List.of(one.id(), one.host(), one.port()));
        }
        return Map.of("brokers", brokers, "controller", found.controller().get().id(),
                "cluster", found.clusterId().get());
    }

    private static Object describeLogDirs(JsonNode asked) throws Exception {
        List<Integer> brokers = new ArrayList<>();
        for (Node one : admin.describeCluster().nodes().get()) {
            brokers.add(one.id());
        }
        long bytes = 0;
        for (var folders : admin.describeLogDirs(brokers).allDescriptions().get().values()) {
            for (var folder : folders.values()) {
                for (var one : folder.replicaInfos().entrySet()) {
                    bytes += one.getKey().topic().equals(text(asked, "topic"))
                            ? one.getValue().size() : 0;
                }
            }
        }
        return bytes;
    }

    private static Object offsets(JsonNode asked) throws Exception {
        OffsetSpec wanted = switch (text(asked, "at")) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            default -> OffsetSpec.forTimestamp(asked.get("at").asLong());
        };
        ListOffsetsResultInfo found = admin.listOffsets(Map.of(place(asked), wanted))
                .partitionResult(place(asked)).get();
        return found.offset() < 0 ? null : found.offset();
    }

    // ------------------------------------------------------------------------ consuming

    private static Object open(JsonNode asked) {
        String name = "consumer-" + numbers.incrementAndGet();
        Map<String, String> more = named(asked.get("settings"));
        more.put("enable.auto.commit", "false");
        if (text(asked, "group") != null) {
            more.put("group.id", text(asked, "group"));
        }
        if ("cooperative".equals(text(asked.get("settings"), "assignor"))) {
            more.put("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        StringDeserializer text = new StringDeserializer();
        Member member = new Member();
        member.consumer = new KafkaConsumer<>(settings(more), text, text);
        members.put(name, member);
        List<TopicPartition> places = new ArrayList<>();
        asked.get("assign").forEach(
                one -> places.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        if (!places.isEmpty()) {
            member.consumer.assign(places);
        } else if (text(asked, "pattern") != null) {
            member.consumer.subscribe(Pattern.compile(text(asked, "pattern")), member);
        } else {
            member.consumer.subscribe(StreamSupport
                    .stream(asked.get("topics").spliterator(), false)
                    .map(JsonNode::asText).toList(), member);
        }
        return name;
    }

    private static Object poll(JsonNode asked) {
        List<Object> found = new ArrayList<>();
        Duration time = Duration.ofMillis(asked.get("ms").asLong());
        for (ConsumerRecord<String, String> one : consumer(asked).poll(time)) {
            Map<String, Object> record = new LinkedHashMap<>();
            record.put("topic", one.topic());
            record.put("partition", one.partition());
            record.put("offset", one.offset());
            record.put("key", one.key());
            record.put("value", one.value());
            record.put("timestamp", one.timestamp());
            record.put("headers", Arrays.stream(one.headers().toArray()).map((Header header) ->
                    List.of(header.key(), new String(header.value(), StandardCharsets.UTF_8)))
                    .toList());
            found.add(record);
        }
        return found;
    }

    private static Object committed(JsonNode asked) {
        OffsetAndMetadata found = consumer(asked).committed(Set.of(place(asked))).get(place(asked));
        return found == null ? null : List.of(found.offset(), found.metadata());
    }

    // ------------------------------------------------------------------------ groups

    private static Object groupOffset(JsonNode asked) throws Exception {
        OffsetAndMetadata found = admin.listConsumerGroupOffsets(text(asked, "group"))
                .partitionsToOffsetAndMetadata().get().get(place(asked));
        return found == null ? null : found.offset();
    }

    private static Object describeGroup(JsonNode asked) throws Exception {
        String group = text(asked, "group");
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return Map.of("state", found.groupState().name(), "members", found.members().stream()
                .map(one -> pairs(one.assignment().topicPartitions())).toList());
    }

    // ------------------------------------------------------------------------ all of them

    private static KafkaConsumer<String, String> consumer(JsonNode asked) {
        return members.get(text(asked, "consumer")).consumer;
    }

    private static TopicPartition place(JsonNode asked) {
        return new TopicPartition(text(asked, "topic"), asked.get("partition").asInt());
    }

    private static ConfigResource config(JsonNode asked) {
        return new ConfigResource(ConfigResource.Type.TOPIC, text(asked, "topic"));
    }

    private static List<Object> pairs(Collection<TopicPartition> places) {
        List<Object> pairs = new ArrayList<>();
        places.forEach(one -> pairs.add(List.of(one.topic(), one.partition())));
        return pairs;
    }

    private static String text(JsonNode node, String name) {
        JsonNode found = node.get(name);
        return found == null || found.isNull() ? null : found.asText();
    }

    private static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.fields().forEachRemaining(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    private static Map<String, String> named(JsonNode settings) {
        Map<String, String> found = new HashMap<>();
        texts(settings).forEach((name, value) -> {
            if (SETTINGS.containsKey(name)) {
                found.put(SETTINGS.get(name), value);
            }
        });
        return found;
    }

    private static Properties settings(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.putAll(more);
        return settings;
    }
}

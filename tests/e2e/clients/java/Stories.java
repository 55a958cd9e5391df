import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The stories of tests/e2e/clients, told by the Java client.
 *
 * <p>One argument: the plan, as JSON. One line of JSON on standard output for every step.
 */
public final class Stories {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration MOMENT = Duration.ofMillis(20);
    private static JsonNode plan;

    public static void main(String[] args) throws Exception {
        plan = JSON.readTree(args[0]);
        create();
        for (JsonNode codec : plan.get("codecs")) {
            produce(codec.asText(), Map.of("compression.type", codec.asText()));
        }
        produce("idempotent", Map.of("enable.idempotence", "true"));
        group();
        resume();
        times();
        say("done", Map.of());
    }

    // ------------------------------------------------------------------------ topics

    private static void create() throws Exception {
        try (Admin admin = Admin.create(settings(Map.of()))) {
            List<String> names = List.of(topic("codecs"), topic("group"), topic("times"));
            admin.createTopics(names.stream().map(n -> new NewTopic(n, 3, (short) 1)).toList())
                    .all().get();
            Map<String, Integer> found = new TreeMap<>();
            // Kafka says that a topic was created a little before its brokers know it.
            await("new topics", () -> {
                try {
                    admin.describeTopics(names).allTopicNames().get()
                            .forEach((name, about) -> found.put(name, about.partitions().size()));
                    return true;
                } catch (ExecutionException error) {
                    if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                        return false;
                    }
                    throw new IllegalStateException(error);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            say("created", Map.of("topics", found));
        }
    }

    // ------------------------------------------------------------------------ producing

    private static void produce(String label, Map<String, String> more) throws Exception {
        List<ProducerRecord<String, String>> records = IntStream.range(0, number("records"))
                .mapToObj(i -> new ProducerRecord<>(topic("codecs"), "" + i, value(label, i)))
                .toList();
        List<List<Object>> acked = new ArrayList<>();
        for (RecordMetadata at : send(records, more)) {
            acked.add(List.of(acked.size(), at.partition(), at.offset()));
        }
        say("produced", Map.of("label", label, "acked", acked));
    }

    private static List<RecordMetadata> send(
            List<ProducerRecord<String, String>> records, Map<String, String> more)
            throws Exception {
        StringSerializer text = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings(more), text, text)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<String, String> record : records) {
                sent.add(producer.send(record));
            }
            List<RecordMetadata> acked = new ArrayList<>();
            for (Future<RecordMetadata> one : sent) {
                acked.add(one.get());
            }
            return acked;
        }
    }

    // ------------------------------------------------------------------------ a group

    private static void group() throws Exception {
        Map<String, KafkaConsumer<String, String>> members = new TreeMap<>();
        List<Object> seen = new ArrayList<>();

        for (String name : List.of("a", "b", "c")) {
            members.put(name, member());
        }
        awaitOwners("three", members, seen);
        wave(0, members, seen);

        members.remove("c").close();
        awaitOwners("two", members, seen);
        wave(1, members, seen);

        members.put("d", member());
        awaitOwners("three again", members, seen);
        wave(2, members, seen);

        members.values().forEach(KafkaConsumer::close);
        say("seen", Map.of("records", seen));
    }

    private static KafkaConsumer<String, String> member() {
        KafkaConsumer<String, String> consumer = consumer("group");
        consumer.subscribe(List.of(topic("group")));
        return consumer;
    }

    private static void wave(
            int wave, Map<String, KafkaConsumer<String, String>> members, List<Object> seen)
            throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int partition = 0; partition < 3; partition++) {
            for (int i = 0; i < number("wave"); i++) {
                records.add(new ProducerRecord<>(
                        topic("group"), partition, null, value("wave" + wave, i)));
            }
        }
        send(records, Map.of());
        int all = 3 * number("wave") * (wave + 1);
        await("records of a wave", () -> {
            pollAll(members, seen);
            return seen.size() >= all;
        });
        members.values().forEach(KafkaConsumer::commitSync);
    }

    private static void awaitOwners(
            String when, Map<String, KafkaConsumer<String, String>> members, List<Object> seen) {
        Map<String, Collection<Integer>> owned = new TreeMap<>();
        await("owners", () -> {
            pollAll(members, seen);
            owned.clear();
            members.forEach((name, consumer) -> owned.put(name, new TreeSet<>(
                    consumer.assignment().stream().map(TopicPartition::partition).toList())));
            List<Integer> all = owned.values().stream().flatMap(Collection::stream).toList();
            return all.size() == 3 && new TreeSet<>(all).size() == 3
                    && owned.values().stream().noneMatch(Collection::isEmpty);
        });
        say("owned", Map.of("when", when, "owned", owned));
    }

    private static void pollAll(
            Map<String, KafkaConsumer<String, String>> members, List<Object> seen) {
        members.forEach((name, consumer) -> {
            for (ConsumerRecord<String, String> record : consumer.poll(MOMENT)) {
                seen.add(List.of(name, record.partition(), record.offset(), record.value()));
            }
        });
    }

    // ------------------------------------------------------------------------ resuming

    private static void resume() {
        int all = number("records") * (plan.get("codecs").size() + 1);
        var first = read(all / 2, true);
        say("resumed", Map.of("first", first, "then", read(all - all / 2, false)));
    }

    private static List<List<Object>> read(int count, boolean commit) {
        List<List<Object>> seen = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        try (var consumer = consumer("resume")) {
            consumer.subscribe(List.of(topic("codecs")));
            await("records to resume", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(MOMENT)) {
                    if (seen.size() < count) {
                        seen.add(List.of(record.partition(), record.offset(), record.value()));
                        next.put(new TopicPartition(record.topic(), record.partition()),
                                new OffsetAndMetadata(record.offset() + 1));
                    }
                }
                return seen.size() >= count;
            });
            if (commit) {
                consumer.commitSync(next);
            }
        }
        return seen;
    }

    // ------------------------------------------------------------------------ times

    private static void times() throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (JsonNode time : plan.get("times")) {
            records.add(new ProducerRecord<>(topic("times"), time.get(0).asInt(),
                    time.get(1).asLong(), null, value("times", records.size())));
        }
        send(records, Map.of());
        Map<TopicPartition, Long> question = new HashMap<>();
        for (int partition = 0; partition < 3; partition++) {
            question.put(
                    new TopicPartition(topic("times"), partition),
                    plan.get("target_ms").asLong());
        }
        Map<String, Object> offsets = new TreeMap<>();
        Map<String, Object> read = new TreeMap<>();
        try (var consumer = consumer("times")) {
            consumer.offsetsForTimes(question).forEach((where, found) -> {
                offsets.put("" + where.partition(), found == null ? null : found.offset());
                if (found != null) {
                    consumer.assign(List.of(where));
                    consumer.seek(where, found.offset());
                    await("the record of a time", () -> {
                        for (ConsumerRecord<String, String> record : consumer.poll(MOMENT)) {
                            read.putIfAbsent("" + where.partition(),
                                    List.of(record.offset(), record.timestamp()));
                        }
                        return read.containsKey("" + where.partition());
                    });
                }
            });
        }
        say("times", Map.of("offsets", offsets, "read", read));
    }

    // ------------------------------------------------------------------------ all of them

    private static KafkaConsumer<String, String> consumer(String group) {
        StringDeserializer text = new StringDeserializer();
        return new KafkaConsumer<>(settings(Map.of(
                "group.id", topic(group),
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest")), text, text);
    }

    private static Properties settings(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", plan.get("bootstrap").asText());
        settings.putAll(more);
        return settings;
    }

    private static String topic(String name) {
        return plan.get("prefix").asText() + "-" + name;
    }

    private static String value(String label, int number) {
        return label + " " + number + " " + plan.get("padding").asText();
    }

    private static int number(String name) {
        return plan.get(name).asInt();
    }

    private static void await(String what, BooleanSupplier there) {
        long deadline = System.nanoTime() + plan.get("patience_s").asLong() * 1_000_000_000L;
        while (!there.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited too long for " + what);
            }
        }
    }

    private static void say(String step, Map<String, ?> fields) {
        Map<String, Object> line = new TreeMap<>(fields);
        line.put("step", step);
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (java.io.IOException impossible) {
            throw new java.io.UncheckedIOException(impossible);
        }
    }
}

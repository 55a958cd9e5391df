import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The worker of tests/cluster with the Java client: a producer, members of a group, and somebody
 * who asks for its offsets.
 *
 * <p>Two arguments: the plan, as JSON, and the path of the diary. Lines on standard input tell it
 * to be {@code quiet} and to {@code end}. Every setting that is not said here is the default.
 */
public final class Worker {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration MOMENT = Duration.ofMillis(100);
    private static final long COMMIT_NS = 500_000_000L;
    private static final long OBSERVE_MS = 200;

    private static JsonNode plan;
    private static FileOutputStream diary;
    private static volatile boolean quiet;
    private static volatile boolean end;

    public static void main(String[] args) throws Exception {
        plan = JSON.readTree(args[0]);
        diary = new FileOutputStream(args[1], true);
        List<Thread> threads = new ArrayList<>();
        if (plan.get("rate").asDouble() > 0) {
            threads.add(new Thread(told(Worker::send)));
        }
        for (int member = 0; member < plan.get("members").asInt(); member++) {
            String name = text("group") + "/" + member;
            threads.add(new Thread(told(() -> new Member(name).run())));
        }
        if (plan.get("members").asInt() > 0 && !is("assign")) {
            threads.add(new Thread(told(Worker::observe)));
        }
        if (is("bounds")) {
            threads.add(new Thread(told(Worker::bound)));
        }
        threads.forEach(Thread::start);
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            if (line.equals("quiet")) {
                quiet = true;
            }
            if (line.equals("end")) {
                break;
            }
        }
        quiet = true;
        end = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    // ------------------------------------------------------------------------ sending

    private static void send() throws Exception {
        String name = text("name");
        double rate = plan.get("rate").asDouble();
        int partitions = plan.get("partitions").asInt();
        StringSerializer text = new StringSerializer();
        Properties settings = settings(Map.of(
                "client.id", name, "enable.idempotence", text("idempotent")));
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            double began = now();
            int sent = 0;
            while (!quiet) {
                int due = (int) ((now() - began) * rate);
                while (sent < due) {
                    int number = sent++;
                    int partition = number % partitions;
                    write("sent", now(), name, number, partition);
                    var record = new ProducerRecord<String, String>(
                            text("topic"), partition, null, name + ":" + number);
                    producer.send(record, (at, error) -> delivered(name, number, at, error));
                }
                Thread.sleep(10);
            }
            producer.flush();
        }
        write("quiet", now(), name);
    }

    private static void delivered(String name, int number, RecordMetadata at, Exception error) {
        if (error != null) {
            write("refused", now(), name, number, error.getClass().getSimpleName());
        } else {
            write("acked", now(), name, number, at.partition(), at.offset());
        }
    }

    // ------------------------------------------------------------------------ reading

    private static final class Member implements ConsumerRebalanceListener {
        private final String name;
        private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        private final Map<Integer, Double> begun = new HashMap<>();
        private final KafkaConsumer<String, String> consumer;

        Member(String name) {
            this.name = name;
            StringDeserializer text = new StringDeserializer();
            consumer = new KafkaConsumer<>(settings(Map.of(
                    "group.id", text("group"),
                    "group.protocol", text("protocol"),
                    "enable.auto.commit", "false",
                    "auto.offset.reset", "earliest")), text, text);
        }

        void run() {
            if (is("assign")) {
                List<TopicPartition> all = new ArrayList<>();
                for (int number = 0; number < plan.get("partitions").asInt(); number++) {
                    all.add(new TopicPartition(text("topic"), number));
                }
                write("assigned", now(), name, numbers(all));
                consumer.assign(all);
                consumer.seekToBeginning(all);
            } else {
                consumer.subscribe(List.of(text("topic")), this);
            }
            long due = System.nanoTime() + COMMIT_NS;
            while (!end) {
                try {
                    double asked = now();
                    take(asked, consumer.poll(MOMENT));
                } catch (KafkaException error) {
                    write("error", now(), name, "read: " + error.getClass().getSimpleName());
                }
                if (System.nanoTime() >= due) {
                    commit();
                    due = System.nanoTime() + COMMIT_NS;
                }
            }
            commit();
            consumer.close();
        }

        private void take(double asked, ConsumerRecords<String, String> records) {
            double now = now();
            Map<String, List<Object[]>> rows = new TreeMap<>();
            for (ConsumerRecord<String, String> record : records) {
                int partition = record.partition();
                Double since = is("expires") ? null : begun.remove(partition);
                if (since != null) {
                    // It begins where the coordinator says, or at 0 if that says nothing.
                    long told = record.offset() == 0 ? -1 : record.offset();
                    write("fetched", since, now, text("group"), Map.of("" + partition, told));
                }
                rows.computeIfAbsent("" + partition, any -> new ArrayList<>())
                        .add(new Object[] {record.offset(), record.value().stripTrailing()});
                next.put(new TopicPartition(record.topic(), partition),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            if (!rows.isEmpty()) {
                write("polled", asked, now, name, rows);
            }
        }

        private void commit() {
            if (next.isEmpty() || is("assign")) {
                return;
            }
            double since = now();
            Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>(next);
            next.clear();
            try {
                consumer.commitSync(wanted);
            } catch (CommitFailedException | RebalanceInProgressException
                    | FencedInstanceIdException replaced) {
                // Its partitions are another's by now: there is nothing for an application to do.
                return;
            } catch (KafkaException error) {
                write("error", now(), name, "commit: " + error.getClass().getSimpleName());
                return;
            }
            Map<String, Long> offsets = new TreeMap<>();
            wanted.forEach((where, at) -> offsets.put("" + where.partition(), at.offset()));
            write("committed", since, now(), text("group"), offsets);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> given) {
            double now = now();
            List<Integer> numbers = numbers(given);
            numbers.forEach(number -> begun.put(number, now));
            write("assigned", now, name, numbers);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            commit();
            onPartitionsLost(taken);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> taken) {
            next.keySet().removeAll(taken);
            begun.keySet().removeAll(numbers(taken));
            write("revoked", now(), name, numbers(taken));
        }

        private static List<Integer> numbers(Collection<TopicPartition> some) {
            return some.stream().map(TopicPartition::partition).toList();
        }
    }

    private static void observe() throws Exception {
        String group = text("group");
        try (Admin admin = Admin.create(settings(Map.of()))) {
            while (!end) {
                Thread.sleep(OBSERVE_MS);
                double since = now();
                try {
                    Map<String, Long> offsets = new TreeMap<>();
                    for (int number = 0; number < plan.get("partitions").asInt(); number++) {
                        offsets.put("" + number, -1L);
                    }
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                            .forEach((where, at) ->
                                    offsets.put("" + where.partition(), at.offset()));
                    write("fetched", since, now(), group, offsets);
                } catch (ExecutionException error) {
                    String what = "offsets: " + error.getCause().getClass().getSimpleName();
                    write("error", now(), group + "/observer", what);
                }
            }
        }
    }

    /** Asks where partitions begin and end, one after another. */
    private static void bound() throws Exception {
        String who = "/" + text("name") + "-bounds";
        int partitions = plan.get("partitions").asInt();
        try (Admin admin = Admin.create(settings(Map.of()))) {
            for (int number = 0; !end; number = (number + 1) % partitions) {
                Thread.sleep(OBSERVE_MS / 4);
                var where = new TopicPartition(text("topic"), number);
                for (boolean isStart : new boolean[] {true, false}) {
                    double since = now();
                    OffsetSpec spec = isStart ? OffsetSpec.earliest() : OffsetSpec.latest();
                    try {
                        long offset = admin.listOffsets(Map.of(where, spec))
                                .partitionResult(where).get().offset();
                        String verb = isStart ? "starts" : "ends";
                        write(verb, since, now(), who, Map.of("" + number, offset));
                    } catch (ExecutionException error) {
                        String what = "bounds: " + error.getCause().getClass().getSimpleName();
                        write("error", now(), who, what);
                    }
                }
            }
        }
    }

    // ------------------------------------------------------------------------ all of them

    private interface Part {
        void run() throws Exception;
    }

    /** Let an end that nobody asked for be an error that an application sees. */
    private static Runnable told(Part part) {
        return () -> {
            try {
                part.run();
            } catch (Exception error) {
                error.printStackTrace();
                write("error", now(), text("name"), "ended: " + error);
            }
        };
    }

    private static Properties settings(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", text("bootstrap"));
        plan.get("java").fields().forEachRemaining(
                one -> settings.put(one.getKey(), one.getValue().asText()));
        if (plan.get("reconnect_ms_max").asInt() > 0) {
            settings.put("reconnect.backoff.max.ms", text("reconnect_ms_max"));
        }
        if (plan.get("retry_ms").asInt() > 0) {
            settings.put("retry.backoff.ms", text("retry_ms"));
            settings.put("retry.backoff.max.ms", text("retry_ms"));
            // A batch that overtakes another at a new leader is sent again, after that time.
            settings.put("max.in.flight.requests.per.connection", "1");
        }
        settings.putAll(more);
        return settings;
    }

    private static boolean is(String name) {
        return plan.get(name).asBoolean();
    }

    private static String text(String name) {
        return plan.get(name).asText();
    }

    /** Seconds of the machine's monotonic clock, which other processes tell alike. */
    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private static void write(Object... line) {
        try {
            byte[] text = (JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8);
            synchronized (diary) {
                diary.write(text);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

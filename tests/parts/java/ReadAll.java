import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic with the Java consumer, from its beginning to the end it had when the reading
 * began, and writes every record to standard output. The judge of what a Kafka client sees.
 *
 * <p>Arguments: bootstrap servers, topic, isolation level.
 *
 * <p>A record is, in big-endian order: partition (int32), offset (int64), timestamp (int64),
 * timestamp type (int8; -1 none, 0 create time, 1 log append time), key (bytes), value (bytes),
 * header count (int32), and per header its key (bytes, UTF-8) and value (bytes). "Bytes" are a
 * length (int32), where -1 is null, and that many bytes.
 */
public final class ReadAll {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] args) throws IOException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("isolation.level", args[2]);
        settings.put("enable.auto.commit", "false");
        settings.put("allow.auto.create.topics", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("max.poll.records", "10000");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes);
                var out = new DataOutputStream(new BufferedOutputStream(
                        new FileOutputStream(FileDescriptor.out), 1 << 20))) {
            List<TopicPartition> partitions = consumer.partitionsFor(args[1]).stream()
                    .map(p -> new TopicPartition(p.topic(), p.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            copy(consumer, consumer.endOffsets(partitions), out);
        }
    }

    private static void copy(KafkaConsumer<byte[], byte[]> consumer,
            Map<TopicPartition, Long> ends, DataOutputStream out) throws IOException {
        long lastProgress = System.nanoTime();
        while (!ends.entrySet().stream()
                .allMatch(end -> consumer.position(end.getKey()) >= end.getValue())) {
            var records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                lastProgress = System.nanoTime();
            } else if (System.nanoTime() - lastProgress > PATIENCE.toNanos()) {
                throw new IllegalStateException("no record for " + PATIENCE + " before " + ends);
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                // The log may have grown since its end was asked for.
                var partition = new TopicPartition(record.topic(), record.partition());
                if (record.offset() < ends.get(partition)) {
                    write(record, out);
                }
            }
        }
    }

    private static void write(ConsumerRecord<byte[], byte[]> record, DataOutputStream out)
            throws IOException {
        out.writeInt(record.partition());
        out.writeLong(record.offset());
        out.writeLong(record.timestamp());
        out.writeByte(record.timestampType().id);
        write(record.key(), out);
        write(record.value(), out);
        Header[] headers = record.headers().toArray();
        out.writeInt(headers.length);
        for (Header header : headers) {
            write(header.key().getBytes(StandardCharsets.UTF_8), out);
            write(header.value(), out);
        }
    }

    private static void write(byte[] bytes, DataOutputStream out) throws IOException {
        if (bytes == null) {
            out.writeInt(-1);
        } else {
            out.writeInt(bytes.length);
            out.write(bytes);
        }
    }
}

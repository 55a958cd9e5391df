import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Lets Kafka's own storage write and repair segments, so that ours can be held against them.
 *
 * <p>Arguments: any number of triples of a folder, a base offset and an index interval. In each
 * folder the batches of the file "run" are appended to a new segment in "appended", as a broker
 * appends them; and the lone log in "recovered", which may end in the middle of a batch, is
 * recovered, which writes its indexes and a producer snapshot.
 */
public final class Judge {
    private static final TopicPartition TOPIC = new TopicPartition("judged", 0);

    public static void main(String[] args) throws IOException, InterruptedException {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (int at = 0; at < args.length; at += 3) {
            Path folder = Path.of(args[at]);
            long base = Long.parseLong(args[at + 1]);
            Properties settings = new Properties();
            settings.put("index.interval.bytes", args[at + 2]);
            LogConfig config = new LogConfig(settings);
            append(Files.readAllBytes(folder.resolve("run")),
                    open(folder.resolve("appended"), base, config, false));
            recover(folder.resolve("recovered").toFile(),
                    open(folder.resolve("recovered"), base, config, true), scheduler);
        }
        scheduler.shutdown();
    }

    private static LogSegment open(Path folder, long base, LogConfig config, boolean exists)
            throws IOException {
        return LogSegment.open(folder.toFile(), base, config, Time.SYSTEM, exists, 0, false, "");
    }

    private static void append(byte[] run, LogSegment segment) throws IOException {
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(run)).batches()) {
            ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(one);
            one.flip();
            segment.append(batch.lastOffset(), MemoryRecords.readableRecords(one));
        }
        segment.onBecomeInactiveSegment();
        segment.close();
    }

    private static void recover(File folder, LogSegment segment, KafkaScheduler scheduler)
            throws IOException {
        var producers = new ProducerStateManager(TOPIC, folder, 900_000,
                new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
        var epochs = new LeaderEpochFileCache(TOPIC, new LeaderEpochCheckpointFile(
                new File(folder, "leader-epoch-checkpoint"), new LogDirFailureChannel(1)),
                scheduler);
        segment.recover(producers, epochs);
        producers.takeSnapshot();
        segment.close();
    }
}

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/**
 * Says where the Java producer puts keys, so that our choice can be held against it.
 *
 * <p>Arguments: a file of keys, each behind a number of partitions and its length; and the file that
 * is written, with the hash of each key and its partition. All numbers have 32 bits, big-endian.
 */
public final class Partitioner {
    public static void main(String[] args) throws IOException {
        Path from = Path.of(args[0]);
        long left = Files.size(from);
        try (var keys = new DataInputStream(new BufferedInputStream(Files.newInputStream(from)));
                var told = new DataOutputStream(
                        new BufferedOutputStream(Files.newOutputStream(Path.of(args[1]))))) {
            while (left > 0) {
                int partitions = keys.readInt();
                byte[] key = new byte[keys.readInt()];
                keys.readFully(key);
                left -= 2 * Integer.BYTES + key.length;
                told.writeInt(Utils.murmur2(key));
                told.writeInt(BuiltInPartitioner.partitionForKey(key, partitions));
            }
        }
    }
}

// A record there and back with Kafka's own client. Arguments: NAME=VALUE of the client's configs,
// and of the plan, which begin with "plan.".

import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;
import org.apache.kafka.common.serialization.*;

public class Secure {
    static final Properties plan = new Properties();

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        for (String one : args) {
            String[] pair = one.split("=", 2);
            (pair[0].startsWith("plan.") ? plan : config).put(pair[0], pair[1]);
        }
        String topic = plan.getProperty("plan.topic");
        int count = Integer.parseInt(plan.getProperty("plan.count"));
        long pause = (long) (1000 * Double.parseDouble(plan.getProperty("plan.pause_s")));
        config.put("max.block.ms", plan.getProperty("plan.within_s") + "000");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int at = 0; at < count; at++) {
                var record = new ProducerRecord<String, String>(topic, plan.getProperty("plan.value") + at);
                producer.send(record).get(60, TimeUnit.SECONDS);
                Thread.sleep(pause);
            }
        }
        config.put("group.id", topic);
        config.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            int found = 0;
            while (found < count && System.nanoTime() < until)
                found += consumer.poll(Duration.ofSeconds(1)).count();
            System.out.println(found == count ? "ok" : "found " + found);
        }
    }

    /** Hands out one token. */
    public static class Tokens implements AuthenticateCallbackHandler {
        public void configure(Map<String, ?> config, String mechanism, List<AppConfigurationEntry> jaas) {}
        public void close() {}
        public void handle(Callback[] callbacks) {
            for (Callback one : callbacks)
                if (one instanceof OAuthBearerTokenCallback callback) callback.token(new One());
        }
    }

    static class One implements OAuthBearerToken {
        public String value() { return plan.getProperty("plan.token"); }
        public Set<String> scope() { return Set.of(); }
        public long lifetimeMs() { return System.currentTimeMillis() + 600_000; }
        public String principalName() { return "alice"; }
        public Long startTimeMs() { return null; }
    }
}

// Records there and back with Kafka's own client, or a question about the cluster. Arguments: NAME=VALUE of the client's configs,
// and of the plan, which begin with "plan.".

import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.acl.AclBindingFilter;
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
        if (plan.getProperty("plan.wants").equals("cluster")) {
            try (var admin = Admin.create(config)) {
                admin.describeAcls(AclBindingFilter.ANY).values().get(60, TimeUnit.SECONDS);
            }
            System.out.println("ok");
            return;
        }
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int at = 0; at < count; at++) {
                var record = new ProducerRecord<String, String>(topic, plan.getProperty("plan.value") + at);
                producer.send(record).get(60, TimeUnit.SECONDS);
                Thread.sleep(pause);
            }
        }
        config.put("group.id", plan.getProperty("plan.group"));
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
}

// Prints the name of every config that a broker of this Kafka knows, or its authorizer.

import kafka.server.KafkaConfig;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

public final class Configs {
    public static void main(String[] args) {
        KafkaConfig.configDef().names().stream().sorted().forEach(System.out::println);
        System.out.println(StandardAuthorizer.SUPER_USERS_CONFIG);
        System.out.println(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG);
    }
}

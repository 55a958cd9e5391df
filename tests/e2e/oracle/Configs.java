// Prints the name of every config that a broker of this Kafka knows.

import kafka.server.KafkaConfig;

public final class Configs {
    public static void main(String[] args) {
        KafkaConfig.configDef().names().stream().sorted().forEach(System.out::println);
    }
}

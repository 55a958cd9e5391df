"""Real parts for tests and benchmarks: Apache Kafka, SeaweedFS and Spark, on loopback only."""

"""One log in two places: a real Kafka, and lakelog."""

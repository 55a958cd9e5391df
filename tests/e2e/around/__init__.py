"""What people run around a Kafka broker, run to the end on lakelog: its tools, Streams, Connect."""

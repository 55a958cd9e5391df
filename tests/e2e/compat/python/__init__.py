"""Workers in Python: confluent-kafka, aiokafka, kafka-python, and kcat."""

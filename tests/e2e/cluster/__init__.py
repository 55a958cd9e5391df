"""Three real brokers on one bucket, and clients that do not notice what becomes of them."""

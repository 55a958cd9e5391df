"""Something to see: a producer, a group that keeps up, and one that falls behind."""

import contextlib
import threading
from collections.abc import Iterator

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
RECORD = b"x" * 500


@contextlib.contextmanager
def traffic(bootstrap: str) -> Iterator[None]:
    """Let records come and be read, until the context ends."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    for made in client.create_topics([NewTopic(TOPIC, 3)]).values():
        made.result(30)
    over = threading.Event()
    tasks = [
        threading.Thread(target=_produce, args=(bootstrap, over)),
        threading.Thread(target=_consume, args=(bootstrap, "billing", 1_000, over)),
        threading.Thread(target=_consume, args=(bootstrap, "search", 5, over)),
    ]
    for task in tasks:
        task.start()
    try:
        yield
    finally:
        over.set()
        for task in tasks:
            task.join()


def _produce(bootstrap: str, over: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    number = 0
    while not over.wait(0.05):
        for _ in range(20):
            producer.produce(TOPIC, RECORD, key=str(number % 1000))
            number += 1
        producer.poll(0)
    producer.flush(30)


def _consume(bootstrap: str, group: str, records: int, over: threading.Event) -> None:
    """Read so many records at a time, and commit them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        while not over.wait(0.2):
            if consumer.consume(records, timeout=0.3):
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()

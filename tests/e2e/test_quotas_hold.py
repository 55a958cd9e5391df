"""Quotas hold, measured at clients: no more passes than they say, and no less; others do not wait.

librdkafka and Java, each with a client that has quotas and wants all it can get. Beside the first a
client without quotas sends at its own pace. ``LAKELOG_QUOTA_SECONDS`` says for how long: over a
minute a client has what its quota says within 5 %, and within 20 % over the ten seconds of CI, of
which a second may pass at once.
"""

import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lakelog_kafka_tools import quotas
from lakelog_kafka_tools.cluster import open_cluster
from tests.parts.kafka import tool
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.patience import HANGS_S

pytestmark = [pytest.mark.kafka, pytest.mark.alone]

SECONDS = float(os.environ.get("LAKELOG_QUOTA_SECONDS", "10"))  # noqa: TID251
BAND = 0.05 if SECONDS >= 60 else 0.2
WARM_S = 3.0
"""What a full bucket holds has passed by then."""

RATE = 400_000
FREE_RATE = 500_000
VALUE = b"v" * 1_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Lakelog]:
    with running_lakelog() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic("t", 2), NewTopic("read", 1)]).values():
            future.result(HANGS_S)
        yield running


def limit(broker: Lakelog, client: str, **rates: float) -> None:
    with closing(open_cluster(broker.bootstrap, {}, print)) as cluster:
        added = {key: str(value) for key, value in rates.items()}
        quotas.alter(cluster, ["clients"], [client], added, [])


def fill(broker: Lakelog, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "fill"})
    for _ in range(size // len(VALUE)):
        while True:
            try:
                producer.produce(topic, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(HANGS_S) == 0


class Window:
    """Counts what passes in a while, after a client has warmed up."""

    def __init__(self) -> None:
        self._from = time.monotonic() + WARM_S
        self.until = self._from + SECONDS
        self._count = 0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def saw(self, amount: int) -> None:
        if self._from <= time.monotonic() < self.until:
            self._count += amount

    @property
    def rate(self) -> float:
        return self._count / SECONDS


def produce(broker: Lakelog, client: str, pace: float | None) -> float:
    """Produce as fast as a client can, or at a pace; return bytes a second that were stored."""
    window = Window()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client,
            "linger.ms": 5,
            "batch.size": 32_768,
            "queue.buffering.max.kbytes": 4_096,
        }
    )
    began, sent = time.monotonic(), 0
    while not window.is_over:
        if pace is not None and sent > (time.monotonic() - began) * pace:
            producer.poll(0.005)
            continue
        try:
            producer.produce(
                "t", VALUE, on_delivery=lambda error, _: window.saw(0 if error else len(VALUE))
            )
            sent += len(VALUE)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    producer.purge()
    producer.flush(HANGS_S)
    return window.rate


def consume(broker: Lakelog, client: str) -> float:
    """Consume as fast as a client can; return bytes a second that came."""
    window = Window()
    given = {"bootstrap.servers": broker.bootstrap, "client.id": client, "group.id": client}
    with closing(Consumer(given)) as consumer:
        consumer.assign([TopicPartition("read", 0, 0)])
        while not window.is_over:
            for message in consumer.consume(100, 0.05):
                assert message.error() is None
                window.saw(len(message.value()))
    return window.rate


def ask(broker: Lakelog, client: str) -> float:
    """Ask for versions again and again; return how often a second an answer came."""
    window, name = Window(), client.encode()
    body = struct.pack(">hhih", 18, 0, 1, len(name)) + name
    host, port = broker.bootstrap.split(":")
    with socket.create_connection((host, int(port)), HANGS_S) as link:
        while not window.is_over:
            link.sendall(struct.pack(">i", len(body)) + body)
            left = 4 + struct.unpack(">i", link.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))[0]
            while left:
                left -= len(link.recv(left))
            window.saw(1)
    return window.rate


def at_once(*clients: Callable[[], float]) -> list[float]:
    with ThreadPoolExecutor(len(clients)) as pool:
        return [one.result(SECONDS + HANGS_S) for one in [pool.submit(run) for run in clients]]


def test_clients_with_quotas_have_what_they_say_and_others_do_not_wait(broker: Lakelog) -> None:
    fill(broker, "read", int(RATE * (SECONDS + WARM_S) * 1.5))
    limit(broker, "limited", producer_byte_rate=RATE, consumer_byte_rate=RATE)
    limit(broker, "small", request_percentage=2)
    limit(broker, "large", request_percentage=4)
    produced, consumed, free, small, large = at_once(
        lambda: produce(broker, "limited", None),
        lambda: consume(broker, "limited"),
        lambda: produce(broker, "free", FREE_RATE),
        lambda: ask(broker, "small"),
        lambda: ask(broker, "large"),
    )
    told = {
        "produced": produced / RATE,
        "consumed": consumed / RATE,
        "free": free / FREE_RATE,
        "requests": large / small / 2,
    }
    print({name: round(value, 3) for name, value in told.items()})  # noqa: T201
    assert told["produced"] == pytest.approx(1, abs=BAND)
    assert told["consumed"] == pytest.approx(1, abs=BAND)
    assert told["requests"] == pytest.approx(1, abs=BAND)
    assert told["free"] > 1 - BAND


def test_clients_of_java_have_what_their_quotas_say(broker: Lakelog) -> None:
    """Kafka's own tools of measurement, whose client ids are known; a second passes at once."""
    records = int(RATE * SECONDS / len(VALUE))
    fill(broker, "read", 2 * records * len(VALUE))
    limit(broker, "perf-producer-client", producer_byte_rate=RATE)
    limit(broker, "perf-consumer-client", consumer_byte_rate=RATE)
    done = tool(
        "kafka-producer-perf-test", "--topic", "t", "--num-records", str(records),
        "--record-size", str(len(VALUE)), "--throughput", "-1", "--producer-props",
        f"bootstrap.servers={broker.bootstrap}", "acks=all", "batch.size=32768", "linger.ms=5",
        within_s=SECONDS + 120,
    )  # fmt: skip
    assert done.rc == 0, done.stderr
    produced = float(re.findall(r"([\d.]+) records/sec", done.stdout)[-1]) * len(VALUE)
    done = tool(
        "kafka-consumer-perf-test", "--bootstrap-server", broker.bootstrap, "--topic", "read",
        "--num-records", str(records), "--hide-header", "--timeout", "60000",
        within_s=SECONDS + 120,
    )  # fmt: skip
    assert done.rc == 0, done.stderr
    fields = [one.strip() for one in done.stdout.strip().splitlines()[-1].split(",")]
    consumed = float(fields[9]) * len(VALUE)  # fetch.nMsg.sec
    at_first = SECONDS / (SECONDS - 1)
    told = {"produced": produced / RATE / at_first, "consumed": consumed / RATE / at_first}
    print({name: round(value, 3) for name, value in told.items()})  # noqa: T201
    assert told["produced"] == pytest.approx(1, abs=BAND)
    assert told["consumed"] == pytest.approx(1, abs=BAND)

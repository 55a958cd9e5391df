"""Ten thousand partitions in one broker, and a consumer that catches up on a long journal.

However many partitions a request is about, the loop never works for longer than 50 ms without a
break: the broker counts that itself. What is read from the store is read once, also when a consumer
comes late and the caches are small.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.host import new_id
from tests.e2e.broker.readings import metric, rss_bytes
from tests.e2e.broker.traffic import create_topic
from tests.parts.flaky_proxy import running_flaky_proxy
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import mortal
from tests.parts.processors import ticks
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import LateError, in_time

PARTITIONS = 10_000
EVERY = 5
"""Of so many partitions one gets a record by a request of its own."""

TRIES = 3

MEMORY_BYTES = CACHE_BYTES = 32 << 20
PARTITION_BYTES = 8 << 10
"""What a broker may keep of a partition: its place, its end, its watches, its newest batches."""

CATCH_UP_BYTES = int(os.environ.get("LAKELOG_CATCH_UP_BYTES", str(200 << 20)))  # noqa: TID251
CATCH_UP_CACHE_BYTES = 16 << 20
CATCH_UP_PARTITIONS = 8
GET_SHARE_MAX = 1.2

QUIET = {"log_level": 0}


def calmly(broker: Lakelog, what: str, do: Callable[[], object]) -> int:
    """Do something until the loop did not stall meanwhile; return how often it was done.

    Work that holds the loop holds it every time. A neighbour who takes the processor away in the
    middle of a slice, which virtual machines count as work, does not come back each time. One who
    does, and has more than a tenth of all time, has made stalls that are shorter than what he took.
    """
    seen: list[str] = []
    for tried in range(1, TRIES + 1):
        began, before = time.monotonic(), metric(broker, "lakelog_loop_stalls_total")
        before_s = metric(broker, "lakelog_loop_stall_seconds_total")
        processors = ticks()
        do()
        time.sleep(0.2)  # noqa: TID251 (a stall is counted when it is over)
        took_s = time.monotonic() - began
        stalls = metric(broker, "lakelog_loop_stalls_total") - before
        stalled_s = metric(broker, "lakelog_loop_stall_seconds_total") - before_s
        taken = ticks().since(processors)
        seen.append(
            f"{what}: {took_s:.1f} s, {stalls:.0f} stalls of {stalled_s:.2f} s, "
            f"{taken.stolen_s:.2f} s taken by others"
        )
        print(seen[-1])  # noqa: T201
        if not stalls or (taken.is_disturbed and stalled_s <= taken.stolen_s):
            return tried
    raise LateError("\n".join(["the loop was held", *seen]))


def create(broker: Lakelog, topic: str) -> None:
    """Create a topic and ask for it."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    assert len(admin.list_topics(timeout=30).topics[topic].partitions) == PARTITIONS


def produce_one_by_one(broker: Lakelog, topic: str) -> None:
    """A request for a partition: so does librdkafka."""
    errors: Counter[str] = Counter()

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors[error.name()] += 1

    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, **QUIET})
    for partition in range(0, PARTITIONS, EVERY):
        producer.produce(topic, b"one", partition=partition, on_delivery=delivered)
    in_time(producer.flush(60) == 0, "some are not acknowledged")
    assert not errors


def run_many(broker: Lakelog, what: str) -> None:
    """Let kafka-python do something with all partitions: see ``many``."""
    argv = [sys.executable, "-m", "tests.e2e.broker.many", what, broker.bootstrap, "t"]
    argv += [str(PARTITIONS)]
    ended = subprocess.run(mortal(argv), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]


def read_all(broker: Lakelog, topic: str, wanted: Counter[int]) -> None:
    """Read every partition to its end: it has as many records as it should."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "all",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: Counter[int] = Counter()
    end = time.monotonic() + 60
    while found.total() < wanted.total():
        in_time(time.monotonic() < end, f"{found.total()} records, and then none")
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None, message.error()
            partition = message.partition()
            assert partition is not None
            assert message.offset() == found[partition]
            found[partition] += 1
    consumer.close()
    assert found == wanted


@pytest.mark.timeout(480)
@pytest.mark.alone
def test_ten_thousand_partitions_do_not_hold_the_loop() -> None:
    arguments = ["--memory-bytes", str(MEMORY_BYTES), "--cache-bytes", str(CACHE_BYTES)]
    with running_lakelog(arguments=["--no-keep", *arguments]) as broker:
        idle_bytes = rss_bytes(broker)
        names = iter(["t", "u", "v"])
        calmly(broker, "creating and describing", lambda: create(broker, next(names)))
        some = calmly(
            broker, "producing, a partition a request", lambda: produce_one_by_one(broker, "t")
        )
        many = calmly(
            broker, "producing, many partitions a request", lambda: run_many(broker, "produce")
        )
        wanted = Counter({one: many + some * (one % EVERY == 0) for one in range(PARTITIONS)})
        calmly(broker, "reading all", lambda: read_all(broker, "t", wanted))
        calmly(broker, "following in a session", lambda: run_many(broker, "follow"))
        grown = rss_bytes(broker) - idle_bytes
        print(f"{idle_bytes >> 20} MiB idle, {grown >> 20} MiB more")  # noqa: T201
        assert grown < MEMORY_BYTES + CACHE_BYTES + PARTITIONS * PARTITION_BYTES


# ---------------------------------------------------------------------------- catching up


def fill(broker: Lakelog, topic: str, size_bytes: int) -> None:
    """Write so many bytes, of records that are not all alike."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 50,
            "batch.size": 500_000,
            "queue.buffering.max.kbytes": 65_536,
            **QUIET,
        }
    )
    value = os.urandom(10_000)
    for number in range(size_bytes // len(value)):
        while True:
            try:
                producer.produce(topic, value, partition=number % CATCH_UP_PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    in_time(producer.flush(120) == 0, "some are not acknowledged")


def catch_up(broker: Lakelog, topic: str, size_bytes: int) -> int:
    """Read from the beginning, and return the bytes of all values."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "late",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, one, 0) for one in range(CATCH_UP_PARTITIONS)])
    found, heard = 0, time.monotonic()
    while found < size_bytes // 10_000 * 10_000:
        in_time(time.monotonic() < heard + 60, f"{found} bytes, and then none")
        for message in consumer.consume(1_000, 0.2):
            assert message.error() is None, message.error()
            value, heard = message.value(), time.monotonic()
            assert value is not None
            found += len(value)
    consumer.close()
    return found


@pytest.mark.seaweedfs
@pytest.mark.timeout(240 + CATCH_UP_BYTES / (5 << 20))
def test_what_a_late_consumer_reads_is_read_once_from_the_store(seaweedfs: SeaweedFS) -> None:
    url = f"s3://{seaweedfs.bucket('scale')}/{new_id().hex()}"
    arguments = ["--init", "--no-keep", "--cache-bytes", str(CATCH_UP_CACHE_BYTES)]
    with ExitStack() as stack:
        proxy = stack.enter_context(running_flaky_proxy(seaweedfs.endpoint))
        options = {**seaweedfs.options, "endpoint": proxy.endpoint}
        broker = stack.enter_context(running_lakelog(url, options, arguments))
        create_topic(broker.bootstrap, "t", CATCH_UP_PARTITIONS)
        began = time.monotonic()
        fill(broker, "t", CATCH_UP_BYTES)
        filled_s = time.monotonic() - began
        broker.restart()
        idle_bytes = rss_bytes(broker)
        proxy.tally()
        began = time.monotonic()
        read_bytes = catch_up(broker, "t", CATCH_UP_BYTES)
        took_s, tally = time.monotonic() - began, proxy.tally()
        share = tally.answered_bytes["GET"] / read_bytes
        print(  # noqa: T201 (what -s shows)
            f"\n{read_bytes >> 20} MiB written in {filled_s:.1f} s, read in {took_s:.1f} s: "
            f"{share:.3f} of that in {tally.requests['GET']} GETs; "
            f"{idle_bytes >> 20} MiB idle, {rss_bytes(broker) >> 20} MiB afterwards"
        )
        assert share <= GET_SHARE_MAX

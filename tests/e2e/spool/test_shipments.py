"""A spool that is written to and shipped at once, while both are killed: equal, once, in order.

``LAKELOG_SPOOL_SHIPMENTS`` says how often somebody is killed, ``LAKELOG_SPOOL_RECORDS`` how many
records there are; ``make spool`` kills a hundred times over a million.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from confluent_kafka import Consumer, TopicPartition

import lakelog
from lakelog.catalog import create_topic, make_namespace
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import StoreSpec, run, working
from tests.e2e.spool.children import TOPIC, shipper, writer
from tests.parts.kafka import Kafka

KILLS = int(os.environ.get("LAKELOG_SPOOL_SHIPMENTS", "6"))  # noqa: TID251
RECORDS = int(os.environ.get("LAKELOG_SPOOL_RECORDS", "20000"))  # noqa: TID251
RANGE = max(RECORDS // 50, 1)

pytestmark = pytest.mark.timeout(300 + 20 * KILLS + RECORDS // 500)


def ship_under_kills(folder: Path, to: str, read: Callable[[], list[int]]) -> None:
    draw, killed = Random(KILLS), 0
    writing, shipping = writer(folder, "ms=5", count=RECORDS, batch=100), None
    while not (writing.told(0.05) or (folder / ".spool").exists()):
        pass
    while killed < KILLS:
        shipping = shipping or shipper(folder, to, range_records=RANGE)
        shipping.told(draw.uniform(0.05, 1.0))
        if draw.random() < 0.7:
            shipping.kill()
            shipping = None
        else:
            writing.kill()
            writing = writer(folder, "ms=5", count=RECORDS, batch=100)
        killed += 1
    if shipping is not None:
        shipping.kill()
    assert writing.join() == 0
    last = shipper(folder, to, range_records=RANGE, once=True)
    assert last.join() == 0
    assert read() == list(range(RECORDS))


def test_to_a_namespace(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/namespace"
    perform = working(StoreSpec(url).open().perform)
    run(make_namespace(new_id(), Rules(lanes=2)), perform)
    run(
        create_topic(TOPIC, topic_id=new_id(), partitions=1, lanes=2, now_ms=1, configs={}), perform
    )

    def read() -> list[int]:
        table = lakelog.scan(url, topics=[TOPIC], columns=["value"]).read_all()
        return [int(one) for one in table["value"].to_pylist()]

    ship_under_kills(tmp_path / "spool", url, read)


@pytest.mark.kafka
def test_to_kafka(tmp_path: Path, kafka: Kafka) -> None:
    kafka.create_topic(TOPIC)

    def read() -> list[int]:
        settings = {
            "bootstrap.servers": kafka.bootstrap, "group.id": "check",
            "isolation.level": "read_committed", "enable.partition.eof": False,
        }  # fmt: skip
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[int] = []
        while len(found) < RECORDS:
            some = consumer.consume(10_000, 10.0)
            if not some:
                break
            found += [int(one.value()) for one in some if one.error() is None]
        found += [int(one.value()) for one in consumer.consume(10, 2.0)]
        consumer.close()
        return found

    ship_under_kills(tmp_path / "spool", f"kafka://{kafka.bootstrap}", read)

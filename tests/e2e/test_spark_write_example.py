"""A Parquet lake is loaded into a topic, and a consumer that was there before sees it soon."""

import json
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from lakelog.host import new_id
from lakelog.log import Identity, read_decision
from lakelog.names import COMMITS_PREFIX, commit_of
from lakelog.store import ListPage, open_store, run, working
from tests.e2e.live.twins import create_topic, running_namespace
from tests.e2e.test_examples import run as run_example
from tests.patience import in_time

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROWS, PARTITIONS = 2_000, 3
PATIENCE_S = 10


class Watching:
    """A consumer that follows all partitions; it notes when the last record came."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": new_id().hex(), "log_level": 0}
        )
        self._consumer.assign([TopicPartition(topic, at, 0) for at in range(PARTITIONS)])
        self.values: list[bytes] = []
        self.last_ms = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")
                self.last_ms = time.time_ns() // 1_000_000
        self._consumer.close()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)


def test_a_lake_becomes_a_topic_that_consumers_see(tmp_path: Path) -> None:
    lake = tmp_path / "lake.parquet"
    pq.write_table(
        pa.table({"id": range(ROWS), "name": [f"name {at}" for at in range(ROWS)]}), lake
    )
    with running_namespace() as namespace:
        broker = namespace.broker
        create_topic(broker.bootstrap, "orders", PARTITIONS)
        watching = Watching(broker.bootstrap, "orders")
        try:
            done = run_example("lake_to_topic.py", lake, namespace.folder, "orders")
            assert done.returncode == 0, done.stderr[-4000:]
            deadline = time.monotonic() + 30
            while len(watching.values) < ROWS and time.monotonic() < deadline:
                time.sleep(0.01)  # noqa: TID251 (for the consumer)
        finally:
            watching.stop()
        perform = working(open_store(str(namespace.folder)).perform)
        (cell,) = perform(ListPage(COMMITS_PREFIX, "")).objects
        found = commit_of(cell.key)
        assert found is not None
        decision = run(read_decision(Identity(*found, is_stream=False)), perform)
    assert decision is not None
    assert decision.records == ROWS
    assert sorted(json.loads(value)["id"] for value in watching.values) == list(range(ROWS))
    late_s = (watching.last_ms - decision.decided_ms) / 1000
    print(f"seen {late_s:.2f} s after the commit")  # noqa: T201
    in_time(late_s < PATIENCE_S, late_s)  # How soon it is seen at best is in test_spark_write.
    assert "|records|max(offset)|" in done.stdout

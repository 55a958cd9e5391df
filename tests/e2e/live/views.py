"""What is in a topic, as each of those sees it who may look: a consumer, Spark, and the bucket.

consumer    from one offset to another, without a group
Spark       the same range
bucket      objects beside manifests, and those that manifests name
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from lakelog.catalog import list_topics, read_topic
from lakelog.errors import NotFoundError
from lakelog.manifests import Manifest, read_manifest, read_rows
from lakelog.names import LANES_PREFIX, PIPELINE_KEY, TIME_PREFIX, seq_of
from lakelog.store import StoreSpec, get, list_objects, retrying, run, working
from tests.e2e.live.endless import Told
from tests.patience import in_time

__all__ = ["Bucket", "Range", "View"]

_PATIENCE_S = 60.0

Range = Mapping[int, tuple[int, int]]
"""By partition: the first offset, and the one behind the last."""


class View:
    """A consumer that reads ranges of one topic, one after the other; a context."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "log_level": 0,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            }
        )

    def __enter__(self) -> "View":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def bounds(self, partitions: int) -> dict[int, tuple[int, int]]:
        """Where each partition begins and ends."""
        return {
            number: self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, number), timeout=_PATIENCE_S
            )
            for number in range(partitions)
        }

    def read(self, wanted: Range) -> Told:
        """All records of a range. Offsets must rise; whether some are missing is the caller's."""
        places = [TopicPartition(self._topic, n, first) for n, (first, _) in wanted.items()]
        self._consumer.assign(places)
        found: Told = {}
        last = {number: first - 1 for number, (first, _) in wanted.items()}
        open_ = {number for number, (first, end) in wanted.items() if first < end}
        deadline = time.monotonic() + _PATIENCE_S
        while open_:
            in_time(time.monotonic() < deadline, f"{sorted(open_)} did not end: at {last}")
            for message in self._consumer.consume(10_000, 0.1):
                number, offset, error = message.partition(), message.offset(), message.error()
                assert number is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    open_.discard(number)
                    continue
                assert offset is not None
                assert offset > last[number], f"{offset} comes after {last[number]}"
                last[number] = offset
                if offset < wanted[number][1]:
                    found[number, offset] = message.key(), message.value()
                if offset + 1 >= wanted[number][1]:
                    open_.discard(number)
        return found


class Bucket:
    """The namespace in a store, or a folder, without a broker."""

    def __init__(self, place: StoreSpec | Path) -> None:
        self.place = StoreSpec(f"file://{place}") if isinstance(place, Path) else place
        self.perform = working(retrying(self.place.open().perform))

    def by_spark(self, spark: SparkSession, topic: str, wanted: Range | None = None) -> Told:
        """The records of a range, or all there are."""
        options = {"path": self.place.url, "subscribe": topic}
        options |= {f"store.{name}": value for name, value in self.place.options.items()}
        if wanted is not None:
            for name, side in (("startingOffsets", 0), ("endingOffsets", 1)):
                of = {str(number): ends[side] for number, ends in wanted.items()}
                options[name] = json.dumps({topic: of})
        frame = spark.read.format("lakelog").options(**options).load()
        rows = frame.select("partition", "offset", "key", "value").toArrow().to_pylist()
        found = {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in rows}
        assert len(found) == len(rows), "some rows are there twice"
        return found

    def manifests(self, topic: str) -> list[Manifest]:
        """The history of each partition."""
        found = run(read_topic(topic), self.perform)
        wheres = [found.path_of(number) for number in range(found.partitions)]
        return [run(read_manifest(where), self.perform) for where in wheres]

    def sealed_ends(self, topic: str) -> list[int]:
        """Where the history of each partition ends."""
        return [manifest.sealed_end for manifest in self.manifests(topic)]

    def announced(self) -> int:
        """How many writes were announced of which nothing was heard since."""
        topics = [topic.name for topic in run(list_topics(), self.perform)]
        return sum(len(one.intents) for topic in topics for one in self.manifests(topic))

    def claim(self) -> bytes:
        """Who keeps the namespace, and until when; nothing, if nobody has claimed it."""
        try:
            return run(get(PIPELINE_KEY), self.perform)
        except NotFoundError:
            return b""

    def keys(self, prefix: str = "") -> set[str]:
        """The keys of all objects that there are below a prefix."""
        return {info.key for info in run(list_objects(prefix), self.perform)}

    def left_over(self) -> set[str]:
        """Objects that nobody names: segments, pages, and moments of the clock."""
        named: set[str] = set()
        for topic in run(list_topics(), self.perform):
            for one in topic.incarnations():
                for number in range(one.partitions):
                    where = one.path_of(number)
                    manifest = run(read_manifest(where), self.perform)
                    rows = run(read_rows(where, manifest), self.perform)
                    stems = {row.name for row in rows} | {page.name for page in manifest.pages}
                    named |= {where.prefix + stem for stem in stems}
                    assert not manifest.intents, f"{where}: {manifest.intents}"
        keys = self.keys()
        # A segment may lack an index, but not itself.
        there = {key.rpartition(".")[0] for key in keys if key.endswith((".kfs", ".json"))}
        assert named <= there, f"{named - there}: named, and not there"
        beside = {key for key in keys if key.rpartition("/")[2].startswith(("segment-", "page-"))}
        left = {key for key in beside if key.rpartition(".")[0] not in named}
        return left | {key for key in keys if key.startswith(TIME_PREFIX)}

    def deleted_bundles(self) -> int:
        """How many bundles were deleted from the beginnings of all lanes."""
        firsts: dict[str, int] = {}
        for key in self.keys(LANES_PREFIX):
            lane, _, name = key.rpartition("/")
            seq = seq_of(key)
            if name.endswith(".bundle") and seq is not None:
                firsts[lane] = min(seq, firsts.get(lane, seq))
        return sum(firsts.values())

"""A town: everybody, what they share, and what every one of them does alike."""

import struct
from collections import Counter
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING

from crc32c import crc32c

from lakelog.catalog import Topic, cleanup_policy
from lakelog.errors import LakelogError, NotFoundError
from lakelog.journal import Append, Lane, StoreTime, new_append, new_lane
from lakelog.log import Bounds, Chunk, OutOfRange
from lakelog.maintenance import SealSettings
from lakelog.model import Rules
from lakelog.store import Work
from lakelog.testing.keyed import KEYS, make_keyed_batch
from lakelog.testing.process import Process
from lakelog.testing.truth import Anomaly, Truth
from lakelog.testing.world import REFUSED, World

if TYPE_CHECKING:
    from lakelog.testing.brokers import Broker, Producer, Stranger

__all__ = ["PLAIN", "SEALS", "Town", "expected", "is_compacted", "make_batch"]

PLAIN = (-1, -1, -1)
"""No producer: a batch may be stored twice, and nobody would know."""
SEALS = SealSettings(group_bytes=1000, segment_bytes=600)
FAVOURED = 0.8


def make_batch(number: int, count: int, producer: tuple[int, int, int], now_ms: int) -> bytes:
    """Return a batch of ``count`` records whose bytes nobody else has."""
    records = b"".join(
        bytes((28, 0, 0, 2 * at, 1, 16)) + number.to_bytes(8, "big") + b"\0" for at in range(count)
    )
    signed = struct.pack(
        ">hiqqqhii", 0, count - 1, now_ms, now_ms, producer[0], producer[1], producer[2], count
    )
    body = signed + records
    return struct.pack(">qiibI", 0, 9 + len(body), 0, 2, crc32c(body)) + body


@dataclass(slots=True)
class Town:
    """Everybody, and what they share."""

    world: World
    truth: Truth
    rules: Rules
    topics: dict[str, Topic] = field(default_factory=dict)
    brokers: list["Broker"] = field(default_factory=list)
    producers: list["Producer"] = field(default_factory=list)
    strangers: list["Stranger"] = field(default_factory=list)
    batches: int = 0
    acks: int = 0
    reads: int = 0
    unknown: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    """What happened, and how often."""
    favourite: str = ""
    is_forgetful: bool = False
    """Whether lanes forget soon: then clients give up sooner, as they do in the large."""

    @property
    def random(self) -> Random:
        return self.world.random

    def lane(self, process: Process) -> Lane:
        """Return a lane of which a process knows nothing yet."""
        return new_lane(0, self.rules, process, self.world.ids, time=StoreTime())

    def count_ways(self, lane: Lane) -> None:
        """Count which ways a lane has gone since it was asked last."""
        self.ways.update(lane.counters)
        lane.counters.clear()

    def count(self, what: str, times: int = 1) -> None:
        """Count something that happened."""
        self.ways[what] += times

    def batch(self, topic: Topic, partition: int, producer: tuple[int, int, int] = PLAIN) -> Append:
        """Return a batch that nobody has sent yet."""
        self.batches += 1
        count, now_ms = self.world.some(1, 4), self.world.store_ms()
        if not is_compacted(topic):
            body = make_batch(self.batches, count, producer, now_ms)
            return new_append(topic.id, partition, body)
        drawn = [(self.world.some(0, KEYS), self.random.random()) for _ in range(count)]
        body = make_keyed_batch(self.batches, drawn, producer, now_ms)
        append = new_append(topic.id, partition, body)
        self.truth.keyed.send(append.rows[0].crc, body)
        return append

    def some_offset(self, asked: Bounds) -> int:
        """Draw an offset to read at: within, at an edge, or just beyond."""
        low, high = asked.log_start, asked.end
        within = self.random.randint(min(low, high), high)
        return self.random.choice((low, high, high + 1, within))

    def judged(
        self,
        flow: Work[Chunk | OutOfRange],
        topic: Topic,
        topic_partition: tuple[bytes, int],
        offset: int,
        asked: Bounds,
    ) -> Work[Chunk | OutOfRange | None]:
        """Read, and compare with the truth; None if there was no answer."""
        try:
            found = yield from flow
        except NotFoundError:
            manifest = self.truth.manifest_of(topic_partition)
            is_gone = manifest is not None and manifest.deleted
            if not (topic.id in self.truth.deleted or topic.deleted or is_gone):
                raise Anomaly(f"J6: {topic_partition} unknown") from None
            return None
        except LakelogError as error:
            expected(error)
            return None
        self.truth.judge_read(topic_partition, offset, found, asked=asked)
        self.reads += 1
        return found

    def some_partition(self) -> tuple[Topic, int]:
        """Draw a partition; in some towns most of what happens, happens to one topic."""
        favoured = self.favourite and self.random.random() < FAVOURED
        topic = self.topics[self.favourite if favoured else self.random.choice(sorted(self.topics))]
        return topic, self.random.randrange(topic.partitions)


def is_compacted(topic: Topic) -> bool:
    """Say whether records may go when newer ones of their keys are there."""
    return "compact" in cleanup_policy(topic.configs)


def expected(error: LakelogError) -> None:
    """See that an error is one of those that go away."""
    if not error.retryable and REFUSED not in str(error):
        raise Anomaly(f"an error that nothing explains: {error}") from error

"""A topic, and its cell.

    {"format": 1, "name": "orders", "id": "6f1c…", "incarnation": 0, "partitions": 12, "lanes": 4,
     "configs": {"retention.ms": "86400000"}, "created_ms": …, "closed": false, "deleted": false,
     "deleted_ms": 0, "retired": [["id", incarnation, partitions, lanes, deleted_ms]],
     "writers": ["…"], "lanes_before": [[partitions, lanes]]}

A partition stays in its lane. When a namespace has got more lanes, partitions that are added to a
topic use all of them; ``lanes_before`` says how many there were for the partitions below a number,
also in the rows of ``retired``, as a sixth value. It is there for such topics only: version 0.1.0
does not know it, and refuses them.

``writers`` are the ids of the last writes, by which a write whose answer was lost is found again.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from itertools import pairwise
from typing import Any, NamedTuple

from lakelog.errors import CorruptError
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.manifests import PartitionPath
from lakelog.names import LANES_MAX, lane_of, topic_key, topic_path

__all__ = ["PARTITIONS_MAX", "LanesBefore", "Retired", "Topic", "decode_topic", "encode_topic"]

FORMAT = 1
PARTITIONS_MAX = 100_000
WRITERS_MAX = 8


class Retired(NamedTuple):
    """A deleted topic of this name, of which something may be left."""

    id: str
    incarnation: int
    partitions: int
    lanes: int
    deleted_ms: int
    lanes_before: "tuple[LanesBefore, ...]" = ()


class LanesBefore(NamedTuple):
    """The partitions below a number are in so many lanes."""

    partitions: int
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One incarnation of a topic."""

    name: str
    id: bytes
    incarnation: int = 0
    partitions: int
    lanes: int
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    closed: bool = False
    deleted: bool = False
    deleted_ms: int = 0
    retired: tuple[Retired, ...] = ()
    writers: tuple[str, ...] = ()
    lanes_before: tuple[LanesBefore, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it may be read and appended to."""
        return not self.deleted and not self.closed

    @property
    def path(self) -> str:
        return topic_path(self.name, self.incarnation)

    def path_of(self, partition: int) -> PartitionPath:
        """Return where the history of a partition is."""
        return PartitionPath(self.id, self.path, partition)

    def lane(self, partition: int) -> int:
        for below, lanes in self.lanes_before:
            if partition < below:
                return lane_of(self.id, partition, lanes)
        return lane_of(self.id, partition, self.lanes)

    def lanes_of_all(self) -> list[int]:
        """Return the lane of each partition."""
        found: list[int] = []
        for below, lanes in (*self.lanes_before, LanesBefore(self.partitions, self.lanes)):
            first = lane_of(self.id, 0, lanes)
            found += [(first + at) % lanes for at in range(len(found), below)]
        return found

    def lanes_used(self) -> list[int]:
        """Return every lane that has a partition of it."""
        return sorted(set(self.lanes_of_all()))

    def incarnations(self) -> Iterator["Topic"]:
        """Yield it, and the deleted ones of this name that are still remembered."""
        yield self
        for row in self.retired:
            yield replace(
                self,
                id=bytes.fromhex(row.id),
                incarnation=row.incarnation,
                partitions=row.partitions,
                lanes=row.lanes,
                lanes_before=row.lanes_before,
                closed=False,
                deleted=True,
                deleted_ms=row.deleted_ms,
                retired=(),
            )


def encode_topic(topic: Topic, write: str) -> bytes:
    """Return the cell of a topic, which a write of this id has made what it is."""
    fields = {
        "format": FORMAT,
        "name": topic.name,
        "id": topic.id.hex(),
        "incarnation": topic.incarnation,
        "partitions": topic.partitions,
        "lanes": topic.lanes,
        "configs": dict(topic.configs),
        "created_ms": topic.created_ms,
        "closed": topic.closed,
        "deleted": topic.deleted,
        "deleted_ms": topic.deleted_ms,
        "retired": [row if row.lanes_before else row[:-1] for row in topic.retired],
        "writers": (*topic.writers, write)[-WRITERS_MAX:],
    }
    if topic.lanes_before:
        fields["lanes_before"] = topic.lanes_before
    return json.dumps(fields).encode()


def _retired(row: list[Any]) -> Retired:
    id_, *numbers = row[:5]
    incarnation, partitions, lanes, deleted_ms = map(number, numbers)
    before = _lanes_before(row[5] if len(row) > 5 else [], partitions, lanes)
    return Retired(bytes.fromhex(id_).hex(), incarnation, partitions, lanes, deleted_ms, before)


def _lanes_before(rows: list[Any], partitions: int, lanes: int) -> tuple[LanesBefore, ...]:
    """Return how lanes grew until there were so many, with each row more of both."""
    found = tuple(LanesBefore(*map(number, row)) for row in rows)
    for one, next_ in pairwise((LanesBefore(0, 0), *found, LanesBefore(partitions, lanes))):
        if one.partitions >= next_.partitions or one.lanes >= next_.lanes:
            raise ValueError(f"lanes {rows}")
    return found


_FIELDS = frozenset(one.name for one in fields_of(Topic))
"""Each has its name in the cell."""


def decode_topic(data: Bytes, name: str) -> Topic:
    """Return the topic in a cell.

    Raises:
        CorruptError: it is none, or another's.
        UnsupportedError: a later version made it.
    """
    with decoding("topic", topic_key(name)):
        fields = decode_fields(data, format_=FORMAT, where=topic_key(name), known=_FIELDS)
        partitions, lanes = number(fields["partitions"]), number(fields["lanes"])
        topic = Topic(
            name=str(fields["name"]),
            id=bytes.fromhex(fields["id"]),
            incarnation=number(fields["incarnation"]),
            partitions=partitions,
            lanes=lanes,
            configs={str(key): str(value) for key, value in fields["configs"].items()},
            created_ms=number(fields["created_ms"]),
            closed=fields.get("closed") is True,
            deleted=fields["deleted"] is True,
            deleted_ms=number(fields["deleted_ms"]),
            retired=tuple(map(_retired, fields["retired"])),
            writers=tuple(map(str, fields["writers"])),
            lanes_before=_lanes_before(
                fields.get("lanes_before", []),
                number(fields["partitions"]),
                number(fields["lanes"]),
            ),
        )
    fits = 1 <= topic.lanes <= LANES_MAX and 1 <= topic.partitions <= PARTITIONS_MAX
    if topic.name != name or len(topic.id) != 16 or not fits:
        what = f"it is of {topic.name!r}, {topic.partitions} partitions in {topic.lanes} lanes"
        raise CorruptError(what, at=0, where=topic_key(name))
    return topic

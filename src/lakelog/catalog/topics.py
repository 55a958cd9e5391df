"""Topics: cells in the bucket, and nowhere else.

    {"format": 1, "name": "orders", "id": "6f1c…", "incarnation": 0, "partitions": 12, "lanes": 4,
     "configs": {"retention.ms": "86400000"}, "created_ms": …, "closed": false, "deleted": false,
     "deleted_ms": 0, "retired": [["id", incarnation, partitions, lanes, deleted_ms]],
     "writers": ["…"]}

A topic of a name that was used before is a new incarnation, with a new id and a path of its own, so
that nothing of the old one can be taken for the new one's. The cell survives deletion: it remembers
the incarnation, and in ``retired`` the topics of this name whose objects are still to be removed.

A topic that is ``closed`` has its name and its place, and nobody reads it, appends to it or keeps
it, until whoever is filling its history opens it. That is how a topic is imported.

Deleting a topic is done in this order: the cell says so, so that brokers stop; then a row in each
of its lanes, behind which no batch of it can come; then its history, by the pipeline.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from typing import NamedTuple

from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
)
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.manifests import PartitionPath
from lakelog.names import (
    LANES_MAX,
    STAGING,
    check_topic_name,
    lane_of,
    topic_key,
    topic_path,
)
from lakelog.store import Work, change_cell, read_cell

__all__ = [
    "Retired",
    "Topic",
    "configure_topic",
    "create_topic",
    "decode_topic",
    "delete_topic",
    "forget_retired",
    "grow_topic",
    "open_topic",
    "read_topic",
]

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
        return lane_of(self.id, partition, self.lanes)

    def lanes_used(self) -> list[int]:
        """Return every lane that has a partition of it."""
        return sorted({self.lane(partition) for partition in range(self.partitions)})

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
                closed=False,
                deleted=True,
                deleted_ms=row.deleted_ms,
                retired=(),
            )


def create_topic(
    name: str,
    *,
    topic_id: bytes,
    partitions: int,
    lanes: int,
    now_ms: int,
    configs: Mapping[str, str] | None = None,
    closed: bool = False,
) -> Work[Topic]:
    """Make a topic, or its next incarnation.

    Raises:
        ConflictError: there is one of this name.
    """
    check_topic_name(name)
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidInputError(f"{partitions} partitions: use 1 to {PARTITIONS_MAX}")
    if not 1 <= lanes <= LANES_MAX or len(topic_id) != 16:
        what = f"{lanes} lanes, id {topic_id.hex()}"
        raise InvalidInputError(f"{what}: use 1 to {LANES_MAX} lanes, an id of 16 bytes")
    mine = topic_id.hex()
    new = Topic(
        name=name,
        id=topic_id,
        partitions=partitions,
        lanes=lanes,
        configs=configs or {},
        created_ms=now_ms,
        closed=closed,
    )

    def made(body: bytes | None) -> bytes | None:
        if body is None:
            return _encode(new, mine)
        now = decode_topic(body, name)
        if not now.deleted:
            return None
        old = Retired(now.id.hex(), now.incarnation, now.partitions, now.lanes, now.deleted_ms)
        next_ = replace(
            new,
            incarnation=now.incarnation + 1,
            retired=(*now.retired, old),
            writers=now.writers,
        )
        return _encode(next_, mine)

    topic = yield from _changed(name, made, mine)
    if topic.id != topic_id:
        raise ConflictError(f"there is a topic {name!r} already: choose another name")
    return topic


def delete_topic(name: str, topic_id: bytes, write: bytes, *, now_ms: int) -> Work[Topic]:
    """Let the cell say that a topic is deleted; its lanes must be told as well.

    Raises:
        NotFoundError: there is no such topic, or the name is another's by now.
    """

    def gone(now: Topic) -> Topic:
        return now if now.deleted else replace(now, deleted=True, deleted_ms=now_ms)

    return (yield from _altered(name, topic_id, write, gone))


def open_topic(name: str, topic_id: bytes, write: bytes) -> Work[Topic]:
    """Let a closed topic be read and appended to.

    Raises:
        NotFoundError: it was deleted, or the name is another's by now.
    """

    return (yield from _altered_open(name, topic_id, write, lambda now: replace(now, closed=False)))


def grow_topic(name: str, topic_id: bytes, write: bytes, partitions: int) -> Work[Topic]:
    """Let a topic have more partitions. Records stay where they are; keys may move.

    Raises:
        NotFoundError: it was deleted, or the name is another's by now.
        ConflictError: it has other partitions by now, and as many or more.
        InvalidInputError: these are too many.
    """
    if partitions > PARTITIONS_MAX:
        raise InvalidInputError(f"{partitions} partitions: use at most {PARTITIONS_MAX}")

    def grown(now: Topic) -> Topic:
        return replace(now, partitions=max(partitions, now.partitions))

    topic = yield from _altered_open(name, topic_id, write, grown)
    if write.hex() not in topic.writers:
        raise ConflictError(
            f"{name!r} has {topic.partitions} partitions, and {partitions} would not be more"
        )
    return topic


def configure_topic(
    name: str, topic_id: bytes, write: bytes, alter: Callable[[Mapping[str, str]], dict[str, str]]
) -> Work[Topic]:
    """Give a topic the configs that ``alter`` makes of those it has now.

    Raises:
        NotFoundError: it was deleted, or the name is another's by now.
    """

    def configured(now: Topic) -> Topic:
        return replace(now, configs=alter(now.configs))

    return (yield from _altered_open(name, topic_id, write, configured))


def forget_retired(name: str, retired_id: bytes, write: bytes) -> Work[Topic]:
    """Forget a deleted topic of which nothing is left."""

    def forgotten(now: Topic) -> Topic:
        left = tuple(row for row in now.retired if row.id != retired_id.hex())
        return replace(now, retired=left)

    return (yield from _altered(name, None, write, forgotten))


def read_topic(name: str) -> Work[Topic]:
    """Return the topic of a name, also a deleted one.

    Raises:
        NotFoundError: there was never one.
    """
    if name != STAGING:  # One that was made before the name was reserved can be deleted.
        check_topic_name(name)
    found = yield from read_cell(topic_key(name))
    if found is None:
        raise _missing(name)
    return decode_topic(found.body, name)


def _altered_open(
    name: str, topic_id: bytes, write: bytes, alter: Callable[[Topic], Topic]
) -> Work[Topic]:
    """Change a topic that is not deleted."""
    topic = yield from _altered(
        name, topic_id, write, lambda now: now if now.deleted else alter(now)
    )
    if topic.deleted:
        raise _missing(name)
    return topic


def _altered(
    name: str, topic_id: bytes | None, write: bytes, alter: Callable[[Topic], Topic]
) -> Work[Topic]:
    """Change a topic, of this id if one is given, unless it is as it should be already."""

    def other(body: bytes | None) -> bytes | None:
        now = None if body is None else decode_topic(body, name)
        if now is None or topic_id not in (None, now.id):
            return None
        next_ = alter(now)
        return None if next_ == now else _encode(next_, write.hex())

    topic = yield from _changed(name, other, write.hex())
    if topic_id not in (None, topic.id):
        raise _missing(name)
    return topic


def _changed(name: str, alter: Callable[[bytes | None], bytes | None], mine: str) -> Work[Topic]:
    body = yield from change_cell(
        topic_key(name), alter, lambda found: mine in decode_topic(found, name).writers
    )
    if body is None:
        raise _missing(name)
    return decode_topic(body, name)


def _missing(name: str) -> NotFoundError:
    return NotFoundError(f"there is no topic {name!r}: check the name, or create it")


def _encode(topic: Topic, write: str) -> bytes:
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
        "retired": topic.retired,
        "writers": (*topic.writers, write)[-WRITERS_MAX:],
    }
    return json.dumps(fields).encode()


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
        topic = Topic(
            name=str(fields["name"]),
            id=bytes.fromhex(fields["id"]),
            incarnation=number(fields["incarnation"]),
            partitions=number(fields["partitions"]),
            lanes=number(fields["lanes"]),
            configs={str(key): str(value) for key, value in fields["configs"].items()},
            created_ms=number(fields["created_ms"]),
            closed=fields.get("closed") is True,
            deleted=fields["deleted"] is True,
            deleted_ms=number(fields["deleted_ms"]),
            retired=tuple(
                Retired(bytes.fromhex(id_).hex(), *map(number, rest))
                for id_, *rest in fields["retired"]
            ),
            writers=tuple(map(str, fields["writers"])),
        )
    fits = 1 <= topic.lanes <= LANES_MAX and 1 <= topic.partitions <= PARTITIONS_MAX
    if topic.name != name or len(topic.id) != 16 or not fits:
        what = f"it is of {topic.name!r}, {topic.partitions} partitions in {topic.lanes} lanes"
        raise CorruptError(what, at=0, where=topic_key(name))
    return topic

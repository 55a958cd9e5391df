"""Topics: cells in the bucket (``topic_cells``), and nowhere else.

A topic of a name that was used before is a new incarnation, with a new id and a path of its own, so
that nothing of the old one can be taken for the new one's. The cell survives deletion: it remembers
the incarnation, and in ``retired`` the topics of this name whose objects are still to be removed.

A topic that is ``closed`` has its name and its place, and nobody reads it, appends to it or keeps
it, until whoever is filling its history opens it. That is how a topic is imported.

Deleting a topic is done in this order: the cell says so, so that brokers stop; then a row in each
of its lanes, behind which no batch of it can come; then its history, by the pipeline.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.catalog.topic_cells import (
    PARTITIONS_MAX,
    LanesBefore,
    Retired,
    Topic,
    decode_topic,
    encode_topic,
)
from lakelog.errors import ConflictError, InvalidInputError, NotFoundError
from lakelog.names import LANES_MAX, STAGING, check_topic_name, topic_key
from lakelog.store import Work, change_cell, read_cell

__all__ = [
    "configure_topic",
    "create_topic",
    "delete_topic",
    "forget_retired",
    "grow_topic",
    "open_topic",
    "read_topic",
]


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
            return encode_topic(new, mine)
        now = decode_topic(body, name)
        if not now.deleted:
            return None
        old = Retired(
            now.id.hex(),
            now.incarnation,
            now.partitions,
            now.lanes,
            now.deleted_ms,
            now.lanes_before,
        )
        next_ = replace(
            new,
            incarnation=now.incarnation + 1,
            retired=(*now.retired, old),
            writers=now.writers,
        )
        return encode_topic(next_, mine)

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


def grow_topic(
    name: str, topic_id: bytes, write: bytes, partitions: int, lanes: int
) -> Work[Topic]:
    """Let a topic have more partitions. Records stay where they are; keys may move.

    The new ones are in so many lanes, of which the namespace may have more by now than the topic.

    Raises:
        NotFoundError: it was deleted, or the name is another's by now.
        ConflictError: it has other partitions by now, and as many or more.
        InvalidInputError: these are too many.
    """
    if partitions > PARTITIONS_MAX:
        raise InvalidInputError(f"{partitions} partitions: use at most {PARTITIONS_MAX}")

    def grown(now: Topic) -> Topic:
        if partitions <= now.partitions:
            return now
        before = now.lanes_before
        if lanes > now.lanes:
            before = (*before, LanesBefore(now.partitions, now.lanes))
        return replace(now, partitions=partitions, lanes=max(lanes, now.lanes), lanes_before=before)

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
        return None if next_ == now else encode_topic(next_, write.hex())

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

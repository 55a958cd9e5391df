"""What an attempt of a bulk write puts beside the log, and what it says of it.

    identity   which write it is an attempt of; every task says so first
    batches    objects of runs of batches, each of one partition, offsets counted from 0
    plan       where every run lies; made when all tasks are done

Nothing of this is part of the log. It becomes so by ``writes``.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lakelog.errors import CorruptError
from lakelog.formats import Bytes, decode_fields, number
from lakelog.formats.lanes import Slice
from lakelog.history.manifests import put_named
from lakelog.names import identity_key, plan_key, staged_key
from lakelog.store import Body, Work, read_cell

__all__ = [
    "Identity",
    "Staged",
    "announce_write",
    "decode_plan",
    "encode_plan",
    "read_identity",
    "stage",
]

FORMAT = 1


class Identity(NamedTuple):
    """Of a write: at most one attempt of it ever counts."""

    query: bytes
    """The streaming query, 16 bytes; drawn anew for a batch job."""
    number: int
    """The batch of the query; 0 for a batch job."""
    is_stream: bool


class Staged(NamedTuple):
    """A run of batches of one partition, in a staged object."""

    lane: int
    topic: bytes
    partition: int
    part: int
    """The number of the object, in its attempt and lane."""
    position: int
    length: int
    offsets: int
    min_timestamp: int
    max_timestamp: int


def announce_write(identity: Identity, write: bytes) -> Work[None]:
    """Say what an attempt is of. Every task does, before its first object."""
    fields = {"format": FORMAT, "query": identity.query.hex(), "number": identity.number}
    body = json.dumps({**fields, "is_stream": identity.is_stream}).encode()
    yield from put_named(identity_key(write), body)


def read_identity(write: bytes) -> Work[Identity | None]:
    """Return what an attempt is of; None if it never said so, or was swept.

    Raises:
        CorruptError: it is no identity.
    """
    key = identity_key(write)
    found = yield from read_cell(key)
    if found is None:
        return None
    try:
        fields = decode_fields(found.body, format_=FORMAT, where=key)
        query, is_stream = bytes.fromhex(fields["query"]), bool(fields["is_stream"])
        return Identity(query, number(fields["number"]), is_stream)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"it is no identity: {error!r}", at=0, where=key) from error


def stage(write: bytes, lane: int, part: int, body: Body) -> Work[None]:
    """Put batches beside the log. ``part`` is used by one task, and by one attempt of it."""
    yield from put_named(staged_key(write, lane, part), body)


def encode_plan(staged: Sequence[Staged]) -> bytes:
    """Return where every run lies, by lane and partition, in the order in which it was staged."""
    rows = [[one.lane, one.topic.hex(), *one[2:]] for one in sorted(staged, key=_by_place)]
    return json.dumps({"format": FORMAT, "runs": rows}).encode()


def decode_plan(data: Bytes, write: bytes) -> dict[int, tuple[Slice, ...]]:
    """Return the runs of every lane.

    Raises:
        CorruptError: it is no plan.
    """
    where = plan_key(write)
    try:
        fields = decode_fields(data, format_=FORMAT, where=where)
        rows = [
            Staged(number(lane), bytes.fromhex(topic), *map(number, rest))
            for lane, topic, *rest in fields["runs"]
        ]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"it is no plan: {error!r}", at=0, where=where) from error
    return {
        lane: tuple(_run(one) for one in some)
        for lane, some in groupby(rows, key=lambda one: one.lane)
    }


def _run(one: Staged) -> Slice:
    return Slice(
        topic=one.topic,
        partition=one.partition,
        batches=0,
        base_offset=0,
        offsets=one.offsets,
        position=one.position,
        length=one.length,
        min_timestamp=one.min_timestamp,
        max_timestamp=one.max_timestamp,
        write=0,
        part=one.part,
    )


def _by_place(one: Staged) -> Any:
    return one.lane, one.topic, one.partition, one.part, one.position

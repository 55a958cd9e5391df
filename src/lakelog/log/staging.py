"""What an attempt of a bulk write puts beside the log, and what it says of it.

    identity   which write it is an attempt of; every task says so first
    batches    objects of runs of batches, each of one partition
    plan       where every run lies, on as many pages as that takes; made when all tasks are done

A page has the runs of some lanes, in their order. What one page has for one lane is what one bundle
will commit there, so no write makes a directory that is too large to be read.

Nothing of this is part of the log. It becomes so by ``writes``.

    task       announces its write, then puts window after window, an object for each lane
    object     | run of orders-0 | run of orders-4 | run of clicks-1 |
    run        batches of one partition, whose offsets count from 0
    part       the number of an object: task << 15 | attempt << 11 | window    16, 4 and 11 bits

**The name of an object is this task's alone.** A number of an attempt, as Spark gives it, is not
enough for that: it begins again at 0 when a whole stage is tried again, and nobody is told of that.
So an object is created, never found: if a name is taken, another attempt of the task has had this
number, and the next one is used, for this object of the lane and for all that follow, because runs
are in the order of these names. A put whose answer was lost is asked for again; if the object is
there then, nobody knows whose it is, and the next number is used as well.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from lakelog.errors import ConflictError, CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import Bytes, decode_fields, decoding, fitting, number
from lakelog.formats.lanes import Slice
from lakelog.names import identity_key, plan_key, staged_key
from lakelog.store import Body, Created, Work, put_answered, put_named, read_cell

__all__ = [
    "ATTEMPTS",
    "PLAN_BYTES_MAX",
    "Identity",
    "Page",
    "Run",
    "Staged",
    "StagedObject",
    "TaskParts",
    "announce_write",
    "create_part",
    "decode_plan",
    "encode_plan",
    "part_number",
    "read_identity",
]

FORMAT = 1
TASKS_MAX = 1 << 16
ATTEMPTS = 1 << 4
WINDOWS_MAX = 1 << 11
PLAN_BYTES_MAX = 16 << 20
"""Of a page: more than so many runs take, whatever their numbers are."""
RUNS_MAX = 1 << 16
"""On a page, and so in a bundle: a directory of 5 MiB."""
PAGES_MAX = 256
"""Of a plan: sixteen million runs. Every broker holds them in memory until they are sealed."""


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
    with decoding("identity", key):
        fields = decode_fields(found.body, format_=FORMAT, where=key, known=Identity._fields)
        query, is_stream = bytes.fromhex(fields["query"]), bool(fields["is_stream"])
        return Identity(query, number(fields["number"]), is_stream)


class Page(NamedTuple):
    """A page of a plan."""

    pages: int
    """Of the whole plan."""
    runs: dict[int, tuple[Slice, ...]]
    """Of every lane, by partition, in the order in which they were staged."""

    @property
    def records(self) -> int:
        return sum(run.offsets for runs in self.runs.values() for run in runs)


def encode_plan(staged: Sequence[Staged]) -> list[bytes]:
    """Return the pages that say where every run lies, by lane and partition.

    Raises:
        InvalidInputError: there are more runs than a plan has room for.
    """
    rows = [[one.lane, one.topic.hex(), *one[2:]] for one in sorted(staged, key=_by_place)]
    pages = -(-len(rows) // RUNS_MAX)
    if pages > PAGES_MAX:
        raise InvalidInputError(
            f"the write has {len(rows)} runs of batches, and {PAGES_MAX * RUNS_MAX} are the most. "
            "There is a run for each partition in each buffer of each task: raise the option "
            "bufferBytes, repartition the frame so that a task has rows of fewer partitions, or "
            "write fewer rows at a time. Nothing of it is in the log"
        )
    bodies = [
        json.dumps(
            {"format": FORMAT, "pages": pages, "runs": rows[at * RUNS_MAX : (at + 1) * RUNS_MAX]}
        ).encode()
        for at in range(pages)
    ]
    return [fitting(one, PLAN_BYTES_MAX, "a page of a plan", "write less") for one in bodies]


def decode_plan(data: Bytes, write: bytes, page: int = 0) -> Page:
    """Return a page of a plan.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it, or it is over the limits.
    """
    where = plan_key(write, page)
    with decoding("plan", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=Page._fields)
        rows = [
            Staged(number(lane), bytes.fromhex(topic), *map(number, rest))
            for lane, topic, *rest in fields["runs"]
        ]
        pages = number(fields.get("pages", 1))
    if len(data) > PLAN_BYTES_MAX or pages > PAGES_MAX or len(rows) > RUNS_MAX:
        what = f"a plan of {pages} pages, with {len(rows)} runs in {len(data)} bytes of this one"
        raise UnsupportedError(f"{what}, is over the limits", at=0, where=where)
    if not page < pages or not rows:
        what = f"it is page {page} of a plan of {pages}, with {len(rows)} runs"
        raise CorruptError(what, at=0, where=where)
    runs = {
        lane: tuple(_run(one) for one in some)
        for lane, some in groupby(rows, key=lambda one: one.lane)
    }
    return Page(pages, runs)


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


# ---------------------------------------------------------------------------- the objects of a task


class Run(NamedTuple):
    """Batches of one partition, and where they lie in their object."""

    topic: bytes
    partition: int
    position: int
    length: int
    offsets: int
    min_timestamp: int
    max_timestamp: int


@dataclass(slots=True)
class StagedObject:
    """What goes into one object."""

    pieces: list[Bytes] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    size: int = 0

    def add(
        self, topic_partition: tuple[bytes, int], body: Bytes, offsets: int, times: tuple[int, int]
    ) -> None:
        """Add a run: the batches of ``body``, and the earliest and latest time of their records."""
        self.runs.append(Run(*topic_partition, self.size, len(body), offsets, *times))
        self.pieces.append(body)
        self.size += len(body)


def part_number(task: int, attempt: int, window: int) -> int:
    """Return the number of an object, in its write and lane.

    Raises:
        InvalidInputError: there are more tasks or windows than numbers.
    """
    if not 0 <= task < TASKS_MAX:
        raise InvalidInputError(
            f"task {task}: a write has up to {TASKS_MAX} tasks; coalesce the frame before it"
        )
    if not 0 <= window < WINDOWS_MAX:
        raise InvalidInputError(
            f"a task has more than {WINDOWS_MAX} times bufferBytes of rows: repartition the "
            "frame, or raise bufferBytes"
        )
    return task * ATTEMPTS * WINDOWS_MAX + attempt % ATTEMPTS * WINDOWS_MAX + window


def create_part(
    write: bytes, lane: int, numbers: tuple[int, int, int], body: Body
) -> Work[tuple[int, int]]:
    """Create an object, under the first number from this attempt on that nobody has.

    ``numbers`` are the task, its attempt and the window. Returns the number of the object, and the
    attempt whose number it is.

    Raises:
        ConflictError: all of them are taken.
        UnavailableError: no answer, time and again: the task fails, and is tried again.
    """
    task, first, window = numbers
    for attempt in range(first, ATTEMPTS):
        part = part_number(task, attempt, window)
        put = yield from put_answered(staged_key(write, lane, part), body)
        if isinstance(put.answer, Created):
            return part, attempt
    raise ConflictError(f"task {task} was tried {ATTEMPTS} times: write the frame again")


class TaskParts:
    """One attempt of one task: which numbers it uses, and what it has staged."""

    def __init__(self, identity: Identity, write: bytes, *, task: int, attempt: int) -> None:
        self._identity, self._write = identity, write
        self._task, self._attempt = task, min(attempt, ATTEMPTS - 1)
        self._attempts: dict[int, int] = {}
        """Whose numbers are used in each lane."""
        self._windows = 0

    def put(self, objects: Mapping[int, StagedObject]) -> list[Work[list[Staged]]]:
        """Return flows, one for each lane, that create the objects of the next window.

        They may run side by side, and end before the next window is put. Each returns where its
        runs lie.
        """
        window = self._windows
        self._windows += 1
        return [self._put(lane, window, staged) for lane, staged in objects.items()]

    def announce(self) -> Work[None]:
        """Say what this is an attempt of; before the first window."""
        yield from announce_write(self._identity, self._write)

    def _put(self, lane: int, window: int, staged: StagedObject) -> Work[list[Staged]]:
        numbers = self._task, self._attempts.get(lane, self._attempt), window
        body = tuple(staged.pieces)
        part, self._attempts[lane] = yield from create_part(self._write, lane, numbers, body)
        return [Staged(lane, run.topic, run.partition, part, *run[2:]) for run in staged.runs]

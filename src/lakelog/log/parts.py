"""Parts: the objects that one attempt of one task of a bulk write puts beside the log.

    task       announces its write, then puts window after window, an object for each lane
    object     | run of orders-0 | run of orders-4 | run of clicks-1 |
    run        batches of one partition, whose offsets count from 0

**The name of an object is this task's alone.** A number of an attempt, as Spark gives it, is not
enough for that: it begins again at 0 when a whole stage is tried again, and nobody is told of that.
So an object is created, never found: if a name is taken, another attempt of the task has had this
number, and the next one is used, for this object of the lane and for all that follow, because runs
are in the order of these names. A put whose answer was lost is asked for again; if the object is
there then, nobody knows whose it is, and the next number is used as well.

    part   task << 15 | attempt << 11 | window          16, 4 and 11 bits
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.errors import ConflictError, InvalidInputError
from lakelog.formats import Bytes
from lakelog.log.staging import Identity, Staged, announce_write
from lakelog.names import staged_key
from lakelog.store import Body, Created, Work, put_answered

__all__ = ["ATTEMPTS", "Run", "StagedObject", "TaskParts", "create_part", "part_number"]

TASKS_MAX = 1 << 16
ATTEMPTS = 1 << 4
WINDOWS_MAX = 1 << 11


class Run(NamedTuple):
    """Batches of one partition, and where they lie in their parcel."""

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
        self, place: tuple[bytes, int], body: Bytes, offsets: int, times: tuple[int, int]
    ) -> None:
        """Add a run: the batches of ``body``, and the earliest and latest time of their records."""
        self.runs.append(Run(*place, self.size, len(body), offsets, *times))
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
    write: bytes, lane: int, place: tuple[int, int, int], body: Body
) -> Work[tuple[int, int]]:
    """Create an object, under the first number from this attempt on that nobody has.

    ``place`` is the task, its attempt and the window. Returns the number of the object, and the
    attempt whose number it is.

    Raises:
        ConflictError: all of them are taken.
        UnavailableError: no answer, time and again: the task fails, and is tried again.
    """
    task, first, window = place
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

    def put(self, parcels: Mapping[int, StagedObject]) -> list[Work[list[Staged]]]:
        """Return flows, one for each lane, that create the objects of the next window.

        They may run side by side, and end before the next window is put. Each returns where its
        runs lie.
        """
        window = self._windows
        self._windows += 1
        return [self._put(lane, window, parcel) for lane, parcel in parcels.items()]

    def announce(self) -> Work[None]:
        """Say what this is an attempt of; before the first window."""
        yield from announce_write(self._identity, self._write)

    def _put(self, lane: int, window: int, parcel: StagedObject) -> Work[list[Staged]]:
        place = self._task, self._attempts.get(lane, self._attempt), window
        body = tuple(parcel.pieces)
        part, self._attempts[lane] = yield from create_part(self._write, lane, place, body)
        return [Staged(lane, run.topic, run.partition, part, *run[2:]) for run in parcel.runs]

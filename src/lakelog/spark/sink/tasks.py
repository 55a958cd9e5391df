"""What a task does with its rows: collect a window, place it, pack it, stage it; then the next.

    Arrow batches -> window of bufferBytes -> sorted by partition -> an object for each lane
                                                                     put by threads meanwhile

So memory is bounded by the window, whatever the number of partitions, and batches are as large as a
window lets them be. A task holds about seven times bufferBytes: rows as they came, in one piece, in
order of their partitions, and the bytes of this window and of the one that is being put.

**The name of an object is this task's alone.** Spark's number of an attempt is not enough for that:
it begins again at 0 when a whole stage is tried again, and Python is not told of that. So an object
is created, never found: if a name is taken, another attempt of the task has had this number, and
the next one is used, for this object of the lane and for all that follow, because runs are in the
order of these names.

    part   task << 15 | attempt << 11 | window          16, 4 and 11 bits
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from lakelog.errors import ConflictError, InvalidInputError
from lakelog.host import new_id
from lakelog.journal import StoreTime, stamp
from lakelog.log import Identity, Staged, announce_write
from lakelog.names import staged_key
from lakelog.ports import Clock
from lakelog.spark.driving import Driver
from lakelog.spark.sink.columns import read_columns
from lakelog.spark.sink.packing import Packer, Parcel
from lakelog.spark.sink.placing import Placer
from lakelog.store import Created, Work, put_if_absent

__all__ = ["TaskWriter", "create_part", "part_number"]

TASKS_MAX = 1 << 16
ATTEMPTS = 1 << 4
WINDOWS_MAX = 1 << 11


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
    write: bytes, lane: int, place: tuple[int, int, int], parcel: Parcel
) -> Work[tuple[int, int]]:
    """Create an object, under the first number from this attempt on that nobody has.

    ``place`` is the task, its attempt and the window. Returns the number of the object, and the
    attempt whose number it is.

    Raises:
        ConflictError: all of them are taken.
    """
    task, first, window = place
    body = tuple(parcel.pieces)
    for attempt in range(first, ATTEMPTS):
        part = part_number(task, attempt, window)
        answer = yield from put_if_absent(staged_key(write, lane, part), body)
        if isinstance(answer, Created):
            return part, attempt
    raise ConflictError(f"task {task} was tried {ATTEMPTS} times: write the frame again")


class TaskWriter:
    """One attempt of one task."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        placer: Placer,
        *,
        identity: Identity,
        write: bytes,
        task: int,
        attempt: int,
        buffer_bytes: int,
        time: StoreTime | None = None,
    ) -> None:
        self._driver, self._clock, self._placer = driver, clock, placer
        self._identity, self._write = identity, write
        self._task, self._attempt = task, min(attempt, ATTEMPTS - 1)
        self._buffer_bytes = buffer_bytes
        self._time = time
        """By which records without a time, and those of the log's own time, are stamped."""
        self._packer = Packer()
        self._attempts: dict[int, int] = {}
        """Whose numbers are used in each lane."""
        self._windows = 0
        self._staged: list[Staged] = []
        self._under_way: tuple[dict[int, Parcel], Future[list[tuple[int, int]]]] | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Staged]:
        """Stage all rows, and return where they are."""
        window: list[pa.RecordBatch] = []
        size = 0
        with ThreadPoolExecutor(1, thread_name_prefix="lakelog-stage") as thread:
            for batch in batches:
                if batch.num_rows:
                    window.append(batch)
                    size += batch.nbytes
                if size >= self._buffer_bytes:
                    self._flush(window, thread.submit)
                    size = 0
            if window:
                self._flush(window, thread.submit)
            self._settle()
        return self._staged

    def _flush(self, window: list[pa.RecordBatch], submit: Callable[..., Future[object]]) -> None:
        table = pa.Table.from_batches(window).combine_chunks()
        window.clear()
        # It is one, unless its bytes are more than Arrow can have in one piece.
        for rows in table.to_batches():
            now_ms = self._driver.run(stamp(self._time, self._clock, new_id))
            placed = self._placer.place(read_columns(rows, now_ms), now_ms)
            parcels = self._packer.pack(placed, now_ms)
            self._settle()
            if not self._windows:
                self._driver.run(announce_write(self._identity, self._write))
            self._under_way = parcels, submit(self._put, self._windows, parcels)  # type: ignore[assignment]
            self._windows += 1

    def _put(self, window: int, parcels: dict[int, Parcel]) -> list[tuple[int, int]]:
        flows = [
            create_part(
                self._write,
                lane,
                (self._task, self._attempts.get(lane, self._attempt), window),
                parcel,
            )
            for lane, parcel in parcels.items()
        ]
        return self._driver.run_all(flows)

    def _settle(self) -> None:
        """Wait until what was packed last is stored, and write down where."""
        if self._under_way is None:
            return
        parcels, future = self._under_way
        for (lane, parcel), (part, attempt) in zip(parcels.items(), future.result(), strict=True):
            self._attempts[lane] = attempt
            self._staged += [
                Staged(
                    lane,
                    run.topic,
                    run.partition,
                    part,
                    run.position,
                    run.length,
                    run.offsets,
                    run.min_timestamp,
                    run.max_timestamp,
                )
                for run in parcel.runs
            ]
        # Its memory goes back to the encoder from here, whose thread this is.
        self._under_way = None

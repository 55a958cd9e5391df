"""What a task does with its rows: collect a window, place it, pack it, stage it; then the next.

    Arrow batches -> window of bufferBytes -> sorted by partition -> an object for each lane
                                                                     put by threads meanwhile

So memory is bounded by the window, whatever the number of partitions, and batches are as large as a
window lets them be. A task holds about seven times bufferBytes: rows as they came, in one piece, in
order of their partitions, and the bytes of this window and of the one that is being put.

How the objects are named, and what a task that is tried again does, is in ``lakelog.log.staging``.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from lakelog.host import new_id
from lakelog.journal import StoreTime, stamp
from lakelog.log import Driver, Identity, Staged, StagedObject, TaskParts
from lakelog.log.packing import Packer
from lakelog.ports import Clock
from lakelog.spark.sink.columns import read_columns
from lakelog.spark.sink.placing import RowPartitioner

__all__ = ["TaskWriter"]


class TaskWriter:
    """One attempt of one task."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        partitioner: RowPartitioner,
        *,
        identity: Identity,
        write: bytes,
        task: int,
        attempt: int,
        buffer_bytes: int,
        time: StoreTime | None = None,
    ) -> None:
        self._driver, self._clock, self._partitioner = driver, clock, partitioner
        self._parts = TaskParts(identity, write, task=task, attempt=attempt)
        self._buffer_bytes = buffer_bytes
        self._time = time
        """By which records without a time, and those of the log's own time, are stamped."""
        self._packer = Packer()
        self._is_announced = False
        self._staged: list[Staged] = []
        self._under_way: tuple[dict[int, StagedObject], Future[list[list[Staged]]]] | None = None

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
            self._finish_put()
        return self._staged

    def _flush(self, window: list[pa.RecordBatch], submit: Callable[..., Future[object]]) -> None:
        table = pa.Table.from_batches(window).combine_chunks()
        window.clear()
        # It is one, unless its bytes are more than Arrow can have in one piece.
        for rows in table.to_batches():
            now_ms = self._driver.run(stamp(self._time, self._clock, new_id))
            placed = self._partitioner.partition(read_columns(rows, now_ms), now_ms)
            objects = self._packer.pack(placed, now_ms)
            self._finish_put()
            if not self._is_announced:
                self._driver.run(self._parts.announce())
                self._is_announced = True
            flows = self._parts.put(objects)
            self._under_way = objects, submit(self._driver.run_all, flows)  # type: ignore[assignment]

    def _finish_put(self) -> None:
        """Wait until what was packed last is stored, and write down where."""
        if self._under_way is None:
            return
        _, future = self._under_way
        for staged in future.result():
            self._staged += staged
        # Its memory goes back to the encoder from here, whose thread this is.
        self._under_way = None

"""Where a conversion writes: segments in the making, and their names.

    BatchTarget    batches as they are          kafka, kafs
    RecordTarget   records, encoded again       kafka, kafs, strm, rustlog
    DayTarget      records, by day              parquet

A target takes in what comes, and writes a segment when that is large enough, or at the end. What
lies beside a segment is written before it, so that whoever sees a segment sees its index, too.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS
from lakelog.formats.batches import BatchSegment, pieces
from lakelog.formats.writing import SegmentWriter, new_segment, segment_of_batches
from lakelog.pipeline.frame import TARGET, Step, at_store
from lakelog.pipeline.listing import feed
from lakelog.pipeline.output import put_once
from lakelog.pipeline.parquet import DayWriter
from lakelog.records import OFFSET_MAX, Codec, frames
from lakelog.segments import SegmentRef, layout_named

__all__ = ["BatchTarget", "DayTarget", "RecordTarget", "Target"]

_PIECE_BYTES = 8 * 1024 * 1024


class Target:
    """What every target counts, and how it writes."""

    def __init__(self) -> None:
        self.created = self.present = self.records = self.batches = 0

    def put(self, files: Mapping[str, Any]) -> Step[None]:
        """Write files in their order."""
        for key, body in files.items():
            data = body if isinstance(body, bytes) else body.to_pybytes()
            made = yield from at_store(TARGET, put_once(key, data))
            self.created += made
            self.present += not made


def _named(layout: str, topic: str, partition: int, base: int, files: Mapping[str, Any]) -> Any:
    """Return the files of a segment by key, the data last."""
    row = layout_named(layout)
    fmt = FORMATS[row.format]
    stem = f"{row.directory(topic, partition)}/{fmt.file_stem(base)}"
    ordered = sorted(files, key=lambda suffix: suffix == fmt.suffix)
    return {stem + suffix: files[suffix] for suffix in ordered}


class RecordTarget(Target):
    """Records, encoded again."""

    def __init__(
        self, topic: str, partition: int, base: int, size: int, layout: str, **settings: Any
    ) -> None:
        """Settings are those of formats.writing.new_segment."""
        super().__init__()
        self._place = topic, partition
        self._base: int | None = base
        self._size, self._layout, self._settings = size, layout, settings
        self._writer: SegmentWriter | None = None

    def add(self, batch: pa.RecordBatch) -> Step[None]:
        if not batch.num_rows:
            return
        if self._writer is None:
            self._open(batch)
        assert self._writer is not None
        self._writer.add(batch)
        self.records += batch.num_rows
        if self._writer.size >= self._size:
            yield from self.close()

    def _open(self, batch: pa.RecordBatch) -> None:
        first = batch.column("offset")[0].as_py()
        # Only the first segment may begin before its first record, where compaction took some;
        # and an STRM segment cannot: it has no place for such a beginning.
        if self._base is None or self._layout == "strm":
            self._base = first
        topic, partition = self._place
        self._writer = new_segment(
            FORMATS[layout_named(self._layout).format],
            topic=topic,
            partition=partition,
            base_offset=self._base,
            **self._settings,
        )

    def close(self) -> Step[None]:
        if self._writer is None:
            return
        assert self._base is not None
        files = self._writer.finish()
        yield from self.put(_named(self._layout, *self._place, self._base, files))
        self._writer, self._base = None, None


class DayTarget(Target):
    """Records, by day."""

    def __init__(self, topic: str, partition: int, base: int, codec: Codec | None) -> None:
        super().__init__()
        self._writer = DayWriter(topic, partition, base, codec)

    def add(self, batch: pa.RecordBatch) -> Step[None]:
        self._writer.add(batch)
        self.records += batch.num_rows
        yield from ()

    def close(self) -> Step[None]:
        yield from self.put(self._writer.finish())


class BatchTarget(Target):
    """Batches as they are."""

    def __init__(self, topic: str, partition: int, base: int, size: int, layout: str) -> None:
        super().__init__()
        self._place = topic, partition
        self._base: int | None = base
        self._created_ms: int | None = None
        self._size, self._layout = size, layout
        self._wanted = 0, OFFSET_MAX
        self._held: list[bytes] = []
        self._held_bytes = 0

    def copy(self, segment: SegmentRef) -> Step[None]:
        """Take every batch of a segment in."""
        opened = yield from feed(segment, segment.fmt.open(segment.files))
        assert isinstance(opened, BatchSegment)
        self._created_ms = opened.created_ms
        self._wanted = segment.offset_min, segment.next_offset_max
        yield from feed(segment, pieces(opened.run, bytes_max=_PIECE_BYTES), self._take)

    def _take(self, piece: Any) -> Step[None]:
        data = _within(piece.data, *self._wanted)
        while self._held_bytes + len(data) > self._size:
            cut = _cut(data, self._size - self._held_bytes, at_least_one=not self._held)
            self._hold(data[:cut])
            data = data[cut:]
            yield from self.close()
        self._hold(data)

    def _hold(self, data: memoryview) -> None:
        if data:
            headers = [frame.header for frame in frames(data, after=None, crc=False)]
            if self._base is None:
                self._base = headers[0].base_offset
            self.batches += len(headers)
            self.records += sum(header.count for header in headers)
            self._held.append(bytes(data))
            self._held_bytes += len(data)

    def close(self) -> Step[None]:
        if not self._held:
            return
        assert self._base is not None
        fmt = FORMATS[layout_named(self._layout).format]
        files = segment_of_batches(
            fmt, b"".join(self._held), base_offset=self._base, created_ms=self._created_ms
        )
        yield from self.put(_named(self._layout, *self._place, self._base, files))
        self._held, self._held_bytes, self._base = [], 0, None


def _within(data: memoryview, offset_from: int, offset_to: int) -> memoryview:
    """Return the batches that hold offsets of a range; they stand one behind the other.

    Raises:
        InvalidInputError: one reaches past the end, where another copy of the log goes on.
    """
    start, end = 0, len(data)
    for at, header in frames(data, after=None, crc=False):
        if header.next_offset <= offset_from:
            start = at + header.size
        elif header.base_offset >= offset_to:
            end = at
            break
        elif header.next_offset > offset_to:
            raise InvalidInputError(
                f"the batch at offset {header.base_offset} reaches past {offset_to}, where another "
                "copy goes on: give a codec, so that records are encoded again"
            )
    return data[start:end]


def _cut(data: memoryview, room: int, *, at_least_one: bool) -> int:
    """Return how many bytes of whole batches fit."""
    starts = [*(frame.position for frame in frames(data, after=None, crc=False)), len(data)]
    fitting = [at for at in starts if at <= room]
    return starts[1] if at_least_one and fitting[-1:] == [0] else max(fitting)

"""Segments of every format out of Arrow columns, by compiled kernels.

    columns --add--> batches, blocks or records, one behind the other --finish--> files by suffix

What is written grows in one piece of memory, with room in front for a header that is known last
(``growing``). A kernel does not judge: it stops at a row that the format cannot hold, and plain
code says what is wrong with it.

Times lose what is finer than a millisecond. This module brings NumPy, Numba and Arrow: import it
only where segments are written.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from crc32c import crc32c

from lakelog.errors import InvalidInputError
from lakelog.formats import kafkalog, kafs
from lakelog.formats.batches import Frame, frames
from lakelog.formats.contract import Bytes, Format
from lakelog.formats.growing import Growing, SegmentFiles
from lakelog.formats.kafs.index import INDEX_SUFFIX
from lakelog.formats.rustlog.writer import RustLogWriter
from lakelog.formats.strm.writer import StrmWriter
from lakelog.records import Codec, compress
from lakelog.records.encoder import BatchEncoder

__all__ = ["SegmentFiles", "SegmentWriter", "new_segment", "segment_of_batches"]


class SegmentWriter(Protocol):
    """One segment in the making."""

    @property
    def size(self) -> int:
        """Bytes of the data file so far; of a compressing format, of what is closed."""
        ...

    @property
    def count(self) -> int:
        """Records so far."""
        ...

    def add(self, columns: pa.RecordBatch) -> None:
        """Write records: columns of ``records.columns``, whose offsets rise over all calls.

        Raises:
            InvalidInputError: a column is missing, or holds what the format cannot.
        """
        ...

    def finish(self) -> SegmentFiles:
        """Return the files by suffix. This is the end: nothing can be added any more.

        Raises:
            InvalidInputError: no records, where the format needs one, or too many for a segment.
        """
        ...


def new_segment(
    fmt: Format,
    *,
    topic: str,
    partition: int,
    codec: Codec | None = None,
    level: int | None = None,
    block_bytes: int | None = None,
    base_offset: int | None = None,
    created_ms: int | None = None,
) -> SegmentWriter:
    """Begin a segment. Equal input gives equal bytes.

    ``block_bytes`` is the size of a batch or block before compression; RustLog has neither.
    ``base_offset`` is the first record's, unless what stood before it was compacted away; an STRM
    segment is always named after its first record. ``created_ms`` is the time of the newest record.
    Without a codec, it is the format's own: LZ4 for STRM, none for the others.

    Raises:
        InvalidInputError: the format does not know the codec, or something is out of range.
    """
    codec = fmt.default_codec if codec is None else codec
    if codec not in fmt.carries.codecs:
        known = ", ".join(known.name.lower() for known in sorted(fmt.carries.codecs))
        raise InvalidInputError(
            f"a {fmt.title} is not written with {codec.name.lower()}; choose from: {known}"
        )
    try:
        compress(codec, b"", level=level)
    except ValueError as error:
        raise InvalidInputError(f"level {level} of {codec.name.lower()}: {error}") from error
    match fmt.name:
        case "strm":
            return StrmWriter(base_offset, topic, partition, codec, level, block_bytes, created_ms)
        case "rustlog":
            return RustLogWriter(base_offset)
        case _:
            settings: dict[str, Any] = {} if block_bytes is None else {"batch_bytes": block_bytes}
            encoder = BatchEncoder(codec=codec, level=level, **settings)
            return _BatchWriter(fmt, base_offset, encoder, created_ms)


class _BatchWriter(Growing):
    """A segment of record batches."""

    def __init__(
        self, fmt: Format, base_offset: int | None, encoder: BatchEncoder, created_ms: int | None
    ) -> None:
        head_bytes, self._seal = _SEALS[fmt.name]
        super().__init__(base_offset, head_bytes=head_bytes)
        self._encoder, self._created_ms = encoder, created_ms
        self._placed: list[Frame] = []

    def add(self, columns: pa.RecordBatch) -> None:
        run = memoryview(self._encoder.encode(columns)).cast("B")
        if columns.num_rows:
            self.follow(columns)
            self._placed += (Frame(self.size + at, header) for at, header in frames(run))
            self.append(run)

    def finish(self) -> SegmentFiles:
        return self._seal(self, self._placed, self._created_ms)


def segment_of_batches(
    fmt: Format, batches: Bytes, *, base_offset: int, created_ms: int | None
) -> SegmentFiles:
    """Return the files of the KAFS or Kafka segment that holds a run of batches, byte for byte.

    ``created_ms`` is the latest time in the batches, unless it is given.

    Raises:
        CorruptError, UnsupportedError: ``batches`` is not a run of good batches.
        InvalidInputError: it is empty or too large, or begins below ``base_offset``; or the format
            does not hold batches.
    """
    if fmt.name not in _SEALS:
        raise InvalidInputError(f"a {fmt.title} holds no record batches; decode and write them")
    head_bytes, seal = _SEALS[fmt.name]
    placed = [Frame(head_bytes + at, header) for at, header in frames(batches)]
    file = Growing(base_offset, head_bytes=head_bytes)
    file.grow(head_bytes + len(batches) + kafs.FOOTER_BYTES)
    file.append(batches)
    return seal(file, placed, created_ms)


def _seal_kafs(file: Growing, placed: list[Frame], created_ms: int | None) -> SegmentFiles:
    if created_ms is None:
        created_ms = max([0, *(header.max_timestamp for _, header in placed)])
    head, footer = kafs.encode_ends(
        placed,
        file.size,
        crc32c(file.view()[kafs.HEADER_BYTES :]),
        created_ms=created_ms,
        base_offset=file.base_offset,
    )
    file.view()[: kafs.HEADER_BYTES] = head
    file.append(footer)
    return {kafs.FORMAT.suffix: file.buffer(), INDEX_SUFFIX: kafs.encode_index(placed)}


def _seal_kafkalog(file: Growing, placed: list[Frame], _created_ms: int | None) -> SegmentFiles:
    indexes = kafkalog.encode_side_files(placed, file.size, base_offset=file.base_offset)
    return {kafkalog.FORMAT.suffix: file.buffer(), **indexes}


_SEALS: dict[str, tuple[int, Callable[[Growing, list[Frame], int | None], SegmentFiles]]] = {
    "kafs": (kafs.HEADER_BYTES, _seal_kafs),
    "kafkalog": (0, _seal_kafkalog),
}
"""Bytes before the first batch, and what makes a segment of the batches."""

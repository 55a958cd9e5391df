"""Every batch of a run, in order, and what is wrong with it.

    in the span        one batch at a time: framing, CRC, order, records
    outside            hundreds at a time: framing, CRC, order
    at any damage      one batch at a time again, until good ones follow

A sweep over good batches does little more than compute their CRCs. It never judges: it ends where
something is not as it must be, and the careful reader reads those bytes again and says what it is.
So both find the same damage, and go on behind it at the same place.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.batches.run import Reader, Run
from lakelog.formats.contract import (
    CHUNK_BYTES,
    EVERYTHING,
    SWEEP_BYTES,
    Block,
    Damage,
    Found,
    Ranged,
    Span,
    Walk,
)
from lakelog.model import Record
from lakelog.records import (
    ATTRIBUTES,
    BATCH_BYTES_MAX,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    decode_records,
)

__all__ = ["walk_run"]

STRIDE_BYTES = 512 * 1024
"""What is swept at a time: it is still in the CPU's cache when ``saw`` looks at it again."""

_OFFSET_END = 1 << 62

Saw = Callable[[memoryview], None]
Note = Callable[[Sequence[Found]], Sequence[Found]]


def _as_found(found: Sequence[Found]) -> Sequence[Found]:
    return found


def walk_run(
    run: Run, *, span: Span = EVERYTHING, saw: Saw | None = None, note: Note = _as_found
) -> Walk:
    """Yield the batches of a run in order, and what is wrong with it; go on behind damage.

    Records are read of batches that begin in ``span``. ``saw`` is called with the bytes of all
    batches whose CRC is right, in order. What is found goes through ``note`` before it is yielded:
    a damage alone, batches together.
    """
    start, end = span
    covers = start <= run.start and run.end <= end
    reader = Reader(run, chunk_bytes=CHUNK_BYTES if covers else SWEEP_BYTES)
    at = run.start
    while at < run.end:
        if not start <= at < end:
            blocks = yield from _sweep(reader, at, start if at < start else run.end, saw)
            if blocks:
                yield from note(blocks)
                at = blocks[-1].position + blocks[-1].size
                continue
        header: BatchHeader | None = None
        try:
            header = yield from reader.header(at)
            data = yield from reader.body(at, header)
        except (CorruptError, UnsupportedError) as error:
            if (yield from reader.ends_at(at, error)):
                return
            behind = yield from reader.resume(at, header)
            found: Found = Damage(error=error, position=at, size=behind - at, header=header)
            yield from note((found,))
            at = behind
            continue
        if saw is not None:
            saw(data)
        found = _judge(reader, at, header, data if start <= at < end else None)
        yield from note((found,))
        at += header.size
        reader.next_offset = header.next_offset


def _judge(reader: Reader, at: int, header: BatchHeader, data: memoryview | None) -> Block | Damage:
    """Return what a batch holds; its CRC is right, so where it ends is beyond doubt."""
    records: tuple[Record, ...] = ()
    try:
        if header.base_offset < reader.next_offset:
            raise reader.corrupt(reader.disorder(header), at)
        if data is not None:
            records = decode_records(header, data[HEADER_BYTES:], at=at, where=reader.run.suffix)
    except (CorruptError, UnsupportedError) as error:
        return Damage(error=error, position=at, size=header.size, header=header)
    return Block(
        position=at,
        size=header.size,
        count=header.count,
        records=records,
        header=header,
        next_offset=header.next_offset,
    )


# ---------------------------------------------------------------------------- without records


class _Swept(NamedTuple):
    """The good batches at the beginning of some bytes."""

    blocks: list[Block]
    size: int
    """Bytes they take."""

    next_offset: int
    cut: int
    """The size of the batch behind them, where it is longer than the bytes; else 0."""


def _sweep(reader: Reader, at: int, end: int, saw: Saw | None) -> Ranged[list[Block]]:
    """Return good batches from ``at`` on that begin before ``end``; none when care is needed."""
    end = min(end, at + STRIDE_BYTES)
    data = yield from reader.window.ahead(at, HEADER_BYTES)
    swept = _good(data, at, end, reader.next_offset)
    if not swept.blocks and 0 < swept.cut <= reader.run.end - at:
        del data  # Memory that nobody holds is used again for what comes next.
        data = yield from reader.window.ahead(at, swept.cut)
        swept = _good(data, at, end, reader.next_offset)
    if saw is not None:
        saw(data[: swept.size])
    reader.next_offset = swept.next_offset
    return swept.blocks


def _good(data: memoryview, position: int, end: int, next_offset: int) -> _Swept:
    """Frame and check the batches in ``data``, which stands at ``position``, as far as it goes.

    What ``decode_header`` would say no to is no good here. The reverse need not be true.
    """
    blocks: list[Block] = []
    at, room, cut = 0, len(data), 0
    stop = min(end - position, room - HEADER_BYTES + 1)
    while at < stop:
        fields = HEADER.unpack_from(data, at)
        base, length, _, magic, crc, attributes, last_delta, _, _, _, _, _, count = fields
        size = LENGTH_END + length
        if magic != MAGIC or not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
            break
        if attributes not in ATTRIBUTES:
            break
        if not next_offset <= base < _OFFSET_END or not 0 <= count <= last_delta + 1 > 0:
            break
        if size > room - at:
            cut = size
            break
        if crc32c(data[at + CRC_START : at + size]) != crc:
            break
        # The constructors of these two would take as long as all else here but the CRC.
        header = tuple.__new__(BatchHeader, fields)
        next_offset = base + last_delta + 1
        blocks.append(tuple.__new__(Block, (position + at, size, count, (), header, next_offset)))
        at += size
    return _Swept(blocks, at, next_offset, cut)

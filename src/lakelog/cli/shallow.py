"""The batches of a segment without their records: what kafka-dump-log checks unless told more.

Framing, order and the CRC of every batch are checked; nothing is decompressed, and no record is
looked at. That is many times faster than a walk. At the first damage the rest of the file is left
to a walk, which knows how to go on behind it.
"""

from collections.abc import Iterator
from dataclasses import replace

from crc32c import crc32c

from lakelog.cli.files import OpenSegment
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import Block, Damage, Range, Walk, batches, drive, kafkalog, kafs
from lakelog.records import CRC_START, decode_header

__all__ = ["BatchSegment", "check_sums", "open_batches", "walk_headers"]

BatchSegment = kafkalog.KafkaSegment | kafs.KafsSegment


def open_batches(opened: OpenSegment) -> BatchSegment | None:
    """Return the segment, opened; None when it holds no batches, or cannot be opened unharmed."""
    if opened.file.format.name not in ("kafkalog", "kafs"):
        return None
    try:
        segment = drive(opened.file.format.open(opened.files), opened.give)
    except (CorruptError, UnsupportedError):
        return None
    return segment if isinstance(segment, BatchSegment) else None


def walk_headers(run: batches.Run) -> Walk:
    """Yield every batch of a run, its records left out, and what is wrong with it."""
    at, next_offset = run.start, run.base_offset
    feed = batches.pieces(run)
    answer: bytes | None = None
    while True:
        try:
            item = feed.send(answer)
        except StopIteration:
            return
        except (CorruptError, UnsupportedError):
            break
        answer = None
        if isinstance(item, Range):
            answer = yield item
            continue
        piece_end = item.position + len(item.data)
        for block in _blocks(item, next_offset):
            yield block
            assert block.header is not None
            at, next_offset = block.position + block.size, block.header.next_offset
        if at != piece_end:
            break
    yield from batches.walk_run(replace(run, start=at, base_offset=next_offset))


def _blocks(piece: batches.Piece, next_offset: int) -> Iterator[Block]:
    """Yield the batches of a piece, up to the first that is not good."""
    at, data = 0, piece.data
    while at < len(data):
        try:
            header = decode_header(data, at)
        except (CorruptError, UnsupportedError):
            return
        size = header.size
        if header.base_offset < next_offset or size > len(data) - at:
            return
        if crc32c(data[at + CRC_START : at + size]) != header.crc:
            return
        yield Block(position=piece.position + at, size=size, records=(), header=header)
        at += size
        next_offset = header.next_offset


def check_sums(segment: BatchSegment, count: int, next_offset: int) -> Iterator[Damage]:
    """Yield a Damage where the header or the footer of a segment contradicts its batches."""
    if isinstance(segment, kafkalog.KafkaSegment):
        return
    where = segment.run.suffix
    if count != segment.head.count:
        what = f"{count} records, the header says {segment.head.count}"
        yield Damage(error=CorruptError(what, at=16, where=where))
    if next_offset != segment.next_offset:
        what = f"last offset {segment.footer.last_offset}, the batches end at {next_offset - 1}"
        yield Damage(error=CorruptError(what, at=segment.run.end + 4, where=where))

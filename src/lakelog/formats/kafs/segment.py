"""KAFS segments, version 1: sealed history, one object and a sparse index beside it.

    segment-{base offset:020}.kfs => header batch+ footer
      header, 32 bytes
         0  magic         "KAFS"
         4  version       u16   1
         6  flags         u16   0
         8  base offset   i64   that of the name; no record lies below it
        16  count         i32   records in all batches
        20  created       i64   milliseconds since 1970
        28  reserved      4 zero bytes
      batch               a Kafka record batch, magic 2, kept byte for byte
      footer, 16 bytes
         0  crc           u32   CRC-32C of the batches
         4  last offset   i64   of the last batch
        12  magic         "END!"

Integers are big-endian. The footer comes last so that a segment cut short can never pass for a
whole one. Its CRC covers the batches and not the header: of the header every bit is checked
against something else, except the 63 lower bits of ``created``, which nothing can contradict.

Nothing in the file says which times it spans: that is kept in the manifest, beside its name.
Specification: docs/reference/formats/kafs.md
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.batches import (
    BatchSegment,
    Frame,
    IndexCheck,
    Run,
    base_offset_of,
    follow,
    frames,
    walk_run,
)
from lakelog.formats.contract import (
    EVERYTHING,
    Block,
    Bytes,
    Carries,
    Damage,
    Files,
    Format,
    Found,
    Ranged,
    Segment,
    Span,
    Walk,
    damage_or,
    fetch,
)
from lakelog.formats.kafs.index import INDEX_SUFFIX, read_index
from lakelog.records import I32_MAX, I64_MAX, BatchHeader

__all__ = [
    "FOOTER_BYTES",
    "FORMAT",
    "HEADER_BYTES",
    "SEGMENT_BYTES_MAX",
    "Footer",
    "Head",
    "decode_footer",
    "decode_head",
    "encode_ends",
    "encode_footer",
    "encode_head",
    "open_segment",
    "walk",
    "wrap",
]

SUFFIX = ".kfs"
MAGIC = b"KAFS"
FOOTER_MAGIC = b"END!"
VERSION = 1

HEADER_BYTES = 32
FOOTER_BYTES = 16
SEGMENT_BYTES_MAX = I32_MAX
"""An index position is an i32."""

_HEAD = struct.Struct(">4sHHqiq4s")
_FOOTER = struct.Struct(">Iq4s")
_STEM = re.compile(r"segment-([0-9]{20})(-[0-9A-Za-z]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The header of a segment."""

    base_offset: int
    count: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of a segment."""

    crc: int
    last_offset: int


# ---------------------------------------------------------------------------- writing


def encode_head(head: Head) -> bytes:
    """Return the 32 bytes before the batches.

    Raises:
        InvalidInputError: a field is out of range.
    """
    if not (0 <= head.base_offset <= I64_MAX and 0 <= head.count <= I32_MAX):
        raise InvalidInputError(f"{head.count} records from offset {head.base_offset}")
    if not 0 <= head.created_ms <= I64_MAX:
        raise InvalidInputError(f"a segment created at {head.created_ms}")
    return _HEAD.pack(MAGIC, VERSION, 0, head.base_offset, head.count, head.created_ms, bytes(4))


def encode_footer(footer: Footer) -> bytes:
    """Return the 16 bytes behind the batches."""
    return _FOOTER.pack(footer.crc, footer.last_offset, FOOTER_MAGIC)


def wrap(
    runs: Sequence[Bytes], *, created_ms: int, base_offset: int | None = None
) -> tuple[tuple[Bytes, ...], list[Frame]]:
    """Return the segment that holds runs of batches, byte for byte, and where the batches stand.

    It comes in pieces, between which the runs stand as they are: copies of so many bytes cost more
    than everything else here. ``base_offset`` is the first batch's, unless what stood before it was
    compacted away.

    Raises:
        CorruptError, UnsupportedError: ``runs`` are not runs of good batches, one behind the other.
        InvalidInputError: they are empty or too large, or begin below ``base_offset``.
    """
    placed: list[Frame] = []
    at, crc, next_offset = HEADER_BYTES, 0, 0
    for run in runs:
        placed += (Frame(at + start, header) for start, header in frames(run, after=next_offset))
        next_offset = placed[-1].header.next_offset if placed else 0
        at, crc = at + len(run), crc32c(run, crc)
    ends = encode_ends(placed, at, crc, created_ms=created_ms, base_offset=base_offset)
    return (ends[0], *runs, ends[1]), placed


def encode_ends(
    placed: Sequence[Frame], end: int, crc: int, *, created_ms: int, base_offset: int | None
) -> tuple[bytes, bytes]:
    """Return the header and the footer around batches that end at ``end`` and have this CRC.

    Raises:
        InvalidInputError: there are none, they are too large, or begin below ``base_offset``.
    """
    if not placed:
        raise InvalidInputError("a KAFS segment holds at least one batch: there is none")
    if end > SEGMENT_BYTES_MAX - FOOTER_BYTES:
        raise InvalidInputError(f"{end} bytes do not fit one KAFS segment; end it earlier")
    head = Head(
        base_offset=base_offset_of(placed, base_offset),
        count=sum(header.count for _, header in placed),
        created_ms=created_ms,
    )
    footer = Footer(crc=crc, last_offset=placed[-1].header.next_offset - 1)
    return encode_head(head), encode_footer(footer)


# ---------------------------------------------------------------------------- reading


def decode_head(data: Bytes) -> Head:
    """Return the header.

    Raises:
        UnsupportedError: another version, or flags that this reader does not know.
        CorruptError: no version wrote this.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptError(f"{len(data)} bytes, a header has 32", at=0, where=SUFFIX)
    magic, version, flags, base, count, created, reserved = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CorruptError(f"magic {magic!r}, not {MAGIC!r}", at=0, where=SUFFIX)
    if version != VERSION:
        raise UnsupportedError(f"version {version}, this reader knows 1", at=4, where=SUFFIX)
    if flags:
        raise UnsupportedError(f"flags {flags:#06x}", at=6, where=SUFFIX)
    if base < 0:
        raise CorruptError(f"base offset {base} is negative", at=8, where=SUFFIX)
    if count < 0:
        raise CorruptError(f"record count {count} is negative", at=16, where=SUFFIX)
    if created < 0:
        raise CorruptError(f"creation time {created} is negative", at=20, where=SUFFIX)
    if any(reserved):
        raise UnsupportedError(f"reserved bytes {reserved.hex()}", at=28, where=SUFFIX)
    return Head(base_offset=base, count=count, created_ms=created)


def decode_footer(data: Bytes, *, at: int) -> Footer:
    """Return the footer, which stands at ``at``.

    Raises:
        CorruptError: it is not one: the segment was cut short, or damaged.
    """
    if len(data) < FOOTER_BYTES:
        raise CorruptError(f"{len(data)} bytes, a footer has 16", at=at, where=SUFFIX)
    crc, last_offset, magic = _FOOTER.unpack_from(data)
    if magic != FOOTER_MAGIC:
        raise CorruptError(f"magic {magic!r}, not {FOOTER_MAGIC!r}", at=at + 12, where=SUFFIX)
    return Footer(crc=crc, last_offset=last_offset)


def open_segment(files: Files) -> Ranged[Segment]:
    """Read header, footer and index: three small ranges.

    A damaged index raises, too. It is advisory: leave it out of ``files`` to do without.
    """
    size = files.sizes.get(SUFFIX, 0)
    head = decode_head((yield from fetch(SUFFIX, 0, min(size, HEADER_BYTES))))
    _check_name(head, files)
    at = max(size - FOOTER_BYTES, HEADER_BYTES)
    footer = yield from _read_footer(at, size)
    if footer.last_offset < head.base_offset:
        raise _other_end(footer, head.base_offset, at)
    index = yield from read_index(files)
    run = Run(suffix=SUFFIX, start=HEADER_BYTES, end=at, base_offset=head.base_offset)
    return BatchSegment(
        base_offset=head.base_offset, run=run, index=index, created_ms=head.created_ms
    )


def _read_footer(at: int, size: int) -> Ranged[Footer]:
    return decode_footer((yield from fetch(SUFFIX, at, size)), at=at)


def _check_name(head: Head, files: Files) -> None:
    if head.base_offset != files.base_offset:
        raise CorruptError(
            f"base offset {head.base_offset}, the name says {files.base_offset}", at=8, where=SUFFIX
        )


def _other_end(footer: Footer, next_offset: int, at: int) -> CorruptError:
    return CorruptError(
        f"last offset {footer.last_offset}, the batches end at {next_offset - 1}",
        at=at + 4,
        where=SUFFIX,
    )


class _Sum:
    """What the header and the footer claim of the batches, counted while they come by."""

    def __init__(self) -> None:
        self.crc = self.count = 0
        self.last: BatchHeader | None = None
        self.whole = True

    def bytes(self, data: memoryview) -> None:
        self.crc = crc32c(data, self.crc)

    def saw(self, found: Sequence[Found]) -> None:
        last = found[-1]
        if isinstance(last, Damage):
            self.whole = False
        else:
            self.count += sum([one.count for one in found if isinstance(one, Block)])
            self.last = last.header

    def contradictions(self, head: Head | None, footer: Footer, at: int) -> Iterator[CorruptError]:
        if self.last is None:
            yield CorruptError("no batches", at=HEADER_BYTES, where=SUFFIX)
            return
        if self.crc != footer.crc:
            yield CorruptError(
                f"CRC-32C of the batches is {self.crc}, the footer says {footer.crc}",
                at=at,
                where=SUFFIX,
            )
        if head is not None and self.count != head.count:
            yield CorruptError(
                f"{self.count} records, the header says {head.count}", at=16, where=SUFFIX
            )
        if footer.last_offset != self.last.next_offset - 1:
            yield _other_end(footer, self.last.next_offset, at)


def walk(files: Files, *, span: Span = EVERYTHING) -> Walk:
    """Yield every batch, and everything in which header, batches, footer and index disagree.

    Records are read of batches that begin in ``span``. Damage behind which no claim about all
    batches can be judged silences those claims.
    """
    size = files.sizes.get(SUFFIX, 0)
    head: Head | None = None
    try:
        head = decode_head((yield from fetch(SUFFIX, 0, min(size, HEADER_BYTES))))
        _check_name(head, files)
    except UnsupportedError as error:
        # Another version may lay out everything else in another way.
        yield Damage(error=error, position=0, size=size)
        return
    except CorruptError as error:
        yield Damage(error=error, position=error.at)
    end = max(size - FOOTER_BYTES, HEADER_BYTES)
    footer = yield from damage_or(_read_footer(end, size))
    if footer is None:
        end = max(size, HEADER_BYTES)
    index = yield from damage_or(read_index(files))
    total = _Sum()
    check = IndexCheck(
        INDEX_SUFFIX, index or (), lambda header, offset: header.base_offset == offset
    )

    def note(found: Sequence[Found]) -> Sequence[Found]:
        total.saw(found)
        return follow(found, (check,))

    run = Run(suffix=SUFFIX, start=HEADER_BYTES, end=end, base_offset=files.base_offset)
    yield from walk_run(run, span=span, saw=total.bytes, note=note)
    if footer is not None and total.whole:
        for contradiction in total.contradictions(head, footer, end):
            yield Damage(error=contradiction, position=contradiction.at)
    yield from check.end()


# ---------------------------------------------------------------------------- the row


def _file_stem(base_offset: int) -> str:
    return f"segment-{base_offset:020}"


def _base_offset(stem: str) -> int | None:
    # A rewritten segment carries the id of the write that made it behind its base offset.
    found = _STEM.fullmatch(stem)
    if found is None or int(found[1]) > I64_MAX:
        return None
    return int(found[1])


def _sniff(data: bytes, base_offset: int) -> bool:  # noqa: ARG001
    return data[: len(MAGIC)] == MAGIC


FORMAT = Format(
    name="kafs",
    title="KAFS segment",
    suffix=SUFFIX,
    side_suffixes=(INDEX_SUFFIX,),
    carries=Carries(),
    sealed=True,
    checksums=True,
    file_stem=_file_stem,
    base_offset=_base_offset,
    sniff=_sniff,
    walk=walk,
    open=open_segment,
)

"""What Hypothesis draws of segments: every row of FORMATS, in several pieces, with side files.

The encoders in FORMATS put a thousand records into one piece. Here the formats' own functions are
called with small pieces and dense indexes, so that a handful of records already makes a segment
with neighbours to lose and entries to lie. Where each piece lies is counted here, from the
specification, and never asked of the reader that is on trial.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from hypothesis import strategies as st

from lakelog.formats import FORMATS, Format, kafkalog, kafs, rustlog, strm
from lakelog.formats.batches import Frame, frames
from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.kafka_files import encode_snapshot, encode_txn_index
from tests.plain_encoders import encode_kafka_log, encode_strm
from tests.shorthands import encode_kafs
from tests.strategies import base_offsets, records

__all__ = ["Drawn", "Piece", "carried_records", "fit", "raw", "segments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Where a batch, a block or a single record lies in the data file, and what it holds."""

    position: int
    size: int
    records: tuple[Record, ...]

    @property
    def end(self) -> int:
        return self.position + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A good segment, and what is known of it without reading it."""

    fmt: Format
    base_offset: int
    files: dict[str, bytes]
    pieces: tuple[Piece, ...]

    @property
    def data(self) -> bytes:
        return self.files[self.fmt.suffix]

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for piece in self.pieces for record in piece.records)

    def with_file(self, suffix: str, data: bytes) -> dict[str, bytes]:
        """The same files, but one."""
        return {**self.files, suffix: data}

    def alone(self, data: bytes) -> dict[str, bytes]:
        """Other data, and no side files."""
        return {self.fmt.suffix: data}


def raw(value: bytes | None) -> bytes:
    """A value that can be the payload of a RustLog record: there, and not like an envelope."""
    value = value or b""
    while value.startswith(rustlog.ENVELOPE_MAGIC):
        value = value[1:]
    return value


def fit(fmt: Format, found: Sequence[Record]) -> tuple[Record, ...]:
    """Take from records what a format does not carry."""
    carries = fmt.carries
    times = [record.timestamp for record in found]
    if carries.time_order:
        # RustLog, which keeps times in order, has none before 1970 either.
        times = list(accumulate((max(time, 0) for time in times), max))
    return tuple(
        replace(
            record,
            timestamp=time,
            key=record.key if carries.keys else None,
            value=record.value if carries.null_values else raw(record.value),
            headers=record.headers if carries.headers else (),
        )
        for record, time in zip(found, times, strict=True)
    )


def carried_records(fmt: Format) -> st.SearchStrategy[tuple[Record, ...]]:
    """Records that survive in a format."""
    drawn = records(max_size=6, gaps=fmt.carries.gaps)
    return drawn.map(lambda found: fit(fmt, found))


_BODIES: tuple[tuple[bytes | None, bytes | None, tuple[Header, ...]], ...] = (
    (None, b"", ()),
    (b"k", b"value", ()),
    (b"", None, ()),
    (None, b"\0\0\0\0", (Header("h", None),)),
    (b"key", b"the same again, " * 6, (Header("", b""), Header("\xfc", b"\xff"))),
    (None, bytes(range(64)), ()),
)
"""What damage meets need not be drawn anew each time, as it is where records are on trial."""


_TIMES = (-1, 0, 1, 1_600_000_000_000, 1_600_000_000_001, 1_600_000_000_900, 1 << 53)
_PIECES_MAX = 3
_STOCK = {
    count: st.lists(st.integers(0, (1 << 16) - 1), min_size=count, max_size=6)
    for count in range(1, _PIECES_MAX + 1)
}
_BASES = st.sampled_from((0, 1)) | base_offsets
_LAYOUT = st.integers(0, (1 << 40) - 1)


class _Choices:
    """Many small choices out of one drawn number: each draw of Hypothesis costs a good deal."""

    def __init__(self, number: int) -> None:
        self._left = number

    def below(self, count: int) -> int:
        self._left, choice = divmod(self._left, count)
        return choice


@st.composite
def segments(draw: st.DrawFn, name: str, *, min_pieces: int = 1) -> Drawn:
    """Good segments of the format called ``name``."""
    fmt = FORMATS[name]
    offset, items = draw(_BASES), draw(_STOCK[min_pieces])
    layout = _Choices(draw(_LAYOUT))
    found = []
    for item in map(_Choices, items):
        key, value, headers = _BODIES[item.below(len(_BODIES))]
        time = _TIMES[item.below(len(_TIMES))] + item.below(3)
        found.append(Record(offset=offset, timestamp=time, key=key, value=value, headers=headers))
        offset += 1 + item.below(5)
    carried = fit(fmt, found)
    codecs = sorted(fmt.carries.codecs)
    codec = codecs[layout.below(len(codecs))]
    # The first pieces have one record each, as far as pieces are asked for; then as it comes.
    cuts = {*range(1, min_pieces), 1 + layout.below(6), 1 + layout.below(6)}
    edges = sorted({0, *(cut for cut in cuts if cut < len(carried)), len(carried)})
    groups = [carried[start:end] for start, end in pairwise(edges)]
    return _DRAW[name](layout, fmt, codec, groups)


_Groups = Sequence[Sequence[Record]]


def _draw_kafs(layout: _Choices, fmt: Format, codec: Codec, groups: _Groups) -> Drawn:
    batches = _draw_batches(layout, codec, groups)
    run = b"".join(data for data, _ in batches)
    placed = [Frame(kafs.HEADER_BYTES + at, header) for at, header in frames(run)]
    files = {
        ".kfs": encode_kafs(run, created_ms=layout.below(1 << 12)),
        ".index": kafs.encode_index(placed, interval=1 + layout.below(4)),
    }
    return Drawn(
        fmt=fmt,
        base_offset=placed[0].header.base_offset,
        files=files,
        pieces=_placed(kafs.HEADER_BYTES, batches),
    )


def _draw_kafkalog(layout: _Choices, fmt: Format, codec: Codec, groups: _Groups) -> Drawn:
    batches = _draw_batches(layout, codec, groups)
    run = b"".join(data for data, _ in batches)
    base = next(iter(frames(run))).header.base_offset
    files = encode_kafka_log(run, interval_bytes=(0, 100, 300)[layout.below(3)])
    if layout.below(2):
        aborted = [
            kafkalog.AbortedTxn(
                producer_id=number, first_offset=base, last_offset=at, last_stable_offset=at + 1
            )
            for number, at in enumerate(range(base, base + 1 + layout.below(3)))
        ]
        files[".txnindex"] = encode_txn_index(aborted)
    if layout.below(2):
        producers = [
            kafkalog.ProducerState(producer_id=number, epoch=number, last_offset=base - 1)
            for number in range(layout.below(4))
        ]
        files[".snapshot"] = encode_snapshot(producers)
    return Drawn(fmt=fmt, base_offset=base, files=files, pieces=_placed(0, batches))


def _draw_strm(layout: _Choices, fmt: Format, codec: Codec, groups: _Groups) -> Drawn:
    found = tuple(record for group in groups for record in group)
    data = encode_strm(
        found,
        codec=codec,
        topic=("", "orders")[layout.below(2)],
        partition=layout.below(9),
        created_ms=layout.below(1 << 12) - 1,
        # One byte makes a block of each record.
        block_bytes=1 if len(groups) > 1 else strm.BLOCK_TARGET_BYTES,
    )
    pieces: list[Piece] = []
    at, left = 64, found
    while left:
        _, compressed, count, _ = struct.unpack_from(">IIII", data, at)
        pieces.append(Piece(position=at, size=16 + compressed, records=left[:count]))
        at, left = at + 16 + compressed, left[count:]
    return Drawn(fmt=fmt, base_offset=found[0].offset, files={".seg": data}, pieces=tuple(pieces))


def _draw_rustlog(layout: _Choices, fmt: Format, codec: Codec, groups: _Groups) -> Drawn:
    found = [record for group in groups for record in group]
    log = [
        rustlog.LogRecord(
            offset=record.offset,
            timestamp_us=record.timestamp * 1000,
            payload=record.value or b"",
        )
        for record in found
    ]
    files = rustlog.encode_log(log, index_interval=1 + layout.below(4))
    pieces = _placed(0, [(bytes(20) + entry.payload, (record,))
                         for entry, record in zip(log, found, strict=True)])  # fmt: skip
    return Drawn(fmt=fmt, base_offset=found[0].offset, files=files, pieces=pieces)


_DRAW: dict[str, Callable[[_Choices, Format, Codec, _Groups], Drawn]] = {
    "kafs": _draw_kafs,
    "strm": _draw_strm,
    "rustlog": _draw_rustlog,
    "kafkalog": _draw_kafkalog,
}

_Encoded = Sequence[tuple[bytes, Sequence[Record]]]


def _draw_batches(layout: _Choices, codec: Codec, groups: _Groups) -> _Encoded:
    """Batches as a broker and its cleaner leave them: wider than their records, or empty."""
    batches: list[tuple[bytes, Sequence[Record]]] = []
    at = max(0, groups[0][0].offset - layout.below(3))
    for group in groups:
        base = at if group[0].offset - at < 10 else group[0].offset
        batch = NewBatch(
            records=group,
            base_offset=base,
            codec=codec,
            leader_epoch=layout.below(4) - 1,
            is_control=layout.below(2) == 1,
        )
        batches.append((encode_batch(batch), group))
        at = group[-1].offset + 1
    if layout.below(2):
        empty = NewBatch(records=(), base_offset=at, next_offset=at + 1 + layout.below(3))
        batches.append((encode_batch(empty), ()))
    return batches


def _placed(at: int, encoded: _Encoded) -> tuple[Piece, ...]:
    def each(position: int) -> Iterator[Piece]:
        for data, held in encoded:
            yield Piece(position=position, size=len(data), records=tuple(held))
            position += len(data)

    return tuple(each(at))

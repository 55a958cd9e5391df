"""Makes the golden KAFS segments: ``python -m tests.golden.kafs.make``.

Every file here must decode for ever to the records below. Files are added, never changed.
"""

from dataclasses import dataclass, field
from pathlib import Path

from lakelog.formats.batches import Frame, frames
from lakelog.formats.kafs import FORMAT, HEADER_BYTES, encode_index
from lakelog.model import Header, Record, TimestampType
from lakelog.records import Codec, NewBatch, encode_batch
from tests.plain_encoders import encode
from tests.shorthands import encode_kafs

HERE = Path(__file__).parent
NOON = 1_700_000_000_000


def _record(
    offset: int,
    later_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...] = (),
) -> Record:
    return Record(offset=offset, timestamp=NOON + later_ms, key=key, value=value, headers=headers)


SMALL = (
    _record(1000, 0, b"k", b"hello"),
    _record(1001, 5, None, b"", (Header("h", b"\x01"), Header("n", None))),
    _record(1005, 3, b"", None),
)

CODECS = tuple(
    NewBatch(
        records=tuple(
            _record(100 * codec + i, i, b"key-%d" % (i % 3), b"the same again " * 4)
            for i in range(40)
        ),
        codec=codec,
        leader_epoch=3,
    )
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
)

# What compaction, transactions and LogAppendTime leave behind.
KINDS = (
    NewBatch(records=(), base_offset=7, next_offset=10, producer_id=5, producer_epoch=0,
             base_sequence=0),
    NewBatch(records=(_record(11, 0, b"a", b"kept"),), base_offset=10, next_offset=20,
             delete_horizon=NOON + 1000, leader_epoch=1),
    NewBatch(records=(_record(20, 7, b"b", b"one"), _record(21, 7, b"c", b"two")),
             timestamp_type=TimestampType.LOG_APPEND_TIME, leader_epoch=1),
    NewBatch(records=(_record(22, 8, b"d", b"in a transaction"),), is_transactional=True,
             producer_id=5, producer_epoch=0, base_sequence=3, leader_epoch=1),
    NewBatch(records=(_record(23, 9, b"\0\0\0\1", b"\0\0\0\0\0\2"),), is_transactional=True,
             is_control=True, producer_id=5, producer_epoch=0, leader_epoch=1),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A segment: its records, and its files by suffix."""

    stem: str
    base_offset: int
    records: tuple[Record, ...]
    files: dict[str, bytes] = field(repr=False)


def _of_batches(
    stem: str, batches: tuple[NewBatch, ...], base_offset: int, interval: int
) -> Golden:
    run = b"".join(encode_batch(batch) for batch in batches)
    placed = (Frame(HEADER_BYTES + at, header) for at, header in frames(run))
    return Golden(
        stem=stem,
        base_offset=base_offset,
        records=tuple(record for batch in batches for record in batch.records),
        files={
            ".kfs": encode_kafs(run, created_ms=NOON, base_offset=base_offset),
            ".index": encode_index(placed, interval=interval),
        },
    )


def goldens() -> tuple[Golden, ...]:
    """Return the segments as the encoder makes them today."""
    small = encode(FORMAT, SMALL, Codec.NONE)
    return (
        Golden(stem=FORMAT.file_stem(1000), base_offset=1000, records=SMALL, files=small),
        _of_batches(FORMAT.file_stem(0), CODECS, 0, 50),
        _of_batches(f"{FORMAT.file_stem(5)}-0badcafe", KINDS, 5, 1),
    )


if __name__ == "__main__":
    for golden in goldens():
        for suffix, data in golden.files.items():
            (HERE / f"{golden.stem}{suffix}").write_bytes(data)

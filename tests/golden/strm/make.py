"""Makes the golden STRM segments: ``python tests/golden/strm/make.py``.

Every file here must decode for ever to the records below. Files are added, never changed.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from lakelog.model import Header, Record
from lakelog.records import Codec
from tests.plain_encoders import encode_strm

HERE = Path(__file__).parent
NOON = 1_700_000_000_000


def _record(offset: int, later_ms: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=offset, timestamp=NOON + later_ms, key=key, value=value)


PLAIN = (
    _record(1000, 0, b"k", b"hello"),
    _record(1001, 5, None, b""),
    _record(1005, 3, b"", b"after a gap, and a little older"),
)

MANY = tuple(
    _record(offset, offset % 7, b"key-%d" % (offset % 3), b"value %d " % offset * 8)
    for offset in range(50)
)

EXTENDED = (
    _record(0, 0, b"k", None),
    Record(
        offset=1,
        timestamp=-1,
        key=None,
        value=b"with headers",
        headers=(Header("trace", b"\x00\xff"), Header("empty", None), Header("\udcff", b"")),
    ),
)

FIRST = (
    Record(offset=7, timestamp=0, key=b"a", value=b"one"),
    Record(offset=8, timestamp=10, key=None, value=b"two"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A file: its records, and what else went into it."""

    records: tuple[Record, ...]
    settings: dict[str, Any] = field(default_factory=dict)


ENCODED = {
    "none.seg": Golden(
        records=PLAIN,
        settings={
            "codec": Codec.NONE,
            "topic": "orders",
            "partition": 3,
            "created_ms": NOON + 60_000,
        },
    ),
    "blocks.seg": Golden(records=MANY, settings={"codec": Codec.NONE, "block_bytes": 1024}),
    "lz4.seg": Golden(records=MANY, settings={"codec": Codec.LZ4, "block_bytes": 1024}),
    "zstd.seg": Golden(records=MANY, settings={"codec": Codec.ZSTD, "block_bytes": 1024}),
    "extensions.seg": Golden(records=EXTENDED, settings={"codec": Codec.NONE}),
}


def first_writer() -> bytes:
    """Return what the format's first writer made of FIRST, put together without our encoder.

    It leaves the time range 0 and forgets the first record's time; its topic hash is not known.
    """
    raw = b"\x00\x00\x02a\x06one" + b"\x02\x14\x01\x06two"
    lz4_block = bytes([0xF0, len(raw) - 15]) + raw  # Literals only: as if nothing had repeated.
    body = struct.pack("<I", len(raw)) + lz4_block
    data = struct.pack(">4sHHQIQQIQQQ", b"STRM", 1, 1, 0xDEADBEEF, 0, 7, 8, 2, NOON, 0, 0)
    data += struct.pack(">IIII", len(raw), len(body), 2, crc32(body)) + body
    index_position = len(data)
    data += struct.pack(">IQQ", 1, 7, 64)
    data += struct.pack(">QI", index_position, 20)
    return data + struct.pack(">I12x4s", crc32(data), b"MRTS")


def main() -> None:
    for name, golden in ENCODED.items():
        (HERE / name).write_bytes(encode_strm(golden.records, **golden.settings))
    (HERE / "first-writer.seg").write_bytes(first_writer())


if __name__ == "__main__":
    main()

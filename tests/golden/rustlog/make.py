"""Makes the golden RustLog files: ``python -m tests.golden.rustlog.make``.

Every file here must decode for ever to the records below. Files are added, never changed.
"""

import struct
from pathlib import Path

from lakelog.formats.rustlog import (
    CleanerCheckpoint,
    LogRecord,
    encode_checkpoint,
    encode_envelope,
    encode_log,
)
from lakelog.model import Header

HERE = Path(__file__).parent
NOON_US = 1_700_000_000_000_000

FEW = (
    LogRecord(offset=1000, timestamp_us=NOON_US + 1, payload=b"hello"),
    LogRecord(offset=1001, timestamp_us=NOON_US + 1500, payload=b""),
    LogRecord(offset=1005, timestamp_us=NOON_US + 2000, payload=b"after a gap"),
)

MANY = tuple(
    LogRecord(offset=number * 2, timestamp_us=NOON_US + number * 250, payload=b"%d" % number)
    for number in range(250)
)

SPOOLED = tuple(
    LogRecord(
        offset=offset,
        timestamp_us=NOON_US + offset,
        payload=encode_envelope(key, value, headers, offset=offset, timestamp_us=NOON_US + offset),
    )
    for offset, key, value, headers in (
        (7, None, b"hello", ()),
        (8, b"k", None, ()),
        (9, b"k", b"v", (Header("h", b"1"), Header("n", None))),
    )
)
"""Envelopes: a value without a key, a tombstone, and headers."""

CHECKPOINT = CleanerCheckpoint(
    last_cleaned_offset=1000,
    retention_horizon_ms=1_699_999_000_000,
    compaction_state="Idle",
    created_at_ns=1_700_000_000_000_000_123,
)
BINARY_CHECKPOINT = CleanerCheckpoint(
    last_cleaned_offset=1000, retention_horizon_ms=0, created_at_ns=1_700_000_000_000_000_000
)

LOGS = {"00000000000000001000": FEW, "00000000000000000000": MANY, "00000000000000000007": SPOOLED}


def main() -> None:
    for stem, records in LOGS.items():
        for suffix, data in encode_log(records).items():
            (HERE / (stem + suffix)).write_bytes(data)
    (HERE / "cleaner_checkpoint.json").write_bytes(encode_checkpoint(CHECKPOINT))
    (HERE / "cleaner_checkpoint.bin").write_bytes(struct.pack(">QQ", 1000, 1_700_000_000_000))


if __name__ == "__main__":
    main()

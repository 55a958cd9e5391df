"""Stores of segments for tests: one topic in any layout, on disk."""

from collections.abc import Sequence
from pathlib import Path

from lakelog.formats import FORMATS
from lakelog.model import Header, Record
from lakelog.records import Codec
from lakelog.segments import LAYOUTS
from tests.plain_encoders import encode

__all__ = ["make_records", "write_partition", "write_topic"]

START_MS = 1_700_000_000_000


def make_records(
    layout: str, count: int, *, partition: int = 0, step_ms: int = 60_000
) -> list[Record]:
    """Return records with all that a layout carries: nulls, keys, headers."""
    carries = FORMATS[LAYOUTS[layout].format].carries
    return [
        Record(
            offset=i,
            timestamp=START_MS + step_ms * i,
            key=b"key-%d" % (i % 7) if carries.keys and i % 5 else None,
            value=None if carries.null_values and i % 11 == 0 else b"%d/%d " % (partition, i) * 9,
            headers=(Header("n", b"%d" % i),) if carries.headers and i % 3 == 0 else (),
        )
        for i in range(count)
    ]


def write_partition(
    root: Path, layout: str, records: Sequence[Record], *, topic: str = "orders",
    partition: int = 0, segment_records: int = 400, codec: Codec = Codec.NONE,
) -> None:  # fmt: skip
    """Write records as segments of a partition."""
    row = LAYOUTS[layout]
    fmt = FORMATS[row.format]
    place = root / row.directory(topic, partition)
    place.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(records), segment_records):
        segment = records[start : start + segment_records]
        for suffix, data in encode(fmt, segment, codec).items():
            (place / (fmt.file_stem(segment[0].offset) + suffix)).write_bytes(data)


def write_topic(root: Path, layout: str, *, partitions: int = 2, count: int = 1000) -> Path:
    """Write a topic, and return where it is."""
    for partition in range(partitions):
        records = make_records(layout, count, partition=partition)
        write_partition(root, layout, records, partition=partition)
    return root

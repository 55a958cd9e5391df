"""``verify`` on damaged segments: every damaged byte that the format protects is found.

For each format a gibibyte of segments of about a mebibyte is verified whole (nothing may be found),
then one byte, at a random place, is changed in each of a thousand segments. Every one of these must
be found damaged, at a place that covers the byte where the format protects it piece by piece; the
others must not. The value is the share of damages that were found.

Within the law of each format: bytes that nothing in the format protects are not chosen. Of a Kafka
log that is the base offset and the leader epoch of a batch, of KAFS the lower bits of the creation
time. RustLog has no checksum: of it only the upper byte of a record's length is chosen, which
breaks the structure; and what is not found damaged must be told unverifiable, never good.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.data import Shape, columns_of
from benchmarks.measure import arguments, closing_line
from lakelog.formats import FORMATS
from lakelog.formats.writing import new_segment
from lakelog.records import Codec, decode_header
from lakelog.segments import LAYOUTS
from tests.parts.spark import running_spark

SEED = 20251115
SEGMENT_RECORDS = {"kafka": 9000, "kafs": 9000, "strm": 18_000, "rustlog": 9500}
"""About a mebibyte of each; STRM is compressed."""


def main() -> None:
    options = arguments(__doc__)
    damages, total = (50, 60) if options.quick else (1000, 1040)
    found: dict[str, Any] = {}
    with running_spark() as spark:
        for layout in LAYOUTS:
            with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
                found[layout] = judge(spark, Path(folder), layout, total, damages)
            print(layout, found[layout], flush=True)
    worst = min(one["found"] / one["damages"] for one in found.values())
    false_alarms = sum(one["false_alarms"] for one in found.values())
    closing_line(
        name="damage",
        value=worst if not false_alarms else 0.0,
        bar=1.0,
        unit="of the damaged bytes that the format protects, the worst format",
        **found,
    )


def judge(spark: Any, root: Path, layout: str, total: int, damages: int) -> dict[str, int]:
    from lakelog.spark import jobs

    size = write(root, layout, total)
    whole = jobs.verify(spark, str(root), layout=layout, closed=True)
    assert whole.table.num_rows == total
    assert whole.outcomes == {"good" if _fmt(layout).checksums else "unverifiable": total}
    draw = random.Random(SEED)
    paths = sorted(path for path in root.rglob("*") if path.suffix == _fmt(layout).suffix)
    harmed = {
        str(path.relative_to(root)): damage(path, layout, draw)
        for path in draw.sample(paths, damages)
    }
    report = jobs.verify(spark, str(root), layout=layout, closed=True)
    bad = {
        row["object"]: row["findings"]
        for row in report.table.to_pylist()
        if row["outcome"] == "damaged"
    }
    located = sum(
        any(f["position"] <= harmed[key] < f["position"] + max(f["size"], 1) for f in findings)
        for key, findings in bad.items()
        if key in harmed
    )
    return {
        "bytes": size,
        "damages": damages,
        "found": len(bad.keys() & harmed.keys()),
        "at_the_place": located,
        "false_alarms": whole.findings_count + len(bad.keys() - harmed.keys()),
    }


def write(root: Path, layout: str, total: int) -> int:
    """Write segments of about a mebibyte; return the bytes of their data."""
    fmt = _fmt(layout)
    place = root / LAYOUTS[layout].directory("bench", 0)
    place.mkdir(parents=True)
    count = SEGMENT_RECORDS[layout]
    columns = columns_of(Shape(records=count))
    if not fmt.carries.keys:
        nothing = pa.nulls(count, pa.binary())
        columns = columns.set_column(0, columns.field(0), nothing)
    size = 0
    codec = Codec.LZ4 if Codec.LZ4 in fmt.carries.codecs and layout == "strm" else Codec.NONE
    for number in range(total):
        base = number * count
        offsets = pa.array(range(base, base + count), pa.int64())
        at = columns.schema.get_field_index("offset")
        moved = columns.set_column(at, columns.field(at), offsets)
        writer = new_segment(fmt, topic="bench", partition=0, base_offset=base, codec=codec)
        writer.add(moved)
        for suffix, data in writer.finish().items():
            (place / (fmt.file_stem(base) + suffix)).write_bytes(data)
            size += len(data) if suffix == fmt.suffix else 0
    return size


def damage(path: Path, layout: str, draw: random.Random) -> int:
    """Change one byte that the format protects; return where."""
    data = bytearray(path.read_bytes())
    if layout == "rustlog":
        # Of the length of a record only the upper byte is sure to break the structure.
        at = draw.choice(list(_record_starts(data)))
        data[at] ^= 0x40
    else:
        at = draw.randrange(len(data))
        while not protected(data, at, layout):
            at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return at


def _record_starts(data: bytearray) -> Iterator[int]:
    at = 0
    while at < len(data):
        yield at
        at += 20 + int.from_bytes(data[at : at + 4], "big")


def protected(data: bytearray, at: int, layout: str) -> bool:
    """Whether the format lets a reader notice that this byte has changed."""
    if layout == "kafka":
        batch = 0
        while batch + decode_header(data, batch).size <= at:
            batch += decode_header(data, batch).size
        return not (at - batch < 8 or 12 <= at - batch < 16)
    return layout != "kafs" or not 20 <= at < 28


def _fmt(layout: str) -> Any:
    return FORMATS[LAYOUTS[layout].format]


if __name__ == "__main__":
    main()

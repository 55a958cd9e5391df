"""Planning a read of a large history: a million segments over ten thousand partitions.

The manifests are files of a local store, a hundred segments each; of one partition in a hundred the
older rows are on a page. The plan reads every manifest and every page, and holds a row a segment.

The value is the seconds allowed over the seconds taken: 10 s for the whole, in proportion for less.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from lakelog.catalog import Topic
from lakelog.host import new_id
from lakelog.log import plan_partitions
from lakelog.manifests import (
    Manifest,
    PageRow,
    SegmentRow,
    encode_manifest,
    encode_page,
)
from lakelog.names import page_stem, segment_stem
from lakelog.store import Meter, metered, open_store, run, working

SECONDS = 10.0
PARTITIONS = 10_000
SEGMENTS = 100
RECORDS = 1_000_000


def rows_of(partition: int) -> tuple[SegmentRow, ...]:
    return tuple(
        SegmentRow(
            segment_stem(number * RECORDS),
            number * RECORDS,
            (number + 1) * RECORDS,
            0,
            128 << 20,
            RECORDS,
            1_763_190_000_000 + number,
            1_763_190_600_000 + number,
            1_763_190_700_000 + number,
            partition * SEGMENTS + number,
            1,
            0,
        )
        for number in range(SEGMENTS)
    )


def write_partition(topic: Topic, folder: Path, partition: int) -> None:
    """Write the manifest of one partition, with a page if its number is round."""
    rows = rows_of(partition)
    pages: tuple[PageRow, ...] = ()
    folder.mkdir(parents=True)
    if partition % 100 == 0:
        old, rows = rows[: SEGMENTS // 2], rows[SEGMENTS // 2 :]
        name = page_stem(new_id())
        size = sum(row.length for row in old)
        page = PageRow(name, old[0].base_offset, old[-1].next_offset, len(old), size, 1, 2, 3)
        (folder / f"{name}.json").write_bytes(encode_page(old))
        pages = (page,)
    manifest = Manifest(
        topic=topic.id,
        partition=partition,
        sealed_end=rows[-1].next_offset,
        pages=pages,
        segments=rows,
    )
    (folder / "manifest").write_bytes(encode_manifest(manifest))


def main() -> None:
    options = arguments(__doc__)
    partitions = PARTITIONS // 5 if options.quick else PARTITIONS
    topic = Topic(name="large", id=new_id(), partitions=partitions, lanes=64)
    with tempfile.TemporaryDirectory(prefix="lakelog-history-") as folder:
        for partition in range(partitions):
            write_partition(topic, Path(folder) / topic.path / str(partition), partition)
        meter = Meter()
        perform = working(metered(open_store(f"file://{folder}").perform, meter))
        paths = [topic.path_of(partition) for partition in range(topic.partitions)]
        took, cpu, count = [], [], 0
        for _ in range(3):
            wall, used = time.perf_counter(), time.process_time()
            planned = run(plan_partitions(paths), perform)
            took.append(time.perf_counter() - wall)
            cpu.append(time.process_time() - used)
            count = sum(len(one.rows) for one in planned)
            assert count == partitions * SEGMENTS
            del planned
    allowed_s = SECONDS * partitions / PARTITIONS
    closing_line(
        name="history",
        value=allowed_s / min(took),
        bar=1.0,
        unit="seconds allowed over seconds taken",
        segments=count,
        seconds=round(min(took), 2),
        seconds_max=allowed_s,
        cpu_s=round(min(cpu), 2),
        requests=sum(meter.usage.requests.values()) // 3,
    )


if __name__ == "__main__":
    main()

"""Scans of files that are not as large as they were said to be."""

import pytest

from lakelog.errors import CorruptError
from lakelog.formats import FORMATS, Files, Format, drive_items
from lakelog.formats.columns import scan_columns
from lakelog.model import Record
from lakelog.records import Codec
from tests.plain_encoders import encode
from tests.segments import Store, buffers

RECORDS = [Record(offset=i, timestamp=1000 + i, key=None, value=b"v" * 60) for i in range(3)]


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_a_file_shorter_than_its_size_is_corrupt(fmt: Format) -> None:
    data = encode(fmt, RECORDS, Codec.NONE)[fmt.suffix]
    files = Files(base_offset=0, sizes={fmt.suffix: len(data)})
    for cut in range(1, len(data)):
        held = {fmt.suffix: data[: len(data) - cut]}
        with pytest.raises(CorruptError):
            list(drive_items(scan_columns(fmt, files, ("offset",)), buffers(held)))


@pytest.mark.parametrize("name", ["kafkalog", "kafs"])
def test_a_range_of_offsets_is_read_whole_and_little_else(name: str) -> None:
    fmt, count, cuts = FORMATS[name], 8000, 3
    records = [
        Record(offset=i, timestamp=i, key=None, value=b"%4d" % i * 250) for i in range(count)
    ]
    made = encode(fmt, records, Codec.NONE)
    size = len(made[fmt.suffix])
    for low, high in ((3500, 3510), (0, 1), (2999, 3001), (5000, 6000), (7990, 8000), (10, 7000)):
        store, found = Store(made), []
        for number in range(cuts):
            flow = scan_columns(
                fmt, Files(base_offset=0, sizes=store.sizes), ("offset",),
                byte_from=size * number // cuts, byte_to=size * (number + 1) // cuts,
                offset_from=low, offset_to=high,
            )  # fmt: skip
            for batch in drive_items(flow, store.give):
                found += batch.column("offset").to_pylist()
        assert found == list(range(low, high))
        if high - low < 1000:
            assert sum(wish.end - wish.start for wish in store.asked) < size / 2

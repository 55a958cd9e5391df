"""Scans of files that are not as large as they were said to be."""

import pytest

from lakelog.errors import CorruptError
from lakelog.formats import FORMATS, Files, Format, buffers, drive_items
from lakelog.formats.columns import scan_columns
from lakelog.model import Record
from lakelog.records import Codec

RECORDS = [Record(offset=i, timestamp=1000 + i, key=None, value=b"v" * 60) for i in range(3)]


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_a_file_shorter_than_its_size_is_corrupt(fmt: Format) -> None:
    data = fmt.encode(RECORDS, Codec.NONE)[fmt.suffix]
    files = Files(base_offset=0, sizes={fmt.suffix: len(data)})
    for cut in range(1, len(data)):
        held = {fmt.suffix: data[: len(data) - cut]}
        with pytest.raises(CorruptError):
            list(drive_items(scan_columns(fmt, files, ("offset",)), buffers(held)))

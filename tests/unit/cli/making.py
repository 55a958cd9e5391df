"""Segments to look at: made on the spot, so that a test says what is in them."""

from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner, Result

from lakelog.cli import main
from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.plain_encoders import encode

TIME = 1_700_000_000_000
VALUE_AT = 67
"""Where in a batch the value of its first record is: a flipped bit there breaks the CRC only."""


def run(*args: object) -> Result:
    """Run lakelog with these arguments."""
    return CliRunner().invoke(main, [str(arg) for arg in args])


def records(base_offset: int, count: int) -> list[Record]:
    """Records that every format can hold."""
    return [
        Record(offset=offset, timestamp=TIME + offset, key=None, value=b"v%d" % offset)
        for offset in range(base_offset, base_offset + count)
    ]


def batch(base_offset: int, count: int = 3) -> bytes:
    return encode_batch(NewBatch(records=records(base_offset, count)))


def flipped(data: bytes, at: int) -> bytes:
    """The same bytes but for one bit."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def write_log(directory: Path, batches: Sequence[bytes], base_offset: int = 0) -> Path:
    """Write a Kafka .log without side files."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def write_segment(directory: Path, name: str, base_offset: int = 0, count: int = 250) -> Path:
    """Write a segment of any format with its side files; return its data file."""
    row = FORMATS[name]
    directory.mkdir(parents=True, exist_ok=True)
    stem = row.file_stem(base_offset)
    for suffix, data in encode(row, records(base_offset, count), Codec.NONE).items():
        (directory / f"{stem}{suffix}").write_bytes(data)
    return directory / f"{stem}{row.suffix}"

"""Readers of a spool: beside the writer and in its process, by offset, by time, as it grows."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import CorruptError, InvalidInputError, NotFoundError
from lakelog.segments import LAYOUTS, find_directories
from lakelog.segments.scan import ScanRequest, scan
from lakelog.spool import SpoolReader, open_reader
from lakelog.store import LocalStore
from tests.unit.spool.spools import NOON_US, Clock, spool_in, values

COUNT = 450


def written(folder: Path) -> list[bytes]:
    """A spool of two sealed segments and an active one, a record a millisecond."""
    clock = Clock()
    with spool_in(folder, clock) as spool:
        for number in range(COUNT):
            spool.append("t", b"%d" % number, key=b"k%d" % (number % 7))
            clock.pass_ms(1)
            if number in (149, 299):
                spool.seal("t")
        return values(spool)


@pytest.mark.parametrize("offset", [0, 1, 99, 100, 149, 150, 301, 449, 450, 9999])
def test_by_offset_from_any_place(tmp_path: Path, offset: int) -> None:
    expected = written(tmp_path)
    reader = open_reader(str(tmp_path))
    found = [bytes(one.value or b"") for one in reader.records("t", offset=offset)]
    assert found == expected[offset:]
    table = reader.batches("t", offset=offset, end=offset + 70).read_all()
    assert table["value"].to_pylist() == expected[offset : offset + 70]
    assert reader.bounds("t") == (0, COUNT)


@pytest.mark.parametrize("ms", [-5, 0, 1, 149, 150, 151, 449])
def test_by_time(tmp_path: Path, ms: int) -> None:
    written(tmp_path)
    reader = open_reader(str(tmp_path))
    assert reader.offset_at("t", NOON_US + ms * 1000) == max(ms, 0)
    assert reader.offset_at("t", NOON_US + COUNT * 1000) == COUNT


def test_keys_and_values_are_views_that_outlive_the_file(tmp_path: Path) -> None:
    written(tmp_path)
    record = next(iter(open_reader(str(tmp_path)).records("t", offset=5)))
    assert isinstance(record.value, memoryview)
    for path in (tmp_path / "topics/t/partitions/0").iterdir():
        path.unlink()
    assert [bytes(one or b"") for one in (record.key, record.value)] == [b"k5", b"5"]


def test_a_follower_sees_what_comes(tmp_path: Path) -> None:
    """Its wait lets the writer go on, and ends it when there is nothing more to come."""
    with spool_in(tmp_path) as spool:
        spool.append("t", b"0")
        coming = [b"1", b"2", b"3"]

        def wait(_: float) -> bool:
            if not coming:
                return True
            if len(coming) == 2:
                spool.seal("t")
            spool.append("t", coming.pop(0))
            return False

        for reader in (spool.reader, SpoolReader(spool.disk)):
            coming = [b"1", b"2", b"3"] if reader is spool.reader else []
            found = [bytes(one.value or b"") for one in reader.follow("t", wait=wait)]
            assert found == [b"0", b"1", b"2", b"3"]


def test_another_process_reads_whole_records_while_one_is_half_written(tmp_path: Path) -> None:
    with spool_in(tmp_path) as spool:
        spool.append("t", b"whole")
        log = tmp_path / "topics/t/partitions/0/00000000000000000000.log"
        good = log.read_bytes()
        for half in (b"\0", good[:25], good[:-1]):
            log.write_bytes(good + half)
            found = list(open_reader(str(tmp_path)).records("t"))
            assert [bytes(one.value or b"") for one in found] == [b"whole"]
        log.write_bytes(good)


def test_the_reader_of_spark_reads_it_too_with_keys_and_headers(tmp_path: Path) -> None:
    expected = written(tmp_path)
    with spool_in(tmp_path) as spool:
        table = scan(LocalStore(str(tmp_path)), ScanRequest(layout="rustlog")).read_all()
        assert sorted(table.schema.names)[:2] == ["headers", "key"]
        assert table["value"].to_pylist() == expected
        assert table["key"].to_pylist()[:8] == [b"k%d" % (n % 7) for n in range(8)]
        spool.append("t", b"more")
        again = scan(LocalStore(str(tmp_path)), ScanRequest(layout="rustlog")).read_all()
        assert again["value"].to_pylist() == [*expected, b"more"]
    logs = sorted(tmp_path.rglob("*.log"))
    names = [(str(one.relative_to(tmp_path)), one.stat().st_size) for one in logs]
    (directory,) = find_directories(LAYOUTS["rustlog"], names)
    assert len(directory.segments) == 3


def test_damage_in_a_sealed_segment_is_told_where_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    log = tmp_path / "topics/t/partitions/0/00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[-2] ^= 1
    log.write_bytes(data)
    reader = open_reader(str(tmp_path))
    with pytest.raises(CorruptError, match="checksum"):
        list(reader.records("t"))
    with pytest.raises(CorruptError, match="checksum"):
        reader.batches("t").read_all()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such folder"):
        open_reader(str(tmp_path / "none"))
    written(tmp_path)
    reader = open_reader(str(tmp_path))
    assert list(reader.records("other")) == []
    assert reader.bounds("other") == (0, 0)
    with pytest.raises(InvalidInputError, match="offset -1"):
        list(reader.records("t", offset=-1))
    with pytest.raises(InvalidInputError, match="no column"):
        reader.batches("t", columns=["colour"])
    assert isinstance(reader.batches("t"), pa.RecordBatchReader)

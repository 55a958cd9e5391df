"""What the document says of crashes, scenario by scenario, and what recovery does with the rest."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from lakelog.errors import CorruptError
from lakelog.formats.rustlog import LogRecord, encode_log
from lakelog.spool import Spool, open_reader
from tests.unit.spool.spools import NOON_US, simulated_disk, spool_in, spool_on, values

FOLDER = "topics/t/partitions/0"
FIRST = "00000000000000000000"


def filled(folder: Path, segments: int = 3) -> list[bytes]:
    """Write a spool of some sealed segments and an active one; return its values."""
    with spool_in(folder) as spool:
        for number in range(10 * segments):
            spool.append("t", b"%04d" % number)
            if number % 10 == 9 and number + 1 < 10 * segments:
                spool.seal("t")
        return values(spool)


def active(folder: Path) -> Path:
    return sorted((folder / FOLDER).glob("*.log"))[-1]


# ---------------------------------------------------------------------------- the scenarios


@pytest.mark.parametrize("cut", [1, 5, 19, 20, 30])
def test_power_loss_during_a_write_leaves_a_torn_record_which_is_cut_off(
    tmp_path: Path, cut: int
) -> None:
    expected = filled(tmp_path)
    (tmp_path / FOLDER / ".recovery").unlink()
    log = active(tmp_path)
    os.truncate(log, log.stat().st_size - cut)
    with spool_in(tmp_path) as spool:
        assert values(spool) == expected[:-1]
        assert spool.counters.cut_bytes > 0
        assert spool.append("t", b"next") == len(expected) - 1
        assert values(spool) == [*expected[:-1], b"next"]


def test_power_loss_during_a_write_may_leave_zeros_or_half_a_payload(tmp_path: Path) -> None:
    expected = filled(tmp_path)
    (tmp_path / FOLDER / ".recovery").unlink()
    log = active(tmp_path)
    data = log.read_bytes()
    log.write_bytes(data[:-3] + b"\0\0\0" + bytes(500))
    with spool_in(tmp_path) as spool:
        assert values(spool) == expected[:-1]


def test_power_loss_during_sealing_leaves_an_index_that_is_missing_or_half(tmp_path: Path) -> None:
    expected = filled(tmp_path)
    indexes = sorted((tmp_path / FOLDER).glob("*.index"))
    good = [path.read_bytes() for path in indexes]
    indexes[0].unlink()
    indexes[1].write_bytes(good[1][:9])
    with spool_in(tmp_path) as spool:
        assert values(spool) == expected
        assert spool.counters.index_rebuilds == 2
    assert [path.read_bytes() for path in indexes] == good


def test_power_loss_during_an_index_rebuild_leaves_a_file_aside_and_it_is_begun_again(
    tmp_path: Path,
) -> None:
    expected = filled(tmp_path)
    index = sorted((tmp_path / FOLDER).glob("*.index"))[0]
    good = index.read_bytes()
    index.rename(index.with_name(index.name + ".rebuilding"))
    index.with_name(index.name + ".tmp").write_bytes(good[:3])
    with spool_in(tmp_path) as spool:
        assert values(spool) == expected
    assert index.read_bytes() == good
    assert not list((tmp_path / FOLDER).glob("*.rebuilding"))
    assert not list((tmp_path / FOLDER).glob("*.tmp"))


def test_a_seal_whose_next_segment_was_lost_is_undone_and_one_without_its_index_finished(
    tmp_path: Path,
) -> None:
    expected = filled(tmp_path, 2)
    with spool_in(tmp_path) as spool:
        spool.seal("t")
    active(tmp_path).unlink()
    with spool_in(tmp_path) as spool:
        assert values(spool) == expected
        assert spool.append("t", b"on") == len(expected)
        assert [one.base_offset for one in spool.log("t").sealed] == [0]


# ---------------------------------------------------------------------------- beyond


def test_damage_where_the_disk_was_said_to_have_it_is_told_and_nothing_is_cut(
    tmp_path: Path,
) -> None:
    filled(tmp_path)
    log = active(tmp_path)
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    with spool_in(tmp_path) as spool, pytest.raises(CorruptError, match="it is damaged"):
        spool.append("t", b"v")
    assert log.read_bytes() == data


def test_damage_in_a_sealed_segment_without_an_index_is_told(tmp_path: Path) -> None:
    filled(tmp_path)
    log = tmp_path / FOLDER / f"{FIRST}.log"
    log.with_suffix(".index").unlink()
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    with spool_in(tmp_path) as spool, pytest.raises(CorruptError, match="lakelog spool verify"):
        spool.append("t", b"v")


def test_recovery_gives_the_same_every_time(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    log = active(tmp_path / "a")
    (tmp_path / "a" / FOLDER / ".recovery").unlink()
    os.truncate(log, log.stat().st_size - 3)
    for name in ("b", "c"):
        shutil.copytree(tmp_path / "a", tmp_path / name)
        spool_in(tmp_path / name).log("t")
    assert active(tmp_path / "b").read_bytes() == active(tmp_path / "c").read_bytes()


def test_what_a_failed_fsync_has_lost_is_written_again() -> None:
    """Its pages stay in memory and look right; else later records would be lost with it."""
    disk = simulated_disk()
    spool = spool_on(disk)
    spool.append("t", b"a" * 200)
    disk.failing = 1.0
    with pytest.raises(Exception, match="fsync"):
        spool.append("t", b"b" * 200)
    disk.failing = 0.0
    spool.disk.system.kill()  # type: ignore[attr-defined]
    with spool_on(disk) as again:
        again.append("t", b"c" * 200)
    disk.cut_power()
    with spool_on(disk) as after:
        assert values(after) == [b"a" * 200, b"b" * 200, b"c" * 200]


def test_retention_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    filled(tmp_path)
    first = tmp_path / FOLDER / f"{FIRST}.log"
    data, index = first.read_bytes(), first.with_suffix(".index").read_bytes()
    with spool_in(tmp_path, retention_ms=0, keep_unshipped=False) as spool:
        spool.log("t")
        spool._clock_us.now_us += 10  # type: ignore[attr-defined]
        assert spool.keep().segments == 2
    # A power cut brings back the first of those that were deleted, and not the second.
    first.write_bytes(data)
    first.with_suffix(".index").write_bytes(index)
    with spool_in(tmp_path) as spool:
        assert spool.log("t").start == 20
    assert not first.exists()


# ---------------------------------------------------------------------------- other writers


def raw_log(folder: Path, count: int = 5) -> list[bytes]:
    """A log of another writer."""
    contents = [b"raw %d" % number for number in range(count)]
    records = [
        LogRecord(offset=number, timestamp_us=NOON_US, payload=payload)
        for number, payload in enumerate(contents)
    ]
    path = folder / FOLDER
    path.mkdir(parents=True)
    for suffix, data in encode_log(records).items():
        (path / (FIRST + suffix)).write_bytes(data)
    return contents


def test_a_log_of_another_writer_is_adopted_and_its_records_are_unverified(tmp_path: Path) -> None:
    contents = raw_log(tmp_path)

    def check(spool: Spool, more: list[bytes]) -> None:
        assert values(spool) == contents + more
        verified = [one.is_verified for one in spool.reader.records("t")]
        assert verified == [False] * len(contents) + [True] * len(more)

    with spool_in(tmp_path) as spool:
        assert spool.append("t", b"mine") == len(contents)
        check(spool, [b"mine"])
        assert [one.base_offset for one in spool.log("t").sealed] == [0]
        assert spool.append("other", b"new") == 0
    with spool_in(tmp_path) as spool:
        check(spool, [b"mine"])
    reader = open_reader(str(tmp_path))
    assert [bytes(one.value or b"") for one in reader.records("t")] == [*contents, b"mine"]


def test_behind_what_was_adopted_a_raw_record_is_where_the_power_failed(tmp_path: Path) -> None:
    contents = raw_log(tmp_path)
    with spool_in(tmp_path) as spool:
        spool.append("t", b"mine")
    log = active(tmp_path)
    with log.open("ab") as file:
        file.write(struct.pack(">IQQ", 4, len(contents) + 1, NOON_US) + b"junk")
    with spool_in(tmp_path) as spool:
        assert values(spool) == [*contents, b"mine"]


def test_a_copy_of_a_spool_is_another_spool(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "moved")
    with spool_in(tmp_path / "moved") as moved, spool_in(tmp_path / "b") as copied:
        assert moved.id == bytes([1]) * 16
        assert values(moved) == values(copied)
        copied_id = copied.id
    # The ids of a test count up; that of the copy was drawn, and is kept from here on.
    with spool_in(tmp_path / "b") as again:
        assert again.id == copied_id
    assert (tmp_path / "b" / ".spool").read_bytes() != (tmp_path / "moved" / ".spool").read_bytes()

"""What a spool keeps and what it deletes: by time, by bytes, by key, and when there is no room."""

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import FullError, InvalidInputError
from lakelog.formats.rustlog import decode_checkpoint
from lakelog.spool import Disk, Spool, WhenFull, copy_spool, verify
from lakelog.spool.cells import Shipped, ShippedRange, write_shipped
from lakelog.store import LINUX
from tests.unit.spool.spools import Clock, spool_in, values

FOLDER = "topics/t/partitions/0"


def fill(spool: Spool, clock: Clock, segments: int = 4) -> None:
    """Ten records a segment, a segment a second; the last is active."""
    for number in range(10 * segments):
        spool.append("t", b"%d" % number)
        if number % 10 == 9 and number + 1 < 10 * segments:
            spool.seal("t")
            clock.pass_ms(1000)


def fill_up(spool: Spool) -> None:
    for _ in range(100):
        spool.append("t", bytes(100))


def shipped_to(spool: Spool, end: int, pending: ShippedRange | None = None) -> None:
    write_shipped(spool.disk, {("t", 0): Shipped(end=end, pending=pending)})


# ---------------------------------------------------------------------------- retention


def test_old_segments_go_when_they_were_shipped_and_the_checkpoint_says_so(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, retention_ms=1500) as spool:
        fill(spool, clock)
        assert spool.keep().segments == 0
        shipped_to(spool, 19)
        deleted = spool.keep()
        assert (deleted.segments, deleted.unshipped) == (1, 0)
        assert values(spool) == [b"%d" % number for number in range(10, 40)]
        shipped_to(spool, 40)
        assert spool.keep().segments == 1
        clock.pass_ms(10_000)
        assert spool.keep().segments == 1
        assert values(spool) == [b"%d" % number for number in range(30, 40)]
    checkpoint = decode_checkpoint((tmp_path / FOLDER / ".cleaner_checkpoint").read_bytes())
    assert checkpoint.last_cleaned_offset == 30
    assert checkpoint.retention_horizon_ms == clock.now_us // 1000 - 1500
    assert len(list((tmp_path / FOLDER).glob("*.index"))) == 0


def test_the_active_segment_stays_and_offsets_go_on(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, retention_bytes=0, keep_unshipped=False) as spool:
        fill(spool, clock)
        assert spool.keep().segments == 3
        spool.seal("t")
        assert spool.keep().segments == 1
        assert values(spool) == []
    with spool_in(tmp_path) as spool:
        assert spool.append("t", b"on") == 40


def test_a_range_that_is_being_shipped_is_not_deleted(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, retention_ms=0, keep_unshipped=False) as spool:
        fill(spool, clock)
        shipped_to(spool, 10, ShippedRange(10, 20, "s3://b"))
        assert spool.keep().segments == 1
        assert spool.log("t").start == 10


def test_a_tick_keeps_once_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, retention_ms=0, keep_unshipped=False) as spool:
        fill(spool, clock)
        spool.tick()
        assert spool.log("t").start == 0
        clock.pass_ms(60_000)
        spool.tick()
        assert spool.log("t").start == 30


# ---------------------------------------------------------------------------- room


def test_a_full_spool_refuses_and_takes_more_when_something_was_shipped(tmp_path: Path) -> None:
    with spool_in(tmp_path, segment_bytes=500, bytes_max=2000) as spool:
        with pytest.raises(FullError, match="lakelog spool ship"):
            fill_up(spool)
        end = spool.log("t").end
        assert len(values(spool)) == end
        assert spool.counters.refused == 1
        shipped_to(spool, end)
        assert spool.append("t", bytes(100)) == end
        assert spool.log("t").start > 0
        assert spool.counters.dropped_records == 0
    used = sum(path.stat().st_size for path in (tmp_path / FOLDER).glob("0*"))
    assert used <= 2000


def test_a_full_spool_may_drop_the_oldest_and_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with spool_in(tmp_path, segment_bytes=500, bytes_max=2000, when_full=WhenFull.DROP) as spool:
        with caplog.at_level(logging.WARNING, "lakelog.spool"):
            for number in range(100):
                assert spool.append("t", b"%0100d" % number) == number
        start = spool.log("t").start
        assert [int(one) for one in values(spool)] == list(range(start, 100))
        assert spool.counters.dropped_records == start > 80
        assert "dropped before they were shipped" in caplog.text


def test_a_full_spool_may_wait_until_something_was_shipped(tmp_path: Path) -> None:
    with spool_in(tmp_path, segment_bytes=500, bytes_max=2000, when_full=WhenFull.BLOCK) as spool:
        shipper = threading.Thread(target=lambda: shipped_to(spool, 1000))
        for number in range(40):
            if spool._room < 200 and shipper.ident is None:
                shipper.start()
            spool.append("t", b"%0100d" % number)
        shipper.join()
        assert spool.log("t").end == 40
    clock = Clock()
    settings: dict[str, Any] = {"segment_bytes": 500, "bytes_max": 2000, "block_ms_max": 0}
    with (
        spool_in(tmp_path / "other", clock, when_full=WhenFull.BLOCK, **settings) as spool,
        pytest.raises(FullError),
    ):
        fill_up(spool)


# ---------------------------------------------------------------------------- compaction


def test_compaction_keeps_the_newest_of_each_key_where_it_is(tmp_path: Path) -> None:
    clock = Clock()
    given = [(b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"a", b"4"), (b"c", None), (b"b", b"6")]
    with spool_in(tmp_path, clock, keep_unshipped=False) as spool:
        for key, value in given:
            spool.append("t", value, key=key)
            clock.pass_ms(1)
        spool.seal("t")
        spool.append("t", b"7", key=b"a")
        times = {one.offset: one.timestamp_us for one in spool.reader.records("t")}
        done = spool.compact("t")
        assert (done.records_before, done.records_after) == (6, 4)
        left = [(one.offset, one.key, one.value) for one in spool.reader.records("t")]
        assert left == [
            (2, None, b"3"),
            (3, b"a", b"4"),
            (4, b"c", None),
            (5, b"b", b"6"),
            (6, b"a", b"7"),
        ]
        assert all(times[one.offset] == one.timestamp_us for one in spool.reader.records("t"))
        assert spool.compact("t", tombstones_ms=0).records_after == 3
        found = spool.reader.records("t", offset=3)
        assert [one.offset for one in found] == [3, 5, 6]
    with spool_in(tmp_path) as spool:
        assert [one.offset for one in spool.reader.records("t")] == [2, 3, 5, 6]
        assert spool.counters.index_rebuilds == 0


def test_compaction_leaves_what_was_not_shipped(tmp_path: Path) -> None:
    with spool_in(tmp_path) as spool:
        for value in (b"1", b"2"):
            spool.append("t", value, key=b"k")
            spool.seal("t")
        assert spool.compact("t").segments == 0
        shipped_to(spool, 2)
        assert spool.compact("t").records_after == 1
        assert values(spool) == [b"2"]


# ---------------------------------------------------------------------------- copies


def test_a_backup_is_a_spool_of_its_own_and_is_restored_up_to_an_offset(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path / "a", clock) as spool:
        fill(spool, clock)
        shipped_to(spool, 15, ShippedRange(15, 20, "s3://b"))
        source = Disk(str(tmp_path / "a"), LINUX)
        assert copy_spool(source, Disk(str(tmp_path / "b"), LINUX)) == 1
        spool.append("t", b"later")
        spool_id = spool.id
    with spool_in(tmp_path / "b", segment_bytes=200) as copied:
        assert values(copied) == [b"%d" % number for number in range(40)]
    backup = Disk(str(tmp_path / "b"), LINUX)
    copy_spool(backup, Disk(str(tmp_path / "c"), LINUX), {("t", 0): 17})
    with spool_in(tmp_path / "c") as restored:
        assert values(restored) == [b"%d" % number for number in range(17)]
        assert restored.append("t", b"on") == 17
        assert spool_id != b"" != restored.id
    assert not any(one.damage for one in verify(backup))
    with pytest.raises(InvalidInputError, match="not empty"):
        copy_spool(source, backup)


def test_verify_shows_every_damage(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock) as spool:
        fill(spool, clock)
    folder = tmp_path / FOLDER
    (folder / "00000000000000000000.index").write_bytes(b"x" * 16)
    log = folder / "00000000000000000010.log"
    data = bytearray(log.read_bytes())
    data[50] ^= 1
    log.write_bytes(data)
    active = folder / "00000000000000000030.log"
    active.write_bytes(active.read_bytes() + b"torn")
    rows = list(verify(Disk(str(tmp_path), LINUX)))
    assert [one.records for one in rows] == [10, 1, 10, 10]
    assert [one.damage.split(":")[0] for one in rows] == [
        ".index is not that of the log", ".log at byte 33", "", ".log at byte 330",
    ]  # fmt: skip

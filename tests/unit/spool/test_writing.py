"""A spool as its callers see it: what an append is told, when it is durable, who may write."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import ConflictError, FullError, InvalidInputError, UnavailableError
from lakelog.model import Header
from lakelog.spool import EVERY_WRITE, NEVER, SpoolSettings, Sync, parse_sync
from lakelog.spool import open as open_spool
from lakelog.spool.encoding import Encoder, NextRecord
from lakelog.testing.disk import Gone
from tests.unit.spool.spools import NOON_US, Clock, simulated_disk, spool_in, spool_on, values


def test_records_have_offsets_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    with spool_in(tmp_path) as spool:
        assert spool.append("t", b"a") == 0
        assert spool.append_many("t", [b"b", None, b"c"], keys=[b"k", b"k", None]) == 1
        assert spool.append("t", b"d", headers=[Header("h", b"1"), Header("n", None)]) == 4
        assert spool.append("t", b"x", partition=7) == 0
        assert spool.partitions() == [("t", 0), ("t", 7)]
        found = list(spool.reader.records("t"))
        assert [(one.offset, one.key, one.value) for one in found] == [
            (0, None, b"a"),
            (1, b"k", b"b"),
            (2, b"k", None),
            (3, None, b"c"),
            (4, None, b"d"),
        ]
        assert found[4].headers == (Header("h", b"1"), Header("n", None))
        assert {one.timestamp_us for one in found} == {NOON_US}


def test_no_records_are_no_append(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, segment_ms=1000) as spool:
        assert spool.append_many("t", []) == 0
        clock.pass_ms(2000)
        spool.tick()
        assert spool.counters.rolled == 0
        assert spool.append("t", b"v") == 0


def test_arrow_columns_are_appended_with_their_times_lifted(tmp_path: Path) -> None:
    times = pa.array([NOON_US + 5, NOON_US + 3, NOON_US + 9], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"value": [b"a", b"b", None], "key": [b"1", None, b"3"]})
    with spool_in(tmp_path) as spool:
        assert spool.append_columns("t", rows.append_column("timestamp", times)) == 0
        assert spool.append_columns("t", rows) == 3
        found = list(spool.reader.records("t"))
    assert [one.value for one in found] == [b"a", b"b", None] * 2
    assert [one.timestamp_us - NOON_US for one in found] == [5, 5, 9, 9, 9, 9]


@pytest.mark.parametrize("keys", [None, [b"k", None, b""]])
def test_every_way_of_encoding_gives_the_same_bytes(keys: list[bytes | None] | None) -> None:
    given: list[bytes | None] = [b"value", None, b"\xff" * 300]
    next_record = NextRecord(250, 99, 12345, NOON_US)
    as_objects, joined = Encoder(as_objects=True), Encoder(as_objects=False)
    columns = pa.record_batch(
        {"value": pa.array(given, pa.binary()), "key": pa.array(keys or [None] * 3, pa.binary())}
    )
    made = [
        as_objects.encode(next_record, given, keys),
        joined.encode(next_record, given, keys),
        joined.encode(next_record, given, keys, [(), (), ()]),
        Encoder().encode_columns(next_record, columns, NOON_US),
    ]
    assert (
        len({(bytes(one.data), bytes(one.entries), one.records, one.time_us) for one in made}) == 1
    )
    assert made[0].entries[:8] == (251).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([b"a", "b"], "a str is no bytes"),
        ([b"a", bytearray(b"b")], "a bytearray is no bytes"),
        ([bytes(11 << 20)], "a record has at most"),
        ([bytes(9 << 20)] * 8, "in one append"),
    ],
)
def test_what_is_no_record_is_refused_and_nothing_is_written(
    tmp_path: Path, given: list[bytes], what: str
) -> None:
    with spool_in(tmp_path) as spool:
        with pytest.raises(InvalidInputError, match=what):
            spool.append_many("t", given)
        assert values(spool) == []
        with pytest.raises(InvalidInputError, match="1 values and 2 keys"):
            spool.append_many("t", [b"v"], keys=[b"1", b"2"])


def test_a_subclass_of_bytes_is_as_good_as_bytes(tmp_path: Path) -> None:
    class Special(bytes):
        pass

    with spool_in(tmp_path) as spool:
        spool.append_many("t", [b"a", Special(b"b")])
        assert values(spool) == [b"a", b"b"]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    first = spool_in(tmp_path)
    with pytest.raises(ConflictError, match="one writer"):
        spool_in(tmp_path)
    first.close()
    first.close()
    with pytest.raises(InvalidInputError, match="closed"):
        first.append("t", b"v")
    spool_in(tmp_path).close()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b"])
def test_a_topic_that_is_no_name_of_a_folder_is_refused(tmp_path: Path, topic: str) -> None:
    with spool_in(tmp_path) as spool, pytest.raises(InvalidInputError, match="directory"):
        spool.append(topic, b"v")


# ---------------------------------------------------------------------------- segments


def test_segments_are_sealed_by_bytes_by_age_and_on_request(tmp_path: Path) -> None:
    clock = Clock()
    with spool_in(tmp_path, clock, segment_bytes=400, segment_ms=1000) as spool:
        for number in range(10):
            spool.append("t", b"%0100d" % number)
        sizes = [segment.size for segment in spool.log("t").sealed]
        assert len(sizes) == 3
        assert all(size <= 400 for size in sizes)
        clock.pass_ms(1000)
        spool.tick()
        spool.append("t", b"x")
        assert len(spool.log("t").sealed) == 4
        clock.pass_ms(999)
        spool.append("t", b"y")
        spool.seal("t")
        spool.seal("t")
        assert len(spool.log("t").sealed) == 5
        assert [int(one) for one in values(spool)[:10]] == list(range(10))
    names = {path.name for path in (tmp_path / "topics/t/partitions/0").iterdir()}
    assert {name for name in names if name.endswith(".index")} == {
        name.replace(".log", ".index") for name in sorted(names) if name.endswith(".log")
    } - {"00000000000000000012.index"}


def test_a_batch_larger_than_a_segment_has_one_for_itself(tmp_path: Path) -> None:
    with spool_in(tmp_path, segment_bytes=100) as spool:
        spool.append("t", b"a")
        spool.append("t", bytes(1000))
        spool.append("t", b"b")
        assert [one.base_offset for one in spool.log("t").sealed] == [0, 1]
        assert len(values(spool)) == 3


# ---------------------------------------------------------------------------- syncing


def test_what_is_durable_depends_on_the_policy() -> None:
    clock = Clock()
    for sync, expected in ((EVERY_WRITE, 3), (Sync(records=2), 2), (Sync(ms=10), 0), (NEVER, 0)):
        with spool_on(simulated_disk(), clock, sync=sync) as spool:
            for _ in range(3):
                spool.append("t", b"v")
            assert spool.log("t").durable_end == expected
            spool.flush()
            assert spool.log("t").durable_end == 3


def test_after_some_milliseconds_a_tick_or_an_append_makes_it_durable() -> None:
    clock = Clock()
    with spool_on(simulated_disk(), clock, sync=Sync(ms=10)) as spool:
        spool.append("t", b"v")
        clock.pass_ms(9)
        spool.tick()
        assert spool.log("t").durable_end == 0
        clock.pass_ms(1)
        spool.tick()
        assert spool.log("t").durable_end == 1
        spool.append("t", b"v")
        clock.pass_ms(10)
        spool.append("t", b"v")
        assert spool.log("t").durable_end == 3


def test_many_threads_share_their_syncs(tmp_path: Path) -> None:
    """Group commit: whoever calls fsync, all appends are durable, each where it was told."""
    with spool_in(tmp_path) as spool:

        def work(thread: int) -> None:
            for number in range(20):
                offset = spool.append("t", b"%d %d" % (thread, number))
                assert spool.log("t").durable_end > offset

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [tuple(map(int, one.split())) for one in values(spool)]
        assert sorted(found) == [(t, n) for t in range(8) for n in range(20)]
        for number in range(8):
            assert [n for t, n in found if t == number] == list(range(20))


def test_a_failed_fsync_ends_the_writer_and_another_goes_on() -> None:
    disk = simulated_disk()
    system = disk.process()
    spool = spool_in(Path("/spool"), system=system)
    spool.append("t", b"a")
    disk.failing = 1.0
    with pytest.raises(UnavailableError, match="takes no more: check the disk"):
        spool.append("t", b"b")
    disk.failing = 0.0
    for act in (lambda: spool.append("t", b"c"), spool.flush, spool.tick):
        with pytest.raises(UnavailableError, match="open the spool again"):
            act()
    spool.close()
    with spool_in(Path("/spool"), system=system) as again:
        assert values(again) == [b"a", b"b"]
        assert again.append("t", b"c") == 2
    disk.cut_power()
    with spool_on(disk) as after:
        assert values(after) == [b"a", b"b", b"c"]


def test_a_full_disk_refuses_and_nothing_is_half_written() -> None:
    disk = simulated_disk()
    spool = spool_on(disk)
    spool.append("t", b"a")

    def refuse(call: str) -> None:
        if call == "writev":
            raise OSError(28, "No space left on device")

    disk.before = refuse
    with pytest.raises(FullError, match="nothing was written"):
        spool.append("t", b"b")
    disk.before = lambda _: None
    assert spool.append("t", b"c") == 1
    assert values(spool) == [b"a", b"c"]
    spool.close()


def test_ten_thousand_partitions_need_few_open_files() -> None:
    """Here a hundred, with room for three."""
    disk = simulated_disk()
    system = disk.process()
    with spool_in(Path("/spool"), system=system, open_files_max=3) as spool:
        for turn in range(2):
            for partition in range(100):
                assert spool.append("t", b"%d" % turn, partition=partition) == turn
                assert len(system.opened) <= 3 + 2
        assert values(spool, partition=57) == [b"0", b"1"]


def test_a_kill_between_any_two_calls_loses_nothing_that_was_returned() -> None:
    for calls in range(1, 60):
        disk = simulated_disk(calls)
        spool, told = spool_on(disk, segment_bytes=150), 0
        left = [calls]

        def between(_: str, left: list[int] = left, spool=spool) -> None:  # type: ignore[no-untyped-def]
            left[0] -= 1
            if not left[0]:
                spool.disk.system.kill()

        disk.before = between
        try:
            for number in range(5):
                spool.append("t", b"%d" % number)
                told += 1
        except Gone:
            pass
        disk.before = lambda _: None
        disk.cut_power()
        with spool_on(disk) as after:
            found = [int(one) for one in values(after)]
            assert found == list(range(len(found)))
            assert len(found) >= told


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("text", "sync"),
    [
        ("every-write", Sync(records=1)),
        ("never", Sync()),
        ("records=10", Sync(records=10)),
        ("ms=5", Sync(ms=5)),
        ("records=10,ms=5", Sync(records=10, ms=5)),
    ],
)
def test_policies_by_name(text: str, sync: Sync) -> None:
    assert parse_sync(text) == sync
    assert str(sync) == text


@pytest.mark.parametrize("text", ["", ",", "sometimes", "records=", "ms=0", "ms=5,records=1"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_sync(text)


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="segments of 0 bytes"):
        SpoolSettings(segment_bytes=0)
    with pytest.raises(InvalidInputError, match="no such setting"):
        open_spool(str(tmp_path), bytes=5)
    with pytest.raises(InvalidInputError, match="refuse, block or drop"):
        open_spool(str(tmp_path), when_full="explode")

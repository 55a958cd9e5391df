"""Each point on which descriptions of Kafka's files contradict themselves, as a named case."""

import struct

import pytest

from lakelog.errors import UnsupportedError
from lakelog.formats.contract import Block, Damage, Files, walk_blocks
from lakelog.formats.contract import run as drive
from lakelog.formats.kafkalog import (
    FORMAT,
    EpochStart,
    decode_leader_epochs,
    decode_offset_index,
    decode_time_index,
)
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from tests.golden.kafkalog.make import DUMPED, run
from tests.kafka_files import encode_leader_epochs, encode_snapshot, plan_directory
from tests.plain_encoders import encode_kafka_log
from tests.segments import buffers, decode

LOG = run(DUMPED)


def walked(data: bytes, *, active: bool = False) -> list[Block | Damage]:
    files = Files(base_offset=0, sizes={".log": len(data)}, active=active)
    return list(walk_blocks(FORMAT.walk(files), buffers({".log": data})))


def entries(files: dict[str, bytes]) -> list[tuple[int, int]]:
    index = decode_offset_index(files[".index"], base_offset=0)
    return [(entry.offset, entry.position) for entry in index]


def times(files: dict[str, bytes]) -> list[tuple[int, int]]:
    index = decode_time_index(files[".timeindex"], base_offset=0)
    return [(entry.timestamp, entry.offset) for entry in index]


@pytest.mark.parametrize("magic", [0, 1])
def test_f1_message_sets_of_old_are_refused_with_a_clear_error(magic: int) -> None:
    # offset, size, then crc, magic, attributes, key -1, value -1: as Kafka wrote until 0.10.
    body = struct.pack(">Ibbii", 0, magic, 0, -1, -1)
    old = struct.pack(">qi", 0, len(body)) + body
    with pytest.raises(UnsupportedError, match=f"message format v{magic} .Kafka before 0.11"):
        decode(FORMAT, {".log": old * 5}, base_offset=0)


def test_f2_a_file_is_named_by_its_first_offset_not_by_bytes() -> None:
    plan = plan_directory([("00000000000000000000.log", 865), ("00000000000000000035.log", 9)])
    assert [files.base_offset for files in plan.segments] == [0, 35]


@pytest.mark.parametrize("interval", [173, 200, 345])
def test_f3_an_index_entry_holds_the_last_offset_of_its_batch(interval: int) -> None:
    files = encode_kafka_log(LOG, interval_bytes=interval)
    # The batch at 346 holds the offsets 14 to 20.
    assert entries(files) == [(20, 346), (34, 692)]
    sizes = {suffix: len(data) for suffix, data in files.items()}
    found = drive(FORMAT.open(Files(base_offset=0, sizes=sizes)), buffers(files))
    for offset in range(35):
        assert drive(found.read_from(offset, 1), buffers(files))[0].offset == offset


def test_f4_an_entry_is_made_after_more_than_the_interval() -> None:
    assert entries(encode_kafka_log(LOG, interval_bytes=172)) == [
        (13, 173), (20, 346), (27, 519), (34, 692),
    ]  # fmt: skip
    assert entries(encode_kafka_log(LOG, interval_bytes=173)) == [(20, 346), (34, 692)]
    assert entries(encode_kafka_log(LOG, interval_bytes=346)) == [(27, 519)]
    assert entries(encode_kafka_log(LOG)) == []


def test_f4_closing_adds_the_latest_time_even_without_an_index_entry() -> None:
    assert times(encode_kafka_log(LOG)) == [(1586329575827, 34)]
    assert times(encode_kafka_log(LOG, interval_bytes=200)) == [
        (1586329557553, 20),
        (1586329575827, 34),
    ]


def one(offset: int, time: int) -> bytes:
    return encode_batch(
        NewBatch(records=[Record(offset=offset, timestamp=time, key=None, value=b"")])
    )


def test_f5_a_time_entry_speaks_only_of_later_records() -> None:
    # 50 comes first, and 20 and 40 behind the entry for it.
    data = b"".join(one(offset, time) for offset, time in enumerate([50, 20, 40, 60, 10]))
    files = encode_kafka_log(data, interval_bytes=0)
    assert times(files) == [(50, 0), (60, 3)]
    sizes = {suffix: len(part) for suffix, part in files.items()}
    found = drive(FORMAT.open(Files(base_offset=0, sizes=sizes)), buffers(files))
    looked_up = {
        time: drive(found.offset_at(time), buffers(files)) for time in (10, 45, 50, 51, 61)
    }
    assert looked_up == {10: 0, 45: 0, 50: 0, 51: 3, 61: None}


def test_f5_times_before_1970_are_not_indexed() -> None:
    data = b"".join(one(offset, time) for offset, time in enumerate([-7, -1, -3]))
    assert times(encode_kafka_log(data, interval_bytes=0)) == []
    assert times(encode_kafka_log(data + one(3, 0), interval_bytes=0)) == [(0, 3)]


def test_f6_snapshots_belong_to_every_segment_and_are_named_by_where_they_end() -> None:
    files = [(f"{base:020}{suffix}", 10) for base in (0, 35) for suffix in (".log", ".index")]
    snapshots = [(f"{end:020}.snapshot", len(encode_snapshot(()))) for end in (35, 40)]
    plan = plan_directory(files + snapshots)
    assert [".snapshot" in segment.sizes for segment in plan.segments] == [False, True]
    assert plan.snapshots == (35, 40)


def test_f7_the_leader_epoch_checkpoint_is_version_count_and_lines() -> None:
    epochs = (EpochStart(0, 0), EpochStart(3, 1042))
    assert encode_leader_epochs(epochs) == b"0\n2\n0 0\n3 1042\n"
    assert decode_leader_epochs(b"0\n2\n0 0\n3 1042\n") == epochs


def test_f8_the_time_of_a_batch_is_its_greatest_not_its_last() -> None:
    batch = NewBatch(
        records=[
            Record(offset=0, timestamp=9, key=None, value=b""),
            Record(offset=1, timestamp=5, key=None, value=b""),
        ]
    )
    assert times(encode_kafka_log(encode_batch(batch))) == [(9, 1)]


def test_f9_and_f10_speak_of_consumers_and_settings_not_of_files() -> None:
    # The offset a reader gives is the next to read.
    files = encode_kafka_log(LOG)
    sizes = {suffix: len(data) for suffix, data in files.items()}
    found = drive(FORMAT.open(Files(base_offset=0, sizes=sizes)), buffers(files))
    assert drive(found.read_from(7, 1), buffers(files))[0].offset == 7


def test_f11_space_set_aside_is_not_read() -> None:
    closed = encode_kafka_log(LOG, interval_bytes=200)
    files = {
        ".log": LOG + bytes(4096),
        ".index": closed[".index"] + bytes(10 * 8),
        ".timeindex": closed[".timeindex"] + bytes(10 * 12),
    }
    assert entries(files) == entries(closed)
    assert times(files) == times(closed)
    assert decode(FORMAT, files, base_offset=0) == decode(FORMAT, closed, base_offset=0)
    assert decode(FORMAT, {suffix: bytes(960) for suffix in files}, base_offset=0) == ()


def test_f11_an_entry_that_ends_in_zeros_is_not_taken_for_unused_space() -> None:
    assert entries({".index": struct.pack(">iiii", 1, 256, 2, 1 << 24) + bytes(16)}) == [
        (1, 256),
        (2, 1 << 24),
    ]
    # An entry for the very first record of 1970 is all zeros, and still followed by others.
    assert times({".timeindex": struct.pack(">qiqi", 0, 0, 5, 3) + bytes(24)}) == [(0, 0), (5, 3)]


@pytest.mark.parametrize("cut", [8, 20, 61, 172])
def test_f12_the_last_segment_ends_at_its_last_whole_batch(cut: int) -> None:
    found = walked(LOG[: 3 * 173 + cut], active=True)
    assert [item.position for item in found if isinstance(item, Block)] == [0, 173, 346]
    assert len(found) == 3
    assert isinstance(walked(LOG[: 3 * 173 + cut])[-1], Damage)

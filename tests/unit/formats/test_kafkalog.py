"""Kafka log segments: what is refused, what is not, lookups, names; the golden directory."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.batches import BatchSegment, frames
from lakelog.formats.contract import Block, Damage, Files, Range, walk_blocks
from lakelog.formats.contract import (
    run as drive,
)
from lakelog.formats.kafkalog import (
    FORMAT,
    INDEX_BYTES_MAX,
    ProducerState,
    decode_leader_epochs,
    decode_metadata,
    decode_offset_index,
    decode_snapshot,
    decode_time_index,
    decode_txn_index,
    segment,
)
from lakelog.formats.kafkalog.transactions import AbortedTxn
from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.golden.kafkalog.make import (
    DIRECTORY,
    DUMPED,
    EPOCHS,
    HERE,
    RECORDS,
    TOPIC_ID,
    directory,
    run,
)
from tests.kafka_files import encode_snapshot, encode_txn_index, plan_directory
from tests.plain_encoders import encode, encode_kafka_log
from tests.segments import buffers, decode

PAGE = Path(__file__).parents[3] / "docs/reference/formats/kafka-log-directory.md"
BASE = 1000
# Times go up and down: their order is not that of the offsets.
TIMES = [50, 20, 30, 90, 10, 95, 60, 120, 5, 40]


def record(offset: int, time: int) -> Record:
    return Record(offset=offset, timestamp=time, key=b"key", value=b"value %d" % offset)


BATCHES = [
    encode_batch(NewBatch(records=[record(BASE + 3 * i + j, time + j) for j in range(3)]))
    for i, time in enumerate(TIMES)
]
ALL = [record(BASE + 3 * i + j, time + j) for i, time in enumerate(TIMES) for j in range(3)]
SIZE = len(BATCHES[0])
GOOD = encode_kafka_log(b"".join(BATCHES), interval_bytes=SIZE)
LOG = GOOD[".log"]


def files_of(files: dict[str, bytes], base: int = BASE, *, active: bool = False) -> Files:
    sizes = {suffix: len(data) for suffix, data in files.items()}
    return Files(base_offset=base, sizes=sizes, active=active)


def walked(files: dict[str, bytes], base: int = BASE, **more: Any) -> list[Block | Damage]:
    return list(walk_blocks(FORMAT.walk(files_of(files, base, **more)), buffers(files)))


def damages(files: dict[str, bytes], base: int = BASE, **more: Any) -> list[Damage]:
    return [found for found in walked(files, base, **more) if isinstance(found, Damage)]


def offsets(files: dict[str, bytes], base: int = BASE, **more: Any) -> list[int]:
    found = walked(files, base, **more)
    return [r.offset for item in found if isinstance(item, Block) for r in item.records]


def opened(files: dict[str, bytes], base: int = BASE, **more: Any) -> BatchSegment:
    found = drive(FORMAT.open(files_of(files, base, **more)), buffers(files))
    assert isinstance(found, BatchSegment)
    return found


def put(data: bytes, at: int, layout: str, *values: Any) -> bytes:
    made = bytearray(data)
    struct.pack_into(layout, made, at % len(made), *values)
    return bytes(made)


# ---------------------------------------------------------------------------- the whole


@pytest.mark.parametrize("codec", Codec)
def test_decode_inverts_encode(codec: Codec) -> None:
    found = [
        Record(offset=5, timestamp=-1, key=None, value=None),
        Record(offset=6, timestamp=-(1 << 63), key=b"", value=b""),
        Record(offset=9, timestamp=(1 << 63) - 1, key=b"k", value=b"v" * 100),
        Record(offset=1 << 40, timestamp=0, key=b"k", value=None, headers=(Header("h", None),)),
    ]
    assert decode(FORMAT, encode(FORMAT, found, codec), base_offset=5) == tuple(found)


def test_an_empty_segment_is_empty_files() -> None:
    files = encode(FORMAT, [], Codec.NONE)
    assert files == {".log": b"", ".index": b"", ".timeindex": b""}
    assert decode(FORMAT, files, base_offset=77) == ()
    assert drive(opened(files).read_from(0, 10), buffers(files)) == ()
    assert drive(opened(files).offset_at(0), buffers(files)) is None


def test_a_segment_needs_no_side_files() -> None:
    assert damages({".log": LOG}) == []
    assert damages(GOOD) == []


def test_only_a_cut_between_batches_is_a_shorter_good_file() -> None:
    for end in range(len(LOG)):
        # Zeros are unused space, and a base offset begins with some.
        left = LOG[end - end % SIZE : end]
        assert bool(damages({".log": LOG[:end]})) == any(left)


def test_every_flipped_bit_is_noticed_but_those_of_base_offset_and_leader_epoch() -> None:
    for at in range(SIZE, 2 * SIZE):
        for bit in range(8):
            made = bytearray(LOG)
            made[at] ^= 1 << bit
            if not damages({".log": bytes(made)}):
                assert at - SIZE in range(8) or at - SIZE in range(12, 16)


def test_damage_is_skipped_and_the_rest_comes() -> None:
    made = bytearray(LOG)
    made[SIZE + 70] ^= 1
    (damage,) = damages(GOOD | {".log": bytes(made)})
    assert (damage.error.where, damage.error.at, damage.size) == (".log", SIZE, SIZE)
    assert offsets(GOOD | {".log": bytes(made)}) == [*range(1000, 1003), *range(1006, 1030)]


def test_offsets_below_the_name_are_damage() -> None:
    assert "base offset 1000" in damages({".log": LOG}, 1001)[0].error.what


def test_batches_may_begin_above_the_name() -> None:
    made = encode_kafka_log(LOG, base_offset=3)
    assert damages(made, 3) == []
    assert drive(opened(made, 3).read_from(1020, 1), buffers(made))[0].offset == 1020


def test_what_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="below base offset 1001"):
        encode_kafka_log(LOG, base_offset=1001)
    with pytest.raises(InvalidInputError, match="every -1 bytes"):
        encode_kafka_log(LOG, interval_bytes=-1)
    with pytest.raises(CorruptError):
        encode_kafka_log(LOG[:-1])
    monkeypatch.setattr(segment, "LOG_BYTES_MAX", len(LOG) - 1)
    with pytest.raises(InvalidInputError, match="do not fit"):
        encode_kafka_log(LOG)


# ---------------------------------------------------------------------------- side files


SIDE_CASES: list[tuple[str, bytes, type[Exception], str]] = [
    (".index", GOOD[".index"][:-1], CorruptError, "not a multiple of 8"),
    (".index", put(GOOD[".index"], 8, ">i", 0), CorruptError, "behind"),
    (".index", put(GOOD[".index"], 0, ">i", -1), CorruptError, "behind"),
    (".index", put(GOOD[".index"], 4, ">i", 0), CorruptError, "behind"),
    (".index", put(GOOD[".index"], 4, ">i", -1), CorruptError, "behind"),
    (".timeindex", GOOD[".timeindex"][:-1], CorruptError, "not a multiple of 12"),
    (".timeindex", put(GOOD[".timeindex"], 12, ">q", 1), CorruptError, "behind"),
    (".timeindex", put(GOOD[".timeindex"], 0, ">q", -1), CorruptError, "behind"),
    (".timeindex", put(GOOD[".timeindex"], 8, ">i", -1), CorruptError, "behind"),
    (".txnindex", bytes(33), CorruptError, "not a multiple of 34"),
    (".txnindex", b"\0\1" + bytes(32), UnsupportedError, "version 1"),
    (".snapshot", b"\0\1", CorruptError, "a header has 10"),
    (".snapshot", put(encode_snapshot(()), 0, ">h", 2), UnsupportedError, "version 2"),
    (".snapshot", put(encode_snapshot(()), 2, ">I", 2), CorruptError, "CRC-32C"),
]


@pytest.mark.parametrize(
    ("suffix", "data", "kind", "what"), SIDE_CASES, ids=[f"{c[0]}: {c[3]}" for c in SIDE_CASES]
)
def test_a_bad_side_file_is_reported_but_the_records_come(
    suffix: str, data: bytes, kind: type[Exception], what: str
) -> None:
    files = GOOD | {suffix: data}
    (damage,) = damages(files)
    assert isinstance(damage.error, kind)
    assert what in damage.error.what
    assert damage.error.where == suffix
    assert offsets(files) == list(range(1000, 1030))
    if suffix in (".index", ".timeindex"):
        with pytest.raises(kind, match=what):
            opened(files)


LIES = [
    (".index", put(GOOD[".index"], 4, ">i", 2 * SIZE + 1), "no batch begins there"),
    (".index", put(GOOD[".index"], 0, ">i", 5), "that batch begins at offset 1006"),
    (".index", put(GOOD[".index"], 0, ">i", 12), "still holds older offsets"),
    (".index", put(GOOD[".index"], -4, ">i", len(LOG)), "the batches end before it"),
    (".index", put(GOOD[".index"], -8, ">i", 30), "the batches end at offset 1030"),
    (".timeindex", put(GOOD[".timeindex"], 0, ">q", 51), "a batch before it reaches time 52"),
    (".timeindex", put(GOOD[".timeindex"], 20, ">i", 17), "a batch before it reaches time"),
    (".timeindex", put(GOOD[".timeindex"], -4, ">i", 30), "the batches end at offset 1030"),
]


@pytest.mark.parametrize(("suffix", "data", "what"), LIES, ids=[f"{c[0]}: {c[2]}" for c in LIES])
def test_an_entry_that_contradicts_the_batches_is_damage(
    suffix: str, data: bytes, what: str
) -> None:
    (damage,) = damages(GOOD | {suffix: data})
    assert what in damage.error.what
    assert damage.error.where == suffix
    assert offsets(GOOD | {suffix: data}) == list(range(1000, 1030))


def test_other_intervals_and_older_brokers_are_no_damage() -> None:
    every = encode_kafka_log(LOG, interval_bytes=0)
    none = encode_kafka_log(LOG, interval_bytes=1 << 20)
    assert damages(GOOD | every) == damages(GOOD | none) == []
    # Before 4.0 an append of several batches made one entry: the last offset of them all.
    older = struct.pack(">iiii", 11, 2 * SIZE, 29, 8 * SIZE)
    assert damages(GOOD | {".index": older}) == []


def test_an_index_that_knows_more_is_damage_only_when_nobody_writes() -> None:
    ahead = GOOD | {".log": LOG[: 5 * SIZE]}
    assert {damage.error.where for damage in damages(ahead)} == {".index", ".timeindex"}
    assert damages(ahead, active=True) == []


@pytest.mark.parametrize(
    ("suffix", "entry"),
    [
        pytest.param(".index", struct.pack(">ii", 7, 6 * SIZE), id="an offset that was seen"),
        pytest.param(".timeindex", struct.pack(">qi", 80, 29), id="a time that was passed"),
    ],
)
def test_an_index_that_contradicts_the_active_segment_is_damage(suffix: str, entry: bytes) -> None:
    """A search would begin behind records that are there, and miss them."""
    files = {".log": LOG[: 5 * SIZE], suffix: entry}
    (damage,) = damages(files, active=True)
    assert (damage.error.where, damage.error.at) == (suffix, 0)


def test_a_header_of_which_only_the_first_bytes_are_there_is_on_its_way() -> None:
    """In a file of full size, zeros follow where the magic would be."""
    whole = LOG[: 4 * SIZE]
    for cut in range(1, SIZE - 1):  # The last byte is a zero, too.
        files = {".log": whole + BATCHES[4][:cut] + bytes(100)}
        assert damages(files, active=True) == []
        assert offsets(files, active=True) == list(range(1000, 1012))
        found = opened(files, active=True)
        assert len(drive(found.read_from(BASE, 99), buffers(files))) == 12
        assert damages(files) != [] or not any(BATCHES[4][:cut])
    (damage,) = damages({".log": whole + put(BATCHES[4], 16, "B", 1)}, active=True)
    assert isinstance(damage.error, UnsupportedError)


def test_a_side_file_over_the_limit_is_unsupported() -> None:
    sizes = {".log": len(LOG), ".index": INDEX_BYTES_MAX + 1}
    with pytest.raises(UnsupportedError, match="over the limit"):
        drive(FORMAT.open(Files(base_offset=BASE, sizes=sizes)), buffers(GOOD))


def test_producers_and_transactions_beside_a_segment_are_checked_against_its_name() -> None:
    late = encode_snapshot([ProducerState(producer_id=1, epoch=0, last_offset=BASE)])
    early = encode_txn_index(
        [AbortedTxn(producer_id=1, first_offset=1, last_offset=999, last_stable_offset=1000)]
    )
    found = damages(GOOD | {".snapshot": late, ".txnindex": early})
    assert {damage.error.where for damage in found} == {".snapshot", ".txnindex"}


# ---------------------------------------------------------------------------- lookups


VARIANTS = {
    "both indexes": GOOD,
    "no index": {".log": LOG},
    "no time index": {".log": LOG, ".index": GOOD[".index"]},
    "time index only": {".log": LOG, ".timeindex": GOOD[".timeindex"]},
    "dense": encode_kafka_log(LOG, interval_bytes=0),
    "set aside": {
        ".log": LOG + bytes(500),
        ".index": GOOD[".index"] + bytes(80),
        ".timeindex": GOOD[".timeindex"] + bytes(120),
    },
}


@pytest.mark.parametrize("files", VARIANTS.values(), ids=VARIANTS)
def test_read_from_is_a_plain_filter(files: dict[str, bytes]) -> None:
    found = opened(files)
    for offset in range(995, 1035):
        for limit in (0, 1, 7, 100):
            got = drive(found.read_from(offset, limit), buffers(files))
            assert list(got) == [r for r in ALL if r.offset >= offset][:limit]


@pytest.mark.parametrize("files", VARIANTS.values(), ids=VARIANTS)
def test_offset_at_is_a_plain_filter(files: dict[str, bytes]) -> None:
    found = opened(files)
    for time in range(-2, 130):
        due = next((r.offset for r in ALL if r.timestamp >= time), None)
        assert drive(found.offset_at(time), buffers(files)) == due


def test_reading_through_the_indexes_asks_for_little() -> None:
    many = b"".join(
        encode_batch(NewBatch(records=[record(10 * i + j, 10 * i + j) for j in range(10)]))
        for i in range(20_000)
    )
    files = encode_kafka_log(many)
    give = buffers(files)
    asked: list[Range] = []

    def noted(wish: Range) -> bytes:
        asked.append(wish)
        return give(wish)

    found = drive(FORMAT.open(files_of(files, 0)), noted)
    assert {wish.suffix for wish in asked} == {".index", ".timeindex"}
    asked.clear()
    assert drive(found.read_from(123_456, 1), noted)[0].offset == 123_456
    assert drive(found.offset_at(150_000), noted) == 150_000
    assert len(asked) == 2
    assert all(wish.end - wish.start <= 64 * 1024 for wish in asked)


# ---------------------------------------------------------------------------- names


def test_names() -> None:
    assert FORMAT.file_stem(1007) == "00000000000000001007"
    assert FORMAT.base_offset("00000000000000001007") == 1007
    for other in ("1007", "segment-00000000000000001007", "99999999999999999999", "",
                  "0000000000000000100٠"):  # fmt: skip
        assert FORMAT.base_offset(other) is None


def rustlog(length: int, offset: int, micros: int) -> bytes:
    return struct.pack(">IQQ", length, offset, micros) + bytes(length)


def test_sniff_tells_kafka_from_others_called_log() -> None:
    assert FORMAT.sniff(LOG[:64], 1000)
    assert FORMAT.sniff(LOG[:64], 3)
    assert FORMAT.sniff(b"", 5)
    assert FORMAT.sniff(bytes(64), 5)
    assert not FORMAT.sniff(LOG[:64], 1001)
    assert not FORMAT.sniff(LOG[:16], 1000)
    assert not FORMAT.sniff(put(LOG[:64], 8, ">i", 48), 1000)
    assert not FORMAT.sniff(put(LOG[:64], 16, ">b", 1), 1000)
    for offset in (0, 1, 500, 1 << 33):
        # Byte 16 of a RustLog file belongs to a time, and is 2 once in a while.
        assert not FORMAT.sniff(rustlog(100, offset, 0x0005_F0A1_0203_0405), offset)


# ---------------------------------------------------------------------------- the golden directory


GOLDEN = {path.name: path.read_bytes() for path in sorted((HERE / DIRECTORY).iterdir())}


def test_the_golden_directory_decodes_for_ever() -> None:
    plan = plan_directory((name, len(data)) for name, data in GOLDEN.items())
    found: list[Record] = []
    for files in plan.segments:
        data = {suffix: GOLDEN[f"{files.base_offset:020}{suffix}"] for suffix in files.sizes}
        found += decode(FORMAT, data, base_offset=files.base_offset)
    assert tuple(found) == RECORDS
    assert [files.base_offset for files in plan.segments] == [0, 35]
    assert plan.snapshots == (35, 40)
    assert decode_leader_epochs(GOLDEN["leader-epoch-checkpoint"]) == EPOCHS
    assert decode_metadata(GOLDEN["partition.metadata"]) == TOPIC_ID
    assert decode_txn_index(GOLDEN["00000000000000000035.txnindex"], base_offset=35) == (
        AbortedTxn(producer_id=1001, first_offset=36, last_offset=38, last_stable_offset=37),
    )
    assert decode_snapshot(GOLDEN["00000000000000000035.snapshot"], next_offset=35) == ()
    idempotent, aborted, still_open = decode_snapshot(
        GOLDEN["00000000000000000040.snapshot"], next_offset=40
    )
    assert idempotent == ProducerState(
        producer_id=1000, epoch=0, last_sequence=1, last_offset=39, timestamp=1586329600035
    )
    assert (aborted.coordinator_epoch, aborted.last_sequence, aborted.open_since) == (5, 7, -1)
    assert (still_open.producer_id, still_open.open_since) == (1002, 37)


def test_the_golden_directory_is_what_the_encoders_make() -> None:
    assert directory() == GOLDEN


def test_the_dumped_batches_are_those_that_kafka_printed() -> None:
    printed = list(frames(GOLDEN["00000000000000000000.log"]))
    assert [frame.position for frame in printed] == [0, 173, 346, 519, 692]
    assert {frame.header.size for frame in printed} == {173}
    first, *_, last = (frame.header for frame in printed)
    assert (first.base_offset, first.next_offset, first.crc) == (0, 7, 386807681)
    assert (last.base_offset, last.next_offset, last.crc) == (28, 35, 3347769538)
    assert crc32c(run(DUMPED)[21:173]) == 386807681


def test_the_dumped_indexes_are_those_that_kafka_printed() -> None:
    index = decode_offset_index(GOLDEN["00000000000000000000.index"], base_offset=0)
    assert [(entry.offset, entry.position) for entry in index] == [(20, 346), (34, 692)]
    times = decode_time_index(GOLDEN["00000000000000000000.timeindex"], base_offset=0)
    assert [(entry.timestamp, entry.offset) for entry in times] == [
        (1586329557553, 20),
        (1586329575827, 34),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000035.txnindex",
        "00000000000000000040.snapshot",
    ],
)
def test_the_bytes_on_the_page_are_those_of_the_encoder(name: str) -> None:
    assert shown(name) == directory()[name]


def test_the_batch_on_the_page_is_the_first_of_the_log() -> None:
    assert shown("00000000000000000000.log") == run(DUMPED[:1])


def shown(name: str) -> bytes:
    block = PAGE.read_text().split(f"<!-- bytes of {name} -->")[1].split("```")[1]
    data = b""
    for line in block.splitlines()[1:]:
        found = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", line)
        assert found, line
        assert int(found[1], 16) == len(data)
        data += bytes.fromhex(found[2])
    return data

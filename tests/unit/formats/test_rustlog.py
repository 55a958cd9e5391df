"""RustLog: one case per raise, every contradiction of the first description, the weaker law."""

import json
import re
import struct
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import Block, Damage, Files, Range, run, walk_blocks
from lakelog.formats.rustlog import (
    FORMAT,
    PAYLOAD_BYTES_MAX,
    CleanerCheckpoint,
    LogRecord,
    RustLogSegment,
    decode_checkpoint,
    decode_index,
    encode_checkpoint,
    encode_log,
    open_segment,
    partition_path,
)
from lakelog.model import Header, Record
from lakelog.records import Codec
from tests.golden.rustlog import make as golden
from tests.plain_encoders import encode
from tests.rustlog_files import build_index, decode_log
from tests.segments import buffers, decode

ROOT = Path(__file__).parents[3]
NOON = 1_700_000_000_000


def make(offset: int, timestamp: int = NOON, value: bytes | None = b"v") -> Record:
    return Record(offset=offset, timestamp=timestamp, key=None, value=value)


def entry(length: int, offset: int, payload: bytes = b"", timestamp_us: int = 0) -> bytes:
    """A record with whatever length and offset the test likes."""
    return struct.pack(">IQQ", length, offset, timestamp_us) + payload


MANY = tuple(make(3 * n, NOON + n // 3, b"x" * (n % 60)) for n in range(1000))
MANY_FILES = encode(FORMAT, MANY, Codec.NONE)
STARTS = [0, *accumulate(20 + len(one.value or b"") for one in MANY)]


def files_of(data: dict[str, bytes], base_offset: int = 0, *, active: bool = False) -> Files:
    sizes = {suffix: len(one) for suffix, one in data.items()}
    return Files(base_offset=base_offset, sizes=sizes, active=active)


def read(data: dict[str, bytes], base_offset: int = 0) -> tuple[Record, ...]:
    return decode(FORMAT, data, base_offset=base_offset)


def walked(
    data: dict[str, bytes], base_offset: int = 0, *, active: bool = False
) -> tuple[list[Record], list[Damage]]:
    records: list[Record] = []
    damages: list[Damage] = []
    walk = FORMAT.walk(files_of(data, base_offset, active=active))
    for found in walk_blocks(walk, buffers(data)):
        if isinstance(found, Block):
            records += found.records
        else:
            damages.append(found)
    return records, damages


def opened(data: dict[str, bytes], base_offset: int = 0, *, active: bool = False) -> RustLogSegment:
    return run(open_segment(files_of(data, base_offset, active=active)), buffers(data))


# ---------------------------------------------------------------------------- the weaker law


def test_decode_inverts_encode() -> None:
    for records in ((), (make(7, 0, b""),), (make(0), make(2**63 - 2, (2**64 - 1) // 1000)), MANY):
        base = records[0].offset if records else 5
        assert read(encode(FORMAT, records, Codec.NONE), base) == records


def test_a_log_cut_inside_a_record_is_refused_and_between_two_is_shorter() -> None:
    records = MANY[:40]
    log = encode(FORMAT, records, Codec.NONE)[".log"]
    for cut in range(len(log)):
        if cut in STARTS:
            assert read({".log": log[:cut]}) == records[: STARTS.index(cut)]
        else:
            with pytest.raises(CorruptError):
                read({".log": log[:cut]})


def test_an_index_notices_a_cut_before_its_last_entry() -> None:
    cut = {**MANY_FILES, ".log": MANY_FILES[".log"][: STARTS[850]]}
    with pytest.raises(CorruptError, match="rebuild it") as caught:
        read(cut)
    assert (caught.value.where, caught.value.at) == (".index", 9 * 16)


def test_flipped_bits_are_noticed_only_as_far_as_the_structure_tells() -> None:
    log = encode(FORMAT, [make(10, value=b"abc"), make(11, value=b"def")], Codec.NONE)[".log"]

    def flipped(at: int) -> dict[str, bytes]:
        return {".log": log[:at] + bytes([log[at] ^ 0x40]) + log[at + 1 :]}

    for length_or_offset in (3, 23 + 3, 23 + 11):
        if length_or_offset == 23 + 11:
            assert read(flipped(length_or_offset), 10)[1].offset == 11 ^ 0x40
            continue
        with pytest.raises(CorruptError):
            read(flipped(length_or_offset), 10)
    assert read(flipped(18), 10)[0].timestamp != NOON
    assert read(flipped(20), 10)[0].value == b"!bc"


def test_every_flipped_bit_of_the_index_is_noticed() -> None:
    files = encode(FORMAT, MANY[:120], Codec.NONE)
    for bit in range(len(files[".index"]) * 8):
        bad = bytearray(files[".index"])
        bad[bit // 8] ^= 1 << bit % 8
        records, damages = walked({**files, ".index": bytes(bad)})
        assert records == list(MANY[:120])
        assert [damage.error.where for damage in damages] == [".index"]


# ---------------------------------------------------------------------------- encode refuses


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (Record(offset=0, timestamp=0, key=b"", value=b""), "a key"),
        (make(0, value=None), "a null value"),
        (Record(offset=0, timestamp=0, key=None, value=b"", headers=(Header("a", None),)), "heade"),
        (make(0, -1), "time -1000"),
        (make(0, (2**64 - 1) // 1000 + 1), "does not fit"),
        (make(-1), "offset -1"),
        (make(2**63 - 1), "offset 9223372036854775807"),
        (make(0, value=bytes(PAYLOAD_BYTES_MAX + 1)), "the largest is"),
    ],
)
def test_what_cannot_be_written_is_refused(record: Record, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        encode(FORMAT, [record], Codec.NONE)


def test_offsets_that_do_not_rise_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="rise"):
        encode(FORMAT, [make(1), make(1)], Codec.NONE)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compression_is_refused(codec: Codec) -> None:
    with pytest.raises(InvalidInputError, match="is not written with"):
        encode(FORMAT, [make(0)], codec)


def test_an_interval_below_1_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="every 0 records"):
        encode_log([], index_interval=0)


# ---------------------------------------------------------------------------- decode refuses

BAD_LOGS = [
    (entry(0, 5) + bytes(19), CorruptError, 20, "a record header has 20"),
    (entry(1, 5), CorruptError, 0, "a record of 21 bytes, 20 left"),
    (entry(1 << 31, 5), CorruptError, 0, "20 left"),
    (entry(0, 4), CorruptError, 4, "offset 4, expected 5"),
    (entry(0, 5) + entry(0, 5), CorruptError, 24, "offset 5, expected 6"),
    (entry(0, 6) + entry(0, 5), CorruptError, 24, "offset 5, expected 7"),
    (entry(0, 2**63 - 1), CorruptError, 4, "offset 9223372036854775807"),
    (
        entry(PAYLOAD_BYTES_MAX + 1, 5, bytes(PAYLOAD_BYTES_MAX + 1)),
        UnsupportedError,
        0,
        "over the limit",
    ),
]


@pytest.mark.parametrize(
    ("log", "error", "at", "says"), BAD_LOGS, ids=[case[-1] for case in BAD_LOGS]
)
def test_a_bad_log_is_refused(log: bytes, error: type[CorruptError], at: int, says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        read({".log": log}, 5)
    assert (caught.value.at, caught.value.where) == (at, ".log")
    with pytest.raises(error, match=says):
        decode_log(log, base_offset=5)
    segment = opened({".log": log}, 5)
    with pytest.raises(error, match=says):
        run(segment.read_from(0, 9), buffers({".log": log}))
    with pytest.raises(error, match=says):
        run(segment.offset_at(1), buffers({".log": log}))


BAD_INDEXES = [
    (struct.pack(">QQ", 5, 0) + b"x", 16, "1 bytes behind"),
    (struct.pack(">QQ", 4, 0), 0, "offset 4"),
    (struct.pack(">QQQQ", 5, 0, 5, 20), 16, "offset 5"),
    (struct.pack(">QQ", 1 << 63, 20), 0, "offset 9223372036854775808"),
    (struct.pack(">QQQQ", 5, 0, 6, 19), 24, "position 19"),
    (struct.pack(">QQ", 6, 21), 8, "position 21"),
]


@pytest.mark.parametrize(
    ("index", "at", "says"), BAD_INDEXES, ids=[case[-1] for case in BAD_INDEXES]
)
def test_a_bad_index_is_refused(index: bytes, at: int, says: str) -> None:
    data = {".log": entry(0, 5) + entry(0, 6), ".index": index}
    with pytest.raises(CorruptError, match=says) as caught:
        opened(data, 5)
    assert (caught.value.at, caught.value.where) == (at, ".index")
    with pytest.raises(CorruptError) as caught:
        read(data, 5)
    assert caught.value.where == ".index"


def test_an_index_that_finds_another_record_is_refused_by_lookups() -> None:
    log = entry(4, 5, b"abcd") + entry(0, 6)
    data = {".log": log, ".index": struct.pack(">QQ", 6, 3)}
    with pytest.raises(CorruptError, match="no record with offset 6") as caught:
        run(opened(data, 5).read_from(6, 1), buffers(data))
    assert caught.value.where == ".index"


def test_a_huge_index_is_refused_before_it_is_read() -> None:
    files = Files(base_offset=0, sizes={".log": 0, ".index": (64 << 20) + 16})
    with pytest.raises(UnsupportedError, match="over the limit"):
        run(open_segment(files), buffers({}))


def test_a_segment_without_a_log_is_refused() -> None:
    (damage,) = walked({".index": b""})[1]
    assert "no log" in str(damage.error)
    with pytest.raises(CorruptError, match="no log"):
        opened({".index": b""})


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (STARTS[900] + 5, "a record header has 20|the file ends here"),
        (STARTS[900], "a record header has 20|the file ends here"),
        (STARTS[959] + 30, "the file ends here"),
    ],
)
def test_a_file_that_shrank_is_refused(size: int, says: str) -> None:
    files = files_of(MANY_FILES)
    shorter = {**MANY_FILES, ".log": MANY_FILES[".log"][:size]}
    found = list(walk_blocks(FORMAT.walk(files), buffers(shorter)))
    assert any(isinstance(one, Damage) and re.search(says, str(one.error)) for one in found)
    segment = run(open_segment(files), buffers(shorter))
    with pytest.raises(CorruptError, match=says):
        run(segment.read_from(3 * 900, 1000), buffers(shorter))


# ---------------------------------------------------------------------------- contradictions


def test_r1_partitions_lie_below_their_topic() -> None:
    assert partition_path("logs", 0) == "topics/logs/partitions/0"
    for topic in ("", ".", "..", "a/b", "a\0"):
        with pytest.raises(InvalidInputError):
            partition_path(topic, 0)


def test_r4_a_torn_record_ends_the_active_segment_and_damages_any_other() -> None:
    log = MANY_FILES[".log"]
    for cut in (STARTS[998], STARTS[999], *range(STARTS[999], len(log), 7), len(log) - 1):
        data = {**MANY_FILES, ".log": log[:cut]}
        whole = [start for start in STARTS if start <= cut]
        expected = list(MANY[: len(whole) - 1])
        assert walked(data, active=True) == (expected, [])
        assert decode_log(log[:cut], active=True)[-1].offset == expected[-1].offset
        segment = opened(data, active=True)
        assert run(segment.read_from(3 * 990, 99), buffers(data)) == tuple(expected[990:])
        assert run(segment.offset_at(NOON + 10_000), buffers(data)) is None
        if cut not in STARTS:
            with pytest.raises(CorruptError):
                read(data)


def test_r4_an_impossible_length_is_damage_in_the_active_segment_too() -> None:
    log = entry(0, 0) + entry(1 << 31, 1)
    (damage,) = walked({".log": log}, active=True)[1]
    assert damage.error.at == 20


def test_r4_the_index_of_the_active_segment_may_be_ahead() -> None:
    data = {".log": MANY_FILES[".log"][: STARTS[850]], ".index": MANY_FILES[".index"] + b"half"}
    assert walked(data, active=True) == (list(MANY[:850]), [])
    assert len(opened(data, active=True).entries) == 9
    assert run(opened(data, active=True).read_from(3 * 849, 9), buffers(data)) == (MANY[849],)


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        pytest.param(9, 21, id="another offset than the torn record has"),
        pytest.param(8, 25, id="inside the torn record"),
        pytest.param(0, 0, id="the same record again"),
        pytest.param(0, 155, id="not written yet, but an offset that was seen"),
    ],
)
def test_r4_an_index_that_contradicts_the_active_segment_is_damage(
    offset: int, position: int
) -> None:
    log = entry(1, 0, b"x") + entry(100, 8, b"on its way, and not all of it here")
    index = struct.pack(">QQQQ", 0, 0, offset, position)
    records, (damage,) = walked({".log": log, ".index": index}, active=True)
    assert [record.offset for record in records] == [0]
    assert (damage.error.where, damage.error.at) == (".index", 16)
    good = struct.pack(">QQQQQQ", 0, 0, 8, 21, 9, 141)
    assert walked({".log": log, ".index": good}, active=True)[1] == []


def test_an_index_that_names_a_record_twice_is_refused_by_walks_as_by_lookups() -> None:
    data = {".log": entry(1, 5, b"x"), ".index": struct.pack(">QQQQ", 5, 0, 5, 0)}
    (damage,) = walked(data, 5)[1]
    assert (damage.error.where, damage.error.at) == (".index", 16)
    with pytest.raises(CorruptError):
        opened(data, 5)


def test_r5_what_a_checksum_would_notice_is_not_noticed() -> None:
    log = bytearray(MANY_FILES[".log"])
    log[STARTS[50] + 25] ^= 0xFF
    assert walked({**MANY_FILES, ".log": bytes(log)})[1] == []
    assert not FORMAT.sealed


def test_r6_offset_0_may_be_the_first() -> None:
    assert read({".log": entry(0, 0)})[0].offset == 0


def test_r7_a_lookup_finds_the_first_record_at_or_after_an_offset() -> None:
    segment, give = opened(MANY_FILES), buffers(MANY_FILES)
    for offset in (*range(-1, 10), *range(295, 306), *range(2990, 3002)):
        expected = MANY[max(0, -(-offset // 3)) :][:2]
        assert run(segment.read_from(offset, 2), give) == expected
    for limit in (0, 1, 5000):
        assert run(segment.read_from(1, limit), give) == MANY[1:][:limit]


def test_r8_times_that_go_down_are_lifted_when_written() -> None:
    records = [make(0, 10), make(1, 5), make(2, 20), make(3, 19)]
    found = read(encode(FORMAT, records, Codec.NONE))
    assert [one.timestamp for one in found] == [10, 10, 20, 20]


def test_r8_times_that_go_down_are_read_as_they_are() -> None:
    log = b"".join(
        entry(0, number, timestamp_us=time) for number, time in enumerate((5000, 3000, 4000, 1000))
    )
    records, damages = walked({".log": log})
    assert ([one.timestamp for one in records], damages) == ([5, 3, 4, 1], [])


def test_r10_offsets_and_times_are_written_as_given() -> None:
    records = (make(1005, 7), make(2000, 8))
    assert read(encode(FORMAT, records, Codec.NONE), 1000) == records


def test_r11_an_index_is_always_made_alike() -> None:
    assert build_index(MANY_FILES[".log"], 0) == MANY_FILES[".index"]
    torn = MANY_FILES[".log"][:-1]
    assert build_index(torn, 0) == MANY_FILES[".index"]
    every = build_index(MANY_FILES[".log"], 0, index_interval=1)
    assert read({**MANY_FILES, ".index": every}) == MANY


def test_r16_every_100th_record_is_indexed_from_the_first_on() -> None:
    entries = decode_index(MANY_FILES[".index"], base_offset=0, log_size=len(MANY_FILES[".log"]))
    assert [(one.offset, one.position) for one in entries] == [
        (3 * number, STARTS[number]) for number in range(0, 1000, 100)
    ]


def test_r17_both_forms_of_the_checkpoint_are_read_and_json_is_written() -> None:
    json_form = (golden.HERE / "cleaner_checkpoint.json").read_bytes()
    binary_form = (golden.HERE / "cleaner_checkpoint.bin").read_bytes()
    assert encode_checkpoint(golden.CHECKPOINT) == json_form
    assert decode_checkpoint(json_form) == golden.CHECKPOINT
    assert decode_checkpoint(binary_form) == golden.BINARY_CHECKPOINT


def test_r18_microseconds_become_milliseconds_at_the_border() -> None:
    files = encode_log([LogRecord(offset=0, timestamp_us=1_999, payload=b"")])
    assert read(files)[0].timestamp == 1
    assert decode_log(files[".log"])[0].timestamp_us == 1_999
    assert encode(FORMAT, [make(0, 7)], Codec.NONE)[".log"][12:20] == (7000).to_bytes(8, "big")


# ---------------------------------------------------------------------------- checkpoint


def changed(**fields: object) -> bytes:
    whole = json.loads(encode_checkpoint(golden.CHECKPOINT))
    return json.dumps({**whole, **fields}).encode()


BAD_CHECKPOINTS = [
    (b"", CorruptError, "not JSON"),
    (b"\xff" * 16, CorruptError, "offset 18446744073709551615"),
    (b"[" * 60_000, CorruptError, "not JSON"),
    (b"9" * 10_000, CorruptError, "not JSON"),
    (b"[]", CorruptError, "there is no created_at"),
    (b"{}", CorruptError, "there is no created_at"),
    (bytes((64 << 10) + 1), UnsupportedError, "over the limit"),
    (changed(created_at=1), CorruptError, "there is no nanos"),
    (changed(created_at={"secs_since_epoch": 1}), CorruptError, "there is no nanos"),
    (
        changed(created_at={"secs_since_epoch": 1, "nanos_since_epoch": 10**9}),
        CorruptError,
        "nanos_since_epoch is 1000000000",
    ),
    (changed(last_cleaned_offset=-1), CorruptError, "offset is -1"),
    (changed(last_cleaned_offset=True), CorruptError, "offset is True"),
    (changed(retention_horizon_ms=1.5), CorruptError, "horizon_ms is 1.5"),
    (changed(retention_horizon_ms=1 << 64), CorruptError, "horizon_ms is 18446744073709551616"),
    (changed(compaction_state={"Running": 7}), UnsupportedError, "names only"),
]


@pytest.mark.parametrize(
    ("data", "error", "says"), BAD_CHECKPOINTS, ids=[case[-1] for case in BAD_CHECKPOINTS]
)
def test_a_bad_checkpoint_is_refused(data: bytes, error: type[CorruptError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        decode_checkpoint(data)
    assert caught.value.where == ".cleaner_checkpoint"


@pytest.mark.parametrize(
    "checkpoint",
    [
        CleanerCheckpoint(last_cleaned_offset=-1, retention_horizon_ms=0),
        CleanerCheckpoint(last_cleaned_offset=0, retention_horizon_ms=1 << 64),
        CleanerCheckpoint(last_cleaned_offset=0, retention_horizon_ms=0, created_at_ns=-1),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_refused(checkpoint: CleanerCheckpoint) -> None:
    with pytest.raises(InvalidInputError, match="64 bits"):
        encode_checkpoint(checkpoint)


# ---------------------------------------------------------------------------- walk


def test_a_walk_goes_on_at_the_next_index_entry() -> None:
    for at in (STARTS[250], STARTS[250] + 4):
        log = bytearray(MANY_FILES[".log"])
        log[at] ^= 0xFF
        records, (damage,) = walked({**MANY_FILES, ".log": bytes(log)})
        assert records == [*MANY[:250], *MANY[300:]]
        assert damage.error.at == at
        assert damage.size == STARTS[300] - STARTS[250]


def test_a_walk_does_not_go_on_where_the_index_lies() -> None:
    index = bytearray(MANY_FILES[".index"])
    index[16 * 3 + 7] ^= 1  # another offset
    index[16 * 4 + 8] ^= 1  # far behind the end
    index[16 * 5 + 8 : 16 * 6] = (STARTS[500] + 12).to_bytes(8, "big")  # within a record
    log = bytearray(MANY_FILES[".log"])
    log[STARTS[250]] ^= 0xFF
    records, _ = walked({".log": bytes(log), ".index": bytes(index)})
    assert records == [*MANY[:250], *MANY[600:]]


def test_a_walk_without_an_index_ends_at_the_damage() -> None:
    log = bytearray(MANY_FILES[".log"])
    log[STARTS[250]] ^= 0xFF
    records, (damage,) = walked({".log": bytes(log)})
    assert records == list(MANY[:250])
    assert damage.size == len(log) - STARTS[250]


def test_a_walk_goes_on_right_behind_a_record_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakelog.formats.rustlog.layout.PAYLOAD_BYTES_MAX", 58)
    records, damages = walked(MANY_FILES)
    assert records == [one for one in MANY if len(one.value or b"") <= 58]
    assert [damage.size for damage in damages] == [79] * 16


def test_a_walk_asks_for_each_byte_once() -> None:
    asked = []
    give = buffers(MANY_FILES)

    def counted(wish: Range) -> bytes:
        asked.append(wish.end - wish.start)
        return give(wish)

    list(walk_blocks(FORMAT.walk(files_of(MANY_FILES)), counted))
    assert sum(asked) == sum(len(one) for one in MANY_FILES.values())


# ---------------------------------------------------------------------------- lookup


def test_lookups_without_an_index_are_the_same() -> None:
    data = {".log": MANY_FILES[".log"]}
    segment, give = opened(data), buffers(data)
    for offset in (0, 1, 299, 300, 301, 2997, 2998):
        assert run(segment.read_from(offset, 3), give) == MANY[-(-offset // 3) :][:3]


def test_offset_at_is_a_filter() -> None:
    for records in (MANY[:50], tuple(make(n, (n * 37) % 101) for n in range(100))):
        log = b"".join(entry(1, one.offset, b"v", one.timestamp * 1000) for one in records)
        segment, give = opened({".log": log}), buffers({".log": log})
        for timestamp in (-5, *range(102), *range(NOON - 1, NOON + 20)):
            expected = next((one.offset for one in records if one.timestamp >= timestamp), None)
            assert run(segment.offset_at(timestamp), give) == expected


def test_lookups_ask_for_little() -> None:
    records = [make(n, NOON, bytes(500)) for n in range(20_000)]
    data = encode(FORMAT, records, Codec.NONE)
    asked: list[Range] = []
    give = buffers(data)

    def counted(wish: Range) -> bytes:
        asked.append(wish)
        return give(wish)

    segment = run(open_segment(files_of(data)), counted)
    assert [wish.end - wish.start for wish in asked] == [4096, 200 * 16]
    asked.clear()
    assert run(segment.read_from(12_345, 1), counted) == (records[12_345],)
    assert sum(wish.end - wish.start for wish in asked) <= 64 << 10


def test_an_empty_segment_has_nothing_to_find() -> None:
    data = encode(FORMAT, [], Codec.NONE)
    segment = opened(data, 7)
    assert segment.base_offset == 7
    assert run(segment.read_from(0, 9), buffers(data)) == ()
    assert run(segment.offset_at(0), buffers(data)) is None


# ---------------------------------------------------------------------------- other logs


def untimed(count: int, base: int = 5) -> bytes:
    """A log of the RustLog program."""
    return b"".join(struct.pack(">IQ", 9, base + n) + b"some data" for n in range(count))


def test_a_log_without_timestamps_is_refused_by_name() -> None:
    data = {".log": untimed(20)}
    assert FORMAT.sniff(data[".log"][:64], 5)
    for reading in (read, opened):
        with pytest.raises(UnsupportedError, match="no timestamp"):
            reading(data, 5)
    with pytest.raises(UnsupportedError, match="no timestamp"):
        decode_log(data[".log"], base_offset=5)
    (damage,) = walked(data, 5)[1]
    assert damage.size == len(data[".log"])


def test_a_log_cut_short_is_never_taken_for_one_without_timestamps() -> None:
    # The payload ends as a header without a timestamp would begin.
    log = encode(FORMAT, [make(0, value=bytes(8)), make(1, value=b"v")], Codec.NONE)[".log"]
    assert len(read({".log": log})) == 2
    for cut in set(range(len(log))) - {0, 28}:
        with pytest.raises(CorruptError):
            read({".log": log[:cut]})


def test_a_damaged_log_is_not_taken_for_one_without_timestamps() -> None:
    for value in (b"", bytes(8), b"some data"):
        log = bytearray(
            encode(FORMAT, [make(n, value=value) for n in range(9)], Codec.NONE)[".log"]
        )
        log[20 + len(value)] ^= 0x80
        with pytest.raises(CorruptError):
            read({".log": bytes(log)})


def test_sniffing_goes_by_the_first_offset() -> None:
    assert FORMAT.sniff(MANY_FILES[".log"][:64], 0)
    assert not FORMAT.sniff(MANY_FILES[".log"][:64], 1)
    assert not FORMAT.sniff(MANY_FILES[".log"][:19], 0)
    assert not FORMAT.sniff(b"", 0)
    for base in (0, 1, 1 << 33):
        kafka = struct.pack(">qiib", base, 161, 0, 2) + bytes(44)
        assert not FORMAT.sniff(kafka, base)


@pytest.mark.parametrize(
    ("stem", "base_offset"),
    [
        ("00000000000000001000", 1000),
        ("09223372036854775806", 2**63 - 2),
        ("09223372036854775807", None),
        ("1000", None),
        (".cleaner_checkpoint0", None),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠", None),
    ],
)
def test_names_are_read_as_they_are_written(stem: str, base_offset: int | None) -> None:
    assert FORMAT.base_offset(stem) == base_offset
    if base_offset is not None:
        assert FORMAT.file_stem(base_offset) == stem


# ---------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("stem", golden.LOGS)
def test_golden_files_decode_to_their_records_and_are_what_the_encoder_writes(stem: str) -> None:
    records = golden.LOGS[stem]
    files = {suffix: (golden.HERE / (stem + suffix)).read_bytes() for suffix in (".log", ".index")}
    assert decode_log(files[".log"], base_offset=int(stem)) == records
    assert encode_log(records) == files
    assert [one.offset for one in read(files, int(stem))] == [one.offset for one in records]


def test_a_golden_file_is_put_together_by_hand() -> None:
    noon = NOON * 1000
    log = struct.pack(">IQQ", 5, 1000, noon + 1) + b"hello"
    log += struct.pack(">IQQ", 0, 1001, noon + 1500)
    log += struct.pack(">IQQ", 11, 1005, noon + 2000) + b"after a gap"
    stem = golden.HERE / "00000000000000001000"
    assert stem.with_suffix(".log").read_bytes() == log
    assert stem.with_suffix(".index").read_bytes() == struct.pack(">QQ", 1000, 0)


def test_the_example_of_the_page_is_what_the_encoder_writes() -> None:
    page = (ROOT / "docs/reference/formats/rustlog.md").read_text()
    shown: dict[str, bytearray] = {}
    for suffix, example in re.findall(r"```hex ([.\w]+)\n(.*?)```", page, re.DOTALL):
        shown[suffix] = bytearray()
        for line in example.splitlines():
            at, hexes = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+)", line).groups()  # type: ignore[union-attr]
            assert int(at, 16) == len(shown[suffix])
            shown[suffix] += bytes.fromhex(hexes)
    assert bytes(shown.pop("envelopes")) == encode_log(golden.SPOOLED)[".log"]
    assert {suffix: bytes(data) for suffix, data in shown.items()} == encode_log(golden.FEW)
    (checkpoint,) = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    assert checkpoint.encode() == encode_checkpoint(golden.CHECKPOINT)


def test_positions_of_the_records_are_as_expected() -> None:
    assert STARTS[-1] == len(MANY_FILES[".log"])
    assert all(a < b for a, b in pairwise(STARTS))

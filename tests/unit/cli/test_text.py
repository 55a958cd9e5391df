"""The lines are those of kafka-dump-log 4.3.1. (tests/e2e/test_dump.py holds all of them to it.)"""

import struct

import pytest

from lakelog.cli.dump.reading import Shown
from lakelog.cli.dump.text import TextLines, java_text
from lakelog.model import Header, Record, TimestampType
from lakelog.records import Codec, NewBatch, decode_batch, encode_batch

TIME = 1_700_000_000_000


def _shown(new: NewBatch, *, position: int = 0, is_valid: bool = True) -> Shown:
    found = decode_batch(encode_batch(new))
    return Shown(
        position=position,
        size=found.header.size,
        base_offset=found.header.base_offset,
        next_offset=found.header.next_offset,
        count=found.header.count,
        records=found.records,
        header=found.header,
        is_valid=is_valid,
    )


def _record(offset: int = 0, **fields: object) -> Record:
    given = {"timestamp": TIME, "key": None, "value": None, **fields}
    return Record(offset=offset, **given)  # type: ignore[arg-type]


def _record_lines(*records: Record) -> list[str]:
    return TextLines().records(_shown(NewBatch(records=records))).splitlines()


def test_a_batch_line_of_a_transaction() -> None:
    # As Kafka wrote and printed it.
    records = [_record(offset, value=b"commit%d" % offset) for offset in range(3)]
    new = NewBatch(
        records=records, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )

    assert TextLines().batch(_shown(new)) == (
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: 0 lastSequence: 2 producerId: 5 "
        "producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: true isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000000 size: 103 "
        "magic: 2 compresscodec: none crc: 3157088843 isvalid: true\n"
    )
    assert TextLines().records(_shown(new)).splitlines() == [
        (
            "| offset: 0 CreateTime: 1700000000000 keySize: -1 valueSize: 7 sequence: 0 "
            "headerKeys: [] payload: commit0"
        ),
        (
            "| offset: 1 CreateTime: 1700000000000 keySize: -1 valueSize: 7 sequence: 1 "
            "headerKeys: [] payload: commit1"
        ),
        (
            "| offset: 2 CreateTime: 1700000000000 keySize: -1 valueSize: 7 sequence: 2 "
            "headerKeys: [] payload: commit2"
        ),
    ]


def test_a_batch_line_of_a_compacted_batch_with_everything_else() -> None:
    new = NewBatch(
        records=[_record(55, value=b"r")],
        base_offset=40,
        next_offset=60,
        codec=Codec.ZSTD,
        leader_epoch=7,
        delete_horizon=TIME + 5,
    )

    line = TextLines().batch(_shown(new, position=91, is_valid=False))

    assert line.startswith("baseOffset: 40 lastOffset: 59 count: 1 baseSequence: -1 ")
    assert " partitionLeaderEpoch: 7 " in line
    assert " deleteHorizonMs: OptionalLong[1700000000005] position: 91 " in line
    assert " compresscodec: zstd " in line
    assert line.endswith(" isvalid: false\n")


def test_append_time_is_named_in_batches_and_records() -> None:
    shown = _shown(
        NewBatch(records=[_record(value=b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    )

    assert " LogAppendTime: 1700000000000 size: " in TextLines().batch(shown)
    assert TextLines().records(shown).startswith("| offset: 0 LogAppendTime: 1700000000000 ")


def test_null_and_empty_keys_and_values_differ() -> None:
    start = "CreateTime: 1700000000000"
    lines = _record_lines(
        _record(0),
        _record(1, key=b"", value=b""),
        _record(2, key=b"k"),
        _record(3, value=b"v"),
    )

    assert lines == [
        f"| offset: 0 {start} keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
        f"| offset: 1 {start} keySize: 0 valueSize: 0 sequence: -1 headerKeys: [] key:  payload: ",
        f"| offset: 2 {start} keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k",
        f"| offset: 3 {start} keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: v",
    ]


def test_of_headers_the_keys_are_shown_in_order() -> None:
    headers = (Header("b", b"1"), Header("a", None), Header("b", b""), Header("\udcff", b""))

    (line,) = _record_lines(_record(value=b"v", headers=headers))

    assert " headerKeys: [b,a,b,\ufffd] payload: v" in line


def test_sequences_wrap() -> None:
    records = [_record(offset, value=b"v") for offset in range(2)]
    new = NewBatch(records=records, producer_id=1, producer_epoch=0, base_sequence=0x7FFFFFFF)

    first, second = TextLines().records(_shown(new)).splitlines()

    assert " sequence: 2147483647 " in first
    assert " sequence: 0 " in second
    assert " baseSequence: 2147483647 lastSequence: 0 " in TextLines().batch(_shown(new))


def _key(type_id: int) -> bytes:
    return struct.pack(">hh", 0, type_id)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (_key(0), struct.pack(">hi", 0, 3), "endTxnMarker: ABORT coordinatorEpoch: 3"),
        (_key(1), struct.pack(">hi", 0, 0), "endTxnMarker: COMMIT coordinatorEpoch: 0"),
        (
            _key(2),
            bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"),
            (
                'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],'
                '"grantingVoters":[{"voterId":1}]}'
            ),
        ),
        (
            _key(2),
            bytes.fromhex(f"0001 00000001 02 00000001 {'00' * 15 + '01'} 00 01 00"),
            (
                'LeaderChange: {"version":1,"leaderId":1,"voters":[{"voterId":1,'
                '"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ"}],"grantingVoters":[]}'
            ),
        ),
        (_key(2), b"\0\0\0\0\0\1\xff", "controlType: LEADER_CHANGE(2)"),
        (_key(1), b"", "controlType: COMMIT(1)"),
        (_key(6), b"", "controlType: KRAFT_VOTERS(6)"),
        (_key(99), b"", "controlType: UNKNOWN(99)"),
        (b"", b"", "controlType: UNKNOWN(-1)"),
    ],
)
def test_control_records_say_what_they_control(key: bytes, value: bytes, told: str) -> None:
    new = NewBatch(records=[_record(key=key, value=value)], is_control=True)

    line = TextLines().records(_shown(new))

    assert line.endswith(f" sequence: -1 headerKeys: [] {told}\n")


def test_a_block_without_a_header_has_a_line_of_its_own() -> None:
    shown = Shown(
        position=64, size=100, base_offset=5, next_offset=9, count=2,
        records=(_record(5, value=b"a"), _record(8, value=b"b")),
    )  # fmt: skip

    assert TextLines().batch(shown) == (
        "baseOffset: 5 lastOffset: 8 count: 2 position: 64 size: 100\n"
    )
    assert TextLines().records(shown).splitlines()[1] == (
        "| offset: 8 CreateTime: 1700000000000 keySize: -1 valueSize: 1 sequence: -1 "
        "headerKeys: [] payload: b"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\xfe", "��"),
        (b"\xed\xa0\x80|", "�|"),  # A surrogate is one piece to Java, three to Python.
        (b"\xed\xa0|", "�|"),
        (b"\xed\xbf", "�"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xe1\x80|", "�|"),
        (b"\xe0\x80\x80", "���"),
        (b"\xf0\x90\x80|", "�|"),
        (b"\xf4\x90\x80\x80", "����"),
        (b"\xf8\x88", "��"),
        (b"A\xc3", "A�"),
        ("ключ 😀".encode(), "ключ 😀"),
    ],
)
def test_what_is_not_utf8_is_replaced_as_java_does(data: bytes, text: str) -> None:
    assert java_text(data) == text

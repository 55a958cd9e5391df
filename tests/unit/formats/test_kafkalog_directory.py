"""The other files of a Kafka log directory, and which of them make up the log."""

import struct
from collections.abc import Callable
from time import perf_counter
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.kafkalog import (
    AbortedTxn,
    EpochStart,
    ProducerState,
    decode_leader_epochs,
    decode_metadata,
    decode_snapshot,
    decode_txn_index,
    directory_name,
    parse_directory_name,
)
from lakelog.model import Record
from lakelog.records import Batch, NewBatch, decode_batch, encode_batch
from tests.kafka_files import (
    encode_leader_epochs,
    encode_metadata,
    encode_snapshot,
    encode_txn_index,
    fold_producers,
    plan_directory,
)
from tests.patience import in_time

# ---------------------------------------------------------------------------- planning


def test_files_are_grouped_by_base_offset_and_the_last_segment_is_active() -> None:
    plan = plan_directory(
        [
            ("00000000000000001007.index", 10485760),
            ("leader-epoch-checkpoint", 8),
            ("00000000000000000000.timeindex", 24),
            ("00000000000000001007.log", 500),
            ("00000000000000000000.log", 900),
            ("00000000000000001007.snapshot", 10),
            ("00000000000000000000.index", 16),
            ("partition.metadata", 43),
        ]
    )
    first, last = plan.segments
    assert first.base_offset == 0
    assert dict(first.sizes) == {".log": 900, ".index": 16, ".timeindex": 24}
    assert not first.active
    assert dict(last.sizes) == {".log": 500, ".index": 10485760, ".snapshot": 10}
    assert last.active
    assert plan.has_leader_epochs
    assert plan.has_metadata
    assert plan.ignored == ()


def test_no_segment_of_an_archive_is_active() -> None:
    plan = plan_directory([("00000000000000000000.log", 900)], active=False)
    assert not plan.segments[0].active


def test_what_is_on_its_way_in_or_out_is_no_part_of_the_log() -> None:
    others = [
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.swap",
        "00000000000000000000.index.cleaned",
        "00000000000000000009.snapshot.deleted",
        "leader-epoch-checkpoint.tmp",
        "7.log",
        "99999999999999999999.log",
        "notes.txt",
    ]
    plan = plan_directory([(name, 1) for name in others])
    assert plan.segments == ()
    assert plan.snapshots == ()
    assert plan.ignored == tuple(others)
    assert not plan.has_leader_epochs


def test_an_index_without_its_log_is_ignored_but_a_snapshot_is_not() -> None:
    plan = plan_directory(
        [("00000000000000000005.index", 8), ("00000000000000000009.snapshot", 10)]
    )
    assert plan.segments == ()
    assert plan.snapshots == (9,)
    assert plan.ignored == ("00000000000000000005.index",)


def test_a_hundred_thousand_files_are_planned_in_a_moment() -> None:
    names = [
        (f"{1000 * n:020}{suffix}", n)
        for n in range(33_334, 0, -1)
        for suffix in (".log", ".index", ".timeindex")
    ]
    began = perf_counter()
    plan = plan_directory(names)
    in_time(perf_counter() - began < 3, "a walk")
    assert len(plan.segments) == 33_334
    assert [plan.segments[i].base_offset for i in (0, -1)] == [1000, 33_334_000]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-3", ("a-b", 3)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("a.b_c-2147483647", ("a.b_c", 2147483647)),
        ("--1", ("-", 1)),
        ("orders-2147483648", None),
        ("orders-03", None),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("..-0", None),
        ("orders/x-0", None),
        ("orders-٣", None),
        (f"{'x' * 250}-0", None),
        ("orders-0.b9c0a3e1d2f4456789abcdef01234567-delete", None),
        ("orders-0.b9c0a3e1d2f4456789abcdef01234567-stray", None),
        ("orders-0.b9c0a3e1d2f4456789abcdef01234567-future", None),
    ],
)
def test_topic_and_partition_are_in_the_name(name: str, found: tuple[str, int] | None) -> None:
    assert parse_directory_name(name) == found
    if found:
        assert directory_name(*found) == name


@pytest.mark.parametrize(("topic", "partition"), [("", 0), ("a b", 0), ("a", -1), ("a", 1 << 31)])
def test_no_directory_has_an_illegal_name(topic: str, partition: int) -> None:
    with pytest.raises(InvalidInputError):
        directory_name(topic, partition)


# ---------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize(
    "epochs",
    [(), (EpochStart(0, 0),), (EpochStart(2, 5), EpochStart((1 << 31) - 1, (1 << 63) - 1))],
)
def test_leader_epochs_come_back(epochs: tuple[EpochStart, ...]) -> None:
    assert decode_leader_epochs(encode_leader_epochs(epochs)) == epochs


def test_an_empty_checkpoint_is_good() -> None:
    assert decode_leader_epochs(b"") == ()


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        (b"1\n0\n", UnsupportedError, "version 1"),
        (b"x\n0\n", CorruptError, "version"),
        (b"0\n", CorruptError, "no count"),
        (b"0\nx\n", CorruptError, "no count"),
        (b"0\n2\n0 0\n", CorruptError, "1 lines, not 2"),
        (b"0\n1\n0 0\n1 1\n", CorruptError, "2 lines, not 1"),
        (b"0\n1\n0\n", CorruptError, "is not an epoch"),
        (b"0\n1\n-1 0\n", CorruptError, "is not an epoch"),
        (b"0\n2\n1 0\n1 5\n", CorruptError, "epoch 1 behind 1"),
        (b"0\n1\n2147483648 0\n", CorruptError, "epoch 2147483648"),
        (b"0\n2\n1 5\n2 5\n", CorruptError, "start offset 5 behind 5"),
        (b"0\n1\n0 9999999999999999999\n", CorruptError, "start offset"),
        (b"\xff\xfe\n", CorruptError, "version"),
    ],
)
def test_a_bad_checkpoint_is_refused(text: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode_leader_epochs(text)


def test_epochs_that_do_not_rise_are_not_written() -> None:
    with pytest.raises(InvalidInputError):
        encode_leader_epochs((EpochStart(1, 0), EpochStart(1, 5)))


def test_partition_metadata_comes_back() -> None:
    topic_id = UUID("ddfcfe4d-725b-4d54-90e5-6a7698069b71")
    assert encode_metadata(topic_id) == b"version: 0\ntopic_id: 3fz-TXJbTVSQ5Wp2mAabcQ"
    assert decode_metadata(encode_metadata(topic_id)) == topic_id
    assert decode_metadata(encode_metadata(topic_id) + b"\n") == topic_id


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        (b"version: 1\ntopic_id: 3fz-TXJbTVSQ5Wp2mAabcQ", UnsupportedError, "version 1"),
        (b"version: 0\n", CorruptError, "not a version"),
        (b"", CorruptError, "not a version"),
        (b"version: 0\ntopic_id: short", CorruptError, "not a version"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", CorruptError, "all zero"),
    ],
)
def test_bad_partition_metadata_is_refused(text: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode_metadata(text)


def test_a_topic_without_an_id_is_not_written() -> None:
    with pytest.raises(InvalidInputError):
        encode_metadata(UUID(int=0))


# ---------------------------------------------------------------------------- transactions


TXNS = (
    AbortedTxn(producer_id=7, first_offset=3, last_offset=12, last_stable_offset=5),
    AbortedTxn(producer_id=8, first_offset=5, last_offset=20, last_stable_offset=21),
)


def test_aborted_transactions_come_back() -> None:
    data = encode_txn_index(TXNS)
    assert len(data) == 2 * 34
    assert decode_txn_index(data, base_offset=10) == TXNS


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (encode_txn_index(TXNS)[:-1], CorruptError, "not a multiple of 34"),
        (b"\0\1" + encode_txn_index(TXNS)[2:], UnsupportedError, "version 1"),
        (encode_txn_index(TXNS[::-1]), CorruptError, "where 21 or more is due"),
        (encode_txn_index(TXNS * 2), CorruptError, "where 21 or more is due"),
        (struct.pack(">hqqqq", 0, 1, 15, 14, 1), CorruptError, "offsets 15 to 14"),
        (struct.pack(">hqqqq", 0, 1, -1, 14, 1), CorruptError, "offsets -1 to 14"),
        (struct.pack(">hqqqq", 0, 1, 1, 9, 1), CorruptError, "where 10 or more is due"),
    ],
)
def test_a_bad_transaction_index_is_refused(data: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode_txn_index(data, base_offset=10)


# ---------------------------------------------------------------------------- producers


STATES = (
    ProducerState(producer_id=5, epoch=0, last_sequence=9, last_offset=99, offset_delta=4),
    ProducerState(producer_id=1 << 40, epoch=3, coordinator_epoch=2, open_since=50, timestamp=7),
)


def resealed(body: bytes) -> bytes:
    return struct.pack(">hI", 1, crc32c(body)) + body


def entry(*fields: int) -> bytes:
    return struct.pack(">i", 1) + struct.pack(">qhiqiqiq", *fields)


def test_a_snapshot_comes_back_in_order_of_producer() -> None:
    data = encode_snapshot(STATES[::-1])
    assert data == encode_snapshot(STATES)
    assert len(data) == 10 + 2 * 46
    assert decode_snapshot(data, next_offset=100) == STATES


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (b"\0\1\0\0\0\0\0\0\0", CorruptError, "9 bytes, a header has 10"),
        (b"\0\2" + encode_snapshot(STATES)[2:], UnsupportedError, "version 2"),
        (encode_snapshot(STATES)[:-1], CorruptError, "CRC-32C"),
        (resealed(encode_snapshot(STATES)[6:-1]), CorruptError, "2 entries in 91 bytes"),
        (resealed(struct.pack(">i", -1)), CorruptError, "-1 entries"),
        (resealed(entry(-1, 0, 0, 0, 0, 0, 0, -1)), CorruptError, "producer -1"),
        (resealed(entry(1, 0, 0, 100, 0, 0, 0, -1)), CorruptError, "at offset 100"),
        (resealed(entry(1, 0, 0, -2, 0, 0, 0, -1)), CorruptError, "at offset -2"),
        (resealed(entry(1, 0, 0, 0, 0, 0, 0, 100)), CorruptError, "open since 100"),
    ],
)
def test_a_bad_snapshot_is_refused(data: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode_snapshot(data, next_offset=100)


def data(base: int, count: int = 1, **more: Any) -> Batch:
    records = [Record(offset=base + i, timestamp=base, key=None, value=b"") for i in range(count)]
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} | more
    return decode_batch(encode_batch(NewBatch(records=records, **fields)))


def marker(base: int, kind: int, key: bytes | None = None, **more: Any) -> Batch:
    key = struct.pack(">hh", 0, kind) if key is None else key
    value = struct.pack(">hi", 0, 6)
    record = Record(offset=base, timestamp=base, key=key, value=value)
    fields = {"producer_id": 1, "producer_epoch": 0} | more
    batch = NewBatch(records=[record], is_control=True, is_transactional=True, **fields)
    return decode_batch(encode_batch(batch))


def test_the_last_batch_of_each_idempotent_producer_is_remembered() -> None:
    batches = [
        data(10, 3),
        data(13, 2, producer_id=2, base_sequence=40),
        data(15, 4, base_sequence=3),
        data(19, producer_id=-1, producer_epoch=-1, base_sequence=-1),
    ]
    states, aborted = fold_producers(batches)
    assert states == {
        1: ProducerState(
            producer_id=1, epoch=0, last_sequence=6, last_offset=18, offset_delta=3, timestamp=15
        ),
        2: ProducerState(
            producer_id=2, epoch=0, last_sequence=41, last_offset=14, offset_delta=1, timestamp=13
        ),
    }
    assert aborted == []


def test_sequences_wrap() -> None:
    states, _ = fold_producers([data(0, 3, base_sequence=(1 << 31) - 2)])
    assert states[1].last_sequence == 0


def test_a_fold_goes_on_from_a_snapshot() -> None:
    whole, _ = fold_producers([data(10), data(11, producer_id=2), data(12, base_sequence=1)])
    first, _ = fold_producers([data(10), data(11, producer_id=2)])
    assert fold_producers([data(12, base_sequence=1)], first.values())[0] == whole


def test_a_transaction_is_open_until_its_marker() -> None:
    begun = [data(10, is_transactional=True), data(11, is_transactional=True, base_sequence=1)]
    assert fold_producers(begun)[0][1].open_since == 10
    states, aborted = fold_producers([*begun, marker(12, 1)])
    assert states[1] == ProducerState(
        producer_id=1, epoch=0, last_sequence=1, last_offset=11, timestamp=12, coordinator_epoch=6
    )
    assert aborted == []


def test_an_aborted_transaction_is_listed_with_what_is_still_open() -> None:
    batches = [
        data(10, is_transactional=True),
        data(11, producer_id=2, is_transactional=True),
        marker(12, 0),
        marker(13, 0, producer_id=2),
        marker(14, 0),
    ]
    assert fold_producers(batches)[1] == [
        AbortedTxn(producer_id=1, first_offset=10, last_offset=12, last_stable_offset=11),
        AbortedTxn(producer_id=2, first_offset=11, last_offset=13, last_stable_offset=14),
    ]


def test_a_marker_of_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    states, _ = fold_producers([data(10, is_transactional=True), marker(11, 1, producer_epoch=1)])
    assert states[1] == ProducerState(producer_id=1, epoch=1, timestamp=11, coordinator_epoch=6)


def test_an_emptied_control_batch_says_nothing() -> None:
    empty = NewBatch(
        records=(), base_offset=5, next_offset=6, is_control=True, producer_id=1, producer_epoch=0
    )
    assert fold_producers([decode_batch(encode_batch(empty))]) == ({}, [])


@pytest.mark.parametrize(
    "batch",
    [lambda: marker(0, 2), lambda: marker(0, 0, key=b"\0")],
    ids=["another type", "cut short"],
)
def test_a_control_batch_without_a_marker_is_refused(batch: Callable[[], Batch]) -> None:
    with pytest.raises(CorruptError):
        fold_producers([batch()])

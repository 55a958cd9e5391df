"""Stories of compaction: what becomes of records, batches, tombstones, producers and markers."""

import pickle
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.model import Header, Record, TimestampType
from lakelog.records import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    Codec,
    NewBatch,
    decode_batches,
    decode_header,
    encode_batch,
)
from lakelog.records.cleaning import Cleaned, Cleaner
from lakelog.records.cleaning_rules import CleaningRules, LastBatch, last_batches
from lakelog.records.offset_map import OffsetMap
from tests.shorthands import clean

TIME = 1_700_000_000_000
NOW = TIME + 1_000_000
DAY = 86_400_000
LONG_MAX = (1 << 63) - 1
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def rows(text: str, first: int = 0) -> list[Record]:
    """``a=1 b= c`` is a record, one with an empty value and a tombstone; ``_`` is no key."""
    found = []
    for number, word in enumerate(text.split(), first):
        key, equals, value = word.partition("=")
        found.append(
            Record(
                offset=number,
                timestamp=TIME + number,
                key=None if key == "_" else key.encode(),
                value=value.encode() if equals else None,
            )
        )
    return found


def batch(text: str, first: int = 0, **more: Any) -> bytes:
    return encode_batch(NewBatch(records=rows(text, first), **more))


def newest_of(*runs: bytes | bytearray) -> OffsetMap:
    found = OffsetMap(1 << 20, seed=11)
    for run in runs:
        found.note(run)
    return found


def cleaned(*runs: bytes, now_ms: int = NOW, **more: Any) -> Cleaned:
    rules = CleaningRules(now_ms=now_ms, **{"delete_retention_ms": DAY, **more})
    return clean(b"".join(runs), newest_of(*runs), rules)


def batches(found: Cleaned) -> list[Batch]:
    return list(decode_batches(found.run))


def text(found: Cleaned) -> str:
    """What is left, in the words of ``rows``, with offsets."""
    return " ".join(
        f"{r.offset}:{(r.key or b'_').decode()}"
        + ("" if r.value is None else f"={r.value.decode()}")
        for b in batches(found)
        for r in b.records
    )


# ------------------------------------------------------------------------------------- records


def test_of_each_key_the_newest_record_stays() -> None:
    found = cleaned(batch("a=1 b=1 a=2"), batch("c=1 b=2", 3))

    assert text(found) == "2:a=2 3:c=1 4:b=2"
    assert (found.records_read, found.records_kept) == (5, 3)
    assert (found.batches_read, found.batches_kept, found.tombstones) == (2, 2, 0)
    assert found.bytes_read > len(found.run)


def test_a_record_that_stays_is_as_it_was() -> None:
    told = Record(
        offset=9, timestamp=TIME - 500, key=b"k" * 300, value=b"v" * 2000,
        headers=(Header("h", None), Header("h", b"x" * 130)),
    )  # fmt: skip
    run = encode_batch(NewBatch(records=[*rows("a=1", 7), told, *rows("a=2", 10)]))

    assert batches(cleaned(run))[0].records == (told, *rows("a=2", 10))


def test_records_without_a_key_go() -> None:
    assert text(cleaned(batch("_=1 a=1 _"))) == "1:a=1"


def test_what_the_map_does_not_reach_stays() -> None:
    first, second = batch("a=1 b=1 _=0"), batch("_=1 a=2 b", 3)
    found = clean(first + second, newest_of(first), CleaningRules(now_ms=NOW))
    assert text(found) == "0:a=1 1:b=1 3:_=1 4:a=2 5:b"


def test_a_key_that_the_map_does_not_know_stays() -> None:
    """What was cleaned before is not noted again."""
    old, new = batch("a=1 b=1 c=1"), batch("b=2", 3)
    found = clean(old + new, newest_of(new), CleaningRules(now_ms=NOW))
    assert text(found) == "0:a=1 2:c=1 3:b=2"


def test_an_empty_run_is_clean() -> None:
    found = cleaned(b"")
    assert (len(found.run), found.batches_read, found.next_horizon) == (0, 0, None)


# ------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(codec: Codec) -> None:
    whole = batch("a=1 b=1 c=", codec=codec, level=None if codec is Codec.SNAPPY else 1)
    other = batch("d=1 d=2", 3, codec=codec)

    found = cleaned(whole, other)

    assert found.run.startswith(whole)
    assert text(found) == "0:a=1 1:b=1 2:c= 4:d=2"


def test_a_batch_keeps_its_place_and_its_producer() -> None:
    """Its base timestamp is that of the first record left, as it always is."""
    run = batch(
        "a=1 b=1 a=2 b=2 a=3", 10, base_offset=8, next_offset=20, codec=Codec.LZ4,
        leader_epoch=6, producer_id=4, producer_epoch=2, base_sequence=77,
    )  # fmt: skip
    before = decode_header(run)

    (found,) = batches(cleaned(run))

    assert found.header._replace(length=0, crc=0) == before._replace(
        length=0, crc=0, base_timestamp=TIME + 13, max_timestamp=TIME + 14, count=2
    )
    assert found.header.last_sequence == before.last_sequence


def test_times_that_fall_are_told_from_the_first_that_is_left() -> None:
    times = [5, -1, 9, 2]
    run = encode_batch(
        NewBatch(
            records=[
                Record(offset=i, timestamp=time, key=b"a" if i == 0 else b"%d" % i, value=b"")
                for i, time in enumerate(times)
            ]
        )
    )

    (found,) = batches(cleaned(run, batch("a=1", 4)))[:1]

    assert (found.header.base_timestamp, found.header.max_timestamp) == (-1, 9)
    assert [record.timestamp for record in found.records] == times[1:]


def test_append_time_stays_the_time_of_all() -> None:
    records = [
        Record(offset=i, timestamp=TIME, key=key, value=value)
        for i, (key, value) in enumerate([(b"a", b"1"), (b"a", b"2"), (b"b", None)])
    ]
    kind = TimestampType.LOG_APPEND_TIME
    (found,) = batches(cleaned(encode_batch(NewBatch(records=records, timestamp_type=kind))))

    assert found.header.timestamp_type is kind
    assert (found.header.max_timestamp, found.header.delete_horizon) == (TIME, NOW + DAY)
    assert {record.timestamp for record in found.records} == {TIME}


def test_many_batches_of_all_codecs_stay_in_order() -> None:
    """More than fit one table of headers, and more bytes than fit one group."""
    run = b"".join(
        batch(f"k{i % 300}={'x' * 400} j{i}=1", 2 * i, codec=Codec(i // 7 % 5)) for i in range(5000)
    )

    found = cleaned(run)

    offsets = [record.offset for b in batches(found) for record in b.records]
    assert offsets == sorted([2 * i + 1 for i in range(5000)] + [2 * i for i in range(4700, 5000)])
    assert found.batches_read == found.batches_kept == 5000


def test_a_batch_that_would_outgrow_its_readers_stays_as_it_is() -> None:
    """A horizon lies far from the times of the records, so that they take more bytes."""
    run = batch("a b=1 c=1")
    rules = CleaningRules(now_ms=NOW)
    longer = clean(run, newest_of(run), rules)
    assert len(longer.run) > len(run)

    found = Cleaner(newest_of(run), rules, batch_bytes_max=len(run)).clean(run)

    assert (found.run, found.records_kept, found.next_horizon) == (bytearray(run), 3, None)


@pytest.mark.parametrize(
    ("at", "new", "what"),
    [
        (27, LONG_MAX.to_bytes(8, "big"), "does not fit 64 bits"),
        (57, b"\0\0\0\1", "bytes behind the last record"),
    ],
)
def test_damage_behind_a_good_checksum_is_found(at: int, new: bytes, what: str) -> None:
    run = bytearray(batch("a=1 b=1"))
    run[at : at + len(new)] = new
    run[17:21] = crc32c(run[21:]).to_bytes(4, "big")

    with pytest.raises(CorruptError, match=what):
        newest_of(run)
    with pytest.raises(CorruptError, match=what):
        clean(run, newest_of(), CleaningRules(now_ms=NOW))


def test_a_map_and_rules_can_travel() -> None:
    run = batch("a=1 b=1 a=2 c")
    rules = CleaningRules(
        now_ms=NOW, producers={1: LastBatch(epoch=0, last_offset=3)}, next_offset=4
    )

    there = pickle.loads(pickle.dumps((newest_of(run), rules)))

    assert clean(run, *there) == clean(run, newest_of(run), rules)


# ---------------------------------------------------------------------------------- tombstones


def test_a_tombstone_waits_until_its_horizon() -> None:
    first = cleaned(batch("a=1 a b=1"))
    assert (text(first), first.tombstones, first.next_horizon) == ("1:a 2:b=1", 1, NOW + DAY)
    assert batches(first)[0].header.delete_horizon == NOW + DAY
    assert [record.timestamp for record in batches(first)[0].records] == [TIME + 1, TIME + 2]

    again = cleaned(bytes(first.run), now_ms=NOW + DAY - 1)
    assert again.run == first.run, "a horizon is set once"

    last = cleaned(bytes(first.run), now_ms=NOW + DAY)
    assert (text(last), last.tombstones, last.next_horizon) == ("2:b=1", 0, None)
    assert batches(last)[0].header.delete_horizon == NOW + DAY, "it stays, as in Kafka"


def test_a_tombstone_that_is_outdated_goes_at_once() -> None:
    assert text(cleaned(batch("a=1 a"), batch("a=2", 2))) == "2:a=2"


def test_a_retention_for_ever_needs_no_horizon() -> None:
    run = batch("a b=1")
    assert cleaned(run, delete_retention_ms=LONG_MAX).run == run


def test_a_batch_that_has_a_horizon_keeps_it_when_it_loses_records() -> None:
    run = batch("a b=1 c=1", delete_horizon=NOW + 5)
    (found, _) = batches(cleaned(run, batch("b=2", 3)))
    assert found.header.delete_horizon == NOW + 5
    assert [(r.offset, r.timestamp) for r in found.records] == [(0, TIME), (2, TIME + 2)]


def test_times_too_far_from_a_horizon_are_refused() -> None:
    run = encode_batch(NewBatch(records=[Record(offset=0, timestamp=-9, key=b"a", value=None)]))
    with pytest.raises(UnsupportedError, match="64 bits apart"):
        cleaned(run, now_ms=LONG_MAX - 1, delete_retention_ms=1)


@pytest.mark.parametrize(
    "wrong", [{"now_ms": -1}, {"now_ms": 1 << 63}, {"delete_retention_ms": -1}]
)
def test_times_before_zero_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="milliseconds"):
        CleaningRules(**{"now_ms": 0, **wrong})


# ----------------------------------------------------------------------------------- producers


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    mine = {"producer_id": 5, "producer_epoch": 1}
    run = (
        batch("a=1", base_sequence=3, **mine)
        + batch("a=2 b=2", 1, base_sequence=4, codec=Codec.ZSTD, leader_epoch=9, **mine)
        + batch("a=3 b=3", 3)
    )
    headers = [b.header for b in decode_batches(run)]

    found = batches(cleaned(run, producers=last_batches(headers)))

    empty = found[0].header
    assert len(found) == 2
    assert (empty.base_offset, empty.next_offset, empty.count, empty.size) == (
        1,
        3,
        0,
        HEADER_BYTES,
    )
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (5, 1, 5)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, TIME + 2)
    assert (empty.codec, empty.leader_epoch) == (Codec.NONE, 9)


def test_an_empty_batch_stays_as_long_as_its_producer() -> None:
    run = batch("a=1", producer_id=5, producer_epoch=0, base_sequence=0) + batch("a=2", 1)
    producers = {5: LastBatch(epoch=0, last_offset=0)}
    once = bytes(cleaned(run, producers=producers).run)

    assert cleaned(once, producers=producers).run == once
    assert text(cleaned(once)) == "1:a=2"
    assert cleaned(once).batches_kept == 1


def test_the_last_batch_of_all_stays_without_its_records() -> None:
    run = batch("a=1") + batch("_=1 _=2", 1)
    assert [b.header.next_offset for b in batches(cleaned(run, next_offset=3))] == [1, 3]
    assert [b.header.next_offset for b in batches(cleaned(run))] == [1]


def header(offset: int, producer: int, epoch: int, **more: Any) -> BatchHeader:
    is_control = more.get("is_control", False)
    told = rows("k=1", offset)
    return decode_header(
        encode_batch(
            NewBatch(
                records=told,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=-1 if is_control else 0,
                **more,
            )
        )
    )


def test_the_last_batch_of_a_producer_is_found() -> None:
    found = last_batches(
        [
            header(0, 1, 0),
            header(1, 2, 0),
            header(2, 1, 0),
            header(3, -1, -1),
            header(4, 1, 0, is_control=True),
            header(5, 3, 7, is_control=True),
            header(6, 2, 1, is_control=True),
        ]
    )
    assert found == {
        1: LastBatch(epoch=0, last_offset=2),
        2: LastBatch(epoch=1, last_offset=None),
        3: LastBatch(epoch=7, last_offset=None),
    }


def test_a_producer_that_has_not_come_for_long_is_forgotten() -> None:
    told = [header(0, 1, 0), header(9, 2, 0)]
    assert set(last_batches(told, active_since_ms=TIME + 9)) == {2}


# --------------------------------------------------------------------------------- transactions


def transaction(first: int, key: bytes = COMMIT, **more: Any) -> bytes:
    marker = Record(offset=first, timestamp=TIME, key=key, value=b"\0\0\0\0\0\0")
    return encode_batch(
        NewBatch(
            records=[marker], is_control=True, is_transactional=True,
            producer_id=8, producer_epoch=0, **more,
        )
    )  # fmt: skip


def part(told: str, first: int) -> bytes:
    return batch(
        told, first, is_transactional=True, producer_id=8, producer_epoch=0, base_sequence=0
    )


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_marker_stays_while_its_transaction_does_and_then_waits(kind: bytes) -> None:
    run = part("a=1", 0) + transaction(1, kind) + batch("a=2", 2)

    once = cleaned(run)
    assert once.run == transaction(1, kind) + batch("a=2", 2), "its records were here a moment ago"

    twice = cleaned(bytes(once.run))
    assert [b.header.delete_horizon for b in batches(twice)] == [NOW + DAY, None]
    assert (twice.next_horizon, twice.tombstones) == (NOW + DAY, 0)
    assert batches(twice)[0].records == batches(once)[0].records

    assert cleaned(bytes(twice.run), now_ms=NOW + DAY - 1).run == twice.run
    assert cleaned(bytes(twice.run), now_ms=NOW + DAY).run == batch("a=2", 2)


def test_the_last_marker_of_a_producer_stays_without_its_record() -> None:
    run = transaction(0, delete_horizon=NOW) + batch("a=2", 1)
    producers = {8: LastBatch(epoch=0, last_offset=None)}

    (empty, _) = batches(cleaned(run, producers=producers))

    assert (empty.header.is_control, empty.header.count) == (True, 0)
    assert cleaned(run, producers={8: LastBatch(epoch=1, last_offset=None)}).batches_kept == 1


def test_markers_of_other_kinds_stay() -> None:
    run = transaction(0, b"\0\0\0\2", delete_horizon=NOW) + transaction(1, b"?")
    assert cleaned(run).run == run


def test_a_transaction_may_reach_from_one_run_into_the_next() -> None:
    one, other = part("a=1", 0), transaction(1)
    cleaner = Cleaner(newest_of(one, other), CleaningRules(now_ms=NOW))

    assert [bytes(cleaner.clean(run).run) for run in (one, other)] == [one, other]
    assert clean(other, newest_of(one), CleaningRules(now_ms=NOW)).run != other

"""Laws of repacking, judged by the plain codec: whatever the batches are, the log stays the same.

What a log says is written out record by record, with everything that the header of a batch says of
each of its records: so a join that loses anything makes two logs differ. What headers say of
offsets without a record is compared beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Record, TimestampType
from lakelog.records import (
    CRC_START,
    HEADER_BYTES,
    Batch,
    BatchHeader,
    Codec,
    NewBatch,
    decode_batch,
    decode_batches,
    decode_header,
    encode_batch,
)
from lakelog.records.cleaning_rules import last_batches
from lakelog.records.repacking import Repacked, Repacker, Shape
from tests.shorthands import repack
from tests.strategies import headers, new_batches, nullable

TIME = 1_600_000_000_000
SEQUENCES = 1 << 31

EARLIEST = -(1 << 63)

times = st.integers(TIME, TIME + 3) | st.integers(-1, 1 << 61)
codecs = st.sampled_from(Codec)


# ------------------------------------------------------------------------------- what is drawn


@st.composite
def logs(draw: st.DrawFn, *, codec: Codec | None = None, sane: bool = False) -> list[bytes]:
    """Batches as they follow one another in a partition; many could be one, if all goes on.

    Most of what a header says is what the last one said, so that it is one thing that differs.
    """
    offset, found = draw(st.sampled_from([0, 7, 1 << 61])), []
    # The next sequence of a producer: near the end of all numbers, so that it wraps.
    sequence = draw(st.sampled_from([0, SEQUENCES - 3, SEQUENCES - 2, SEQUENCES - 1]))
    who = draw(st.sampled_from([-1, 1]))
    new = NewBatch(records=(), producer_id=who, producer_epoch=min(who, 0))
    for _ in range(draw(st.sampled_from([0, 1, 3, 5, 8]))):
        new = draw(st.sampled_from([new, new, new, _kind(draw, new)]))
        gap = draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2, SEQUENCES - 9]))
        first = offset = offset + gap
        rows = _rows(draw, new, offset, sane=sane)
        offset = rows[-1].offset + 1 if rows else offset + 1
        offset += draw(st.sampled_from([0, 0, 2]))
        if draw(st.sampled_from([False] * 7 + [True])):
            sequence = draw(st.integers(0, SEQUENCES - 1))
        has_sequence = new.producer_id >= 0 and not new.is_control
        found.append(
            encode_batch(
                replace(
                    new,
                    records=rows,
                    base_offset=first,
                    next_offset=offset,
                    codec=draw(codecs) if codec is None else codec,
                    delete_horizon=new.delete_horizon if rows else None,
                    base_sequence=sequence if has_sequence else -1,
                )
            )
        )
        sequence = (sequence + offset - first) % SEQUENCES
    return found


def _kind(draw: st.DrawFn, last: NewBatch) -> NewBatch:
    """Change one thing that a header says."""
    match draw(st.integers(0, 6)):
        case 0:
            who = draw(st.sampled_from([-1, 1, 2]))
            return replace(last, producer_id=who, producer_epoch=min(who, 0))
        case 1:
            epoch = draw(st.integers(0, 1)) if last.producer_id >= 0 else -1
            return replace(last, producer_epoch=epoch)
        case 2:
            return replace(last, leader_epoch=draw(st.integers(0, 1)))
        case 3:
            return replace(last, timestamp_type=draw(st.sampled_from(TimestampType)))
        case 4:
            return replace(last, is_transactional=draw(st.booleans()))
        case 5:
            return replace(last, is_control=draw(st.booleans()) and not last.is_control)
        case _:
            horizon = draw(st.none() | st.integers(TIME, TIME + 1))
            return replace(last, delete_horizon=horizon)


def _rows(draw: st.DrawFn, new: NewBatch, offset: int, *, sane: bool) -> list[Record]:
    rows = []
    is_append_time = new.timestamp_type is TimestampType.LOG_APPEND_TIME
    at = TIME + draw(st.integers(0, 1)) if is_append_time else None
    if not sane and at is None and new.delete_horizon is None and draw(st.integers(0, 9)) == 7:
        at = EARLIEST + draw(st.integers(0, 1))  # Further from all others than 64 bits can say.
    for _ in range(draw(st.sampled_from([1, 1, 2, 2, 3, 4, 1, 2, 0]))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 5]))
        time = at if at is not None else draw(times)
        found = Record(
            offset=offset,
            timestamp=time,
            key=draw(nullable),
            value=draw(nullable),
            headers=draw(headers),
        )
        rows.append(found)
        offset += 1
    return rows


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Mostly with room for everything; else one limit is tight, down to where nothing fits."""
    codec = draw(st.just(Codec.NONE) | codecs)
    match draw(st.integers(0, 5)):
        case 0:
            return Shape(codec=codec, batch_bytes_max=draw(st.integers(0, 900)))
        case 1:
            return Shape(codec=codec, records_bytes=draw(st.integers(0, 900)))
        case 2:
            return Shape(codec=codec, records_max=draw(st.integers(0, 12)))
        case _:
            return Shape(codec=codec)


# ----------------------------------------------------------------------------- what a log says


class Said(NamedTuple):
    """A record, and all that its batch says of it."""

    record: Record
    timestamp_type: TimestampType
    leader_epoch: int
    producer: tuple[int, int]
    sequence: int
    is_transactional: bool
    is_control: bool
    horizon: int | None


def said(batches: Sequence[Batch]) -> list[Said]:
    return [
        Said(
            record,
            header.timestamp_type,
            header.leader_epoch,
            (header.producer_id, header.producer_epoch),
            _sequence(header, record.offset),
            header.is_transactional,
            header.is_control,
            header.delete_horizon,
        )
        for header, records in ((batch.header, batch.records) for batch in batches)
        for record in records
    ]


def _sequence(header: BatchHeader, offset: int) -> int:
    if header.base_sequence < 0:
        return header.base_sequence
    return (header.base_sequence + offset - header.base_offset) % SEQUENCES


def covered(batches: Sequence[Batch]) -> list[list[int]]:
    """The offsets that batches of producers stand for, with or without records."""
    found: list[list[int]] = []
    for header in (batch.header for batch in batches if batch.header.producer_id >= 0):
        if found and found[-1][1] == header.base_offset:
            found[-1][1] = header.next_offset
        else:
            found.append([header.base_offset, header.next_offset])
    return found


def packs(before: Sequence[Batch], after: Sequence[Batch]) -> list[tuple[Batch, list[Batch]]]:
    """Each batch that is there now, with those that it was made of."""
    left, found = [*before], []
    for batch in after:
        some = []
        while left and left[0].header.base_offset < batch.header.next_offset:
            some.append(left.pop(0))
        found.append((batch, some))
    assert not left
    return found


def could_be_one(one: Batch, two: Batch) -> bool:
    """The rule, in plain words on what two batches say."""
    a, b = one.header, two.header
    if a.is_control or b.is_control or not one.records or not two.records:
        return False
    first, second = said([one])[-1], said([two])[0]
    if first[1:4] != second[1:4] or first[5:] != second[5:]:
        return False
    if a.timestamp_type is TimestampType.LOG_APPEND_TIME and a.max_timestamp != b.max_timestamp:
        return False
    if a.producer_id < 0:
        return not a.is_transactional
    no_gap = a.next_offset == b.base_offset
    return no_gap and (a.base_sequence + a.last_offset_delta + 1) % SEQUENCES == b.base_sequence


def opened(run: bytes) -> list[Batch]:
    return list(decode_batches(run))


def body_size(batch: Batch) -> int:
    """Bytes of the records of a batch before they are compressed."""
    header = batch.header
    plain = NewBatch(
        records=batch.records,
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        delete_horizon=header.base_timestamp,
    )
    return len(encode_batch(plain)) - HEADER_BYTES


# --------------------------------------------------------------------------------------- laws


@given(logs(), shapes())
def test_a_log_says_the_same_of_every_record(log: list[bytes], shape: Shape) -> None:
    before, after = opened(b"".join(log)), opened(repack(b"".join(log), shape).run)

    assert said(after) == said(before)
    assert covered(after) == covered(before)
    assert last_batches(b.header for b in after) == last_batches(b.header for b in before)


@given(new_batches(), shapes())
def test_a_batch_of_any_kind_says_the_same(new: NewBatch, shape: Shape) -> None:
    log = encode_batch(new)
    before, after = opened(log), opened(repack(log, shape).run)

    assert said(after) == said(before)
    assert [b.header._replace(length=0, crc=0, attributes=0) for b in after] == [
        b.header._replace(length=0, crc=0, attributes=0) for b in before
    ]


@given(logs(), shapes())
def test_a_header_is_made_of_those_it_replaces(log: list[bytes], shape: Shape) -> None:
    before, after = opened(b"".join(log)), opened(repack(b"".join(log), shape).run)

    for batch, some in packs(before, after):
        header, olds = batch.header, [one.header for one in some]
        assert header.base_offset == olds[0].base_offset
        assert header.next_offset == olds[-1].next_offset
        assert header.base_timestamp == olds[0].base_timestamp
        assert header.max_timestamp == max(old.max_timestamp for old in olds)
        assert header.base_sequence == olds[0].base_sequence
        assert header.last_sequence == olds[-1].last_sequence
        assert header.count == sum(old.count for old in olds)
        assert all(could_be_one(one, two) for one, two in pairwise(some))


@given(logs(), shapes())
def test_repacking_twice_is_repacking_once(log: list[bytes], shape: Shape) -> None:
    repacker = Repacker(shape)
    once = repacker.repack(b"".join(log))
    twice = repacker.repack(once.run)

    assert twice.run == once.run
    assert twice.batches_read == twice.batches_made == once.batches_made
    assert repack(b"".join(log), shape) == once, "what was repacked before leaves nothing behind"


@given(logs(), shapes())
def test_markers_and_batches_without_records_keep_their_bytes(
    log: list[bytes], shape: Shape
) -> None:
    made = repack(b"".join(log), shape).run

    assert fixed(cut(made)) == fixed(log)


def fixed(log: Sequence[bytes]) -> list[bytes]:
    found = ((decode_header(batch), batch) for batch in log)
    return [batch for header, batch in found if header.is_control or not header.count]


def cut(run: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(run):
        size = decode_header(run, at).size
        found.append(run[at : at + size])
        at += size
    return found


@given(logs(sane=True), codecs)
def test_whatever_can_be_one_batch_is_one(log: list[bytes], codec: Codec) -> None:
    """Where there is room for all, and it is not larger than what was there."""
    before = opened(b"".join(log))
    made = repack(b"".join(log), Shape(codec=codec)).run

    for (one, olds), (two, others) in pairwise(packs(before, opened(made))):
        far = others[-1].header.next_offset - olds[0].header.base_offset > 1 << 31
        kept = len(olds) == 1 and codec is not Codec.NONE and one.header == olds[0].header
        assert kept or far or not could_be_one(one, two), (one, two)


@given(logs())
def test_what_is_to_be_plain_is_plain(log: list[bytes]) -> None:
    made = repack(b"".join(log), Shape(codec=Codec.NONE)).run

    data = [b.header for b in opened(made) if b.records and not b.header.is_control]
    assert {header.codec for header in data} <= {Codec.NONE}


@given(logs(), shapes())
def test_compressing_makes_nothing_larger_and_nothing_too_large(
    log: list[bytes], shape: Shape
) -> None:
    before, after = opened(b"".join(log)), opened(repack(b"".join(log), shape).run)

    for batch, some in packs(before, after):
        if batch.header == some[0].header:
            continue
        assert batch.header.codec is shape.codec
        assert batch.header.size <= shape.batch_bytes_max
        if shape.codec:
            assert batch.header.size <= sum(one.header.size for one in some)
        if len(some) > 1:
            assert batch.header.count <= shape.records_max
            assert body_size(batch) <= shape.records_bytes


@given(logs(), shapes())
def test_what_has_half_the_size_is_left_alone(log: list[bytes], shape: Shape) -> None:
    before, after = opened(b"".join(log)), opened(repack(b"".join(log), shape).run)

    for _, some in packs(before, after):
        if len(some) > 1:
            assert all(2 * one.header.count < shape.records_max for one in some)
            assert all(2 * body_size(one) < shape.records_bytes for one in some)


@given(logs(), shapes())
def test_the_counts_are_right(log: list[bytes], shape: Shape) -> None:
    found = repack(b"".join(log), shape)

    after = opened(found.run)
    assert found == Repacked(
        run=found.run,
        bytes_read=len(b"".join(log)),
        batches_read=len(log),
        batches_made=len(after),
        batches_left=0,
        records=sum(len(batch.records) for batch in after),
    )


# ------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY], ids=["none", "snappy"])
@given(st.data())
def test_what_the_plain_codec_refuses_keeps_its_bytes(codec: Codec, data: st.DataObject) -> None:
    """Behind a good checksum: a producer signs what it likes."""
    log = [bytearray(batch) for batch in data.draw(logs(codec=codec))]
    for batch in log:
        if len(batch) > HEADER_BYTES and data.draw(st.booleans()):
            at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
            batch[at] = data.draw(st.integers(0, 255))
            if data.draw(st.integers(0, 3)):
                batch[CRC_START - 4 : CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")
    sound = [bytes(batch) for batch in log if is_sound(batch)]
    bad = [bytes(batch) for batch in log if not is_sound(batch)]

    found = repack(b"".join(log), data.draw(shapes()))

    made = cut(found.run)
    assert [batch for batch in made if not is_sound(batch)] == bad
    good = b"".join(batch for batch in made if is_sound(batch))
    assert said(opened(good)) == said(opened(b"".join(sound)))
    assert found.batches_left <= len(bad)


def is_sound(batch: bytes | bytearray) -> bool:
    try:
        decode_batch(batch)
    except (CorruptError, UnsupportedError):
        return False
    return True


@given(logs(), shapes(), st.data())
def test_what_is_no_run_of_batches_is_refused(
    log: list[bytes], shape: Shape, data: st.DataObject
) -> None:
    run = b"".join(log)
    ends = {0}
    for batch in log:
        ends.add(max(ends) + len(batch))
    length = data.draw(st.integers(0, len(run)))
    if length in ends:
        repack(run[:length], shape)
        return
    with pytest.raises((CorruptError, UnsupportedError)):
        repack(run[:length], shape)

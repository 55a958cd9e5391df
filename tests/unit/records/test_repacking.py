"""Stories of repacking: which batches become one, and what is left as it is."""

import pickle
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.model import Header, Record, TimestampType
from lakelog.records import (
    HEADER_BYTES,
    Batch,
    Codec,
    NewBatch,
    decode_batches,
    decode_header,
    encode_batch,
    encode_varint,
)
from lakelog.records.kernels.repack import move_records
from lakelog.records.repacking import Repacked, Repacker, Shape
from tests.shorthands import repack

TIME = 1_700_000_000_000
SEQUENCES = 1 << 31
ZSTD = Shape(codec=Codec.ZSTD)
PLAIN = Shape(codec=Codec.NONE)


def rows(first: int, count: int = 2, *, time: int = TIME, size: int = 40) -> list[Record]:
    return [
        Record(
            offset=offset,
            timestamp=time + offset,
            key=b"key %d" % offset,
            value=b"a value of some length "[: size % 24] + b"v" * (size - size % 24),
            headers=(Header("trace", b"%d" % offset), Header("none", None)),
        )
        for offset in range(first, first + count)
    ]


def batch(first: int, count: int = 2, **more: Any) -> bytes:
    return encode_batch(NewBatch(records=rows(first, count), **more))


def noisy(first: int, size: int = 200) -> bytes:
    """A batch that does not compress."""
    noise = b"".join(crc32c(b"%d %d" % (first, at)).to_bytes(4, "big") for at in range(size // 4))
    one = Record(offset=first, timestamp=TIME, key=None, value=noise)
    return encode_batch(NewBatch(records=[one]))


def opened(found: Repacked) -> list[Batch]:
    return list(decode_batches(found.run))


def bounds(found: Repacked) -> list[tuple[int, int]]:
    return [(one.header.base_offset, one.header.next_offset) for one in opened(found)]


# ------------------------------------------------------------------------------------ joining


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_many_small_batches_become_one_under_the_codec(codec: Codec) -> None:
    log = [batch(2 * number, codec=Codec(number % 5)) for number in range(50)]

    found = repack(b"".join(log), Shape(codec=codec))

    (one,) = opened(found)
    assert one.records == tuple(rows(0, 100))
    assert one.header.codec is codec
    assert (one.header.base_timestamp, one.header.max_timestamp) == (TIME, TIME + 99)
    assert (found.batches_read, found.batches_made, found.records) == (50, 1, 100)


def test_a_batch_may_reach_over_gaps_if_nobody_counts_sequences() -> None:
    found = repack(batch(0) + batch(1000) + batch(SEQUENCES - 2), ZSTD)

    assert bounds(found) == [(0, SEQUENCES)]
    assert [r.offset for r in opened(found)[0].records] == [
        0, 1, 1000, 1001, SEQUENCES - 2, SEQUENCES - 1,
    ]  # fmt: skip


def test_offsets_that_do_not_fit_a_batch_begin_another() -> None:
    found = repack(batch(0) + batch(SEQUENCES - 1) + batch(SEQUENCES + 1), ZSTD)

    assert bounds(found) == [(0, 2), (SEQUENCES - 1, SEQUENCES + 3)]


def test_sequences_go_on_also_where_they_wrap() -> None:
    who: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3}
    log = [
        batch(10, base_sequence=SEQUENCES - 3, **who),
        batch(12, base_sequence=SEQUENCES - 1, **who),
        batch(14, base_sequence=1, **who),
    ]

    (one,) = opened(repack(b"".join(log), ZSTD))

    header = one.header
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert (header.base_sequence, header.last_sequence) == (SEQUENCES - 3, 2)
    assert (header.base_offset, header.next_offset) == (10, 16)


def test_sequences_go_on_where_a_batch_ends_with_the_last_of_all() -> None:
    who: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3}

    found = repack(
        batch(0, base_sequence=SEQUENCES - 2, **who) + batch(2, base_sequence=0, **who), ZSTD
    )

    (one,) = opened(found)
    assert (one.header.base_sequence, one.header.last_sequence) == (SEQUENCES - 2, 1)


def test_what_was_compacted_keeps_the_offsets_of_its_batch() -> None:
    who: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3}
    log = [
        batch(2, base_offset=0, next_offset=9, base_sequence=100, **who),
        batch(12, base_offset=9, next_offset=20, base_sequence=109, **who),
    ]

    (one,) = opened(repack(b"".join(log), ZSTD))

    assert [record.offset for record in one.records] == [2, 3, 12, 13]
    assert (one.header.base_offset, one.header.next_offset) == (0, 20)
    assert (one.header.base_sequence, one.header.last_sequence) == (100, 119)


PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 10}
NEXT = {**PRODUCER, "base_sequence": 12}
APPEND_TIME: dict[str, Any] = {"timestamp_type": TimestampType.LOG_APPEND_TIME}


@pytest.mark.parametrize(
    ("one", "two", "gap"),
    [
        pytest.param({}, PRODUCER, 0, id="a producer behind none"),
        pytest.param(PRODUCER, {}, 0, id="none behind a producer"),
        pytest.param(PRODUCER, {**NEXT, "producer_id": 8}, 0, id="another producer"),
        pytest.param(PRODUCER, {**NEXT, "producer_epoch": 4}, 0, id="another epoch"),
        pytest.param(PRODUCER, {**PRODUCER, "base_sequence": 13}, 0, id="a sequence left out"),
        pytest.param(PRODUCER, {**PRODUCER, "base_sequence": 11}, 0, id="a sequence said twice"),
        pytest.param(PRODUCER, NEXT, 1, id="an offset left out"),
        pytest.param(
            {**PRODUCER, "base_sequence": -1}, {**PRODUCER, "base_sequence": 0}, 0,
            id="a producer without a sequence",
        ),
        pytest.param({"base_sequence": 5}, {"base_sequence": 5}, 0, id="sequences of nobody"),
        pytest.param({"leader_epoch": 1}, {"leader_epoch": 2}, 0, id="leader epoch"),
        pytest.param({"is_transactional": True}, {"is_transactional": True}, 0, id="whose?"),
        pytest.param(
            PRODUCER, {**NEXT, "is_transactional": True}, 0, id="in a transaction and not"
        ),
        pytest.param({"is_control": True}, {"is_control": True}, 0, id="markers"),
        pytest.param({}, {"delete_horizon": TIME}, 0, id="a horizon and none"),
        pytest.param(
            {"delete_horizon": TIME}, {"delete_horizon": TIME + 1}, 0, id="other horizons"
        ),
    ],
)  # fmt: skip
def test_what_one_header_cannot_say_stays_two(
    one: dict[str, Any], two: dict[str, Any], gap: int
) -> None:
    log = batch(0, **one) + batch(2 + gap, **two)

    found = repack(log, PLAIN)

    assert found.run == log
    assert found.batches_made == 2


def appended(first: int, time: int) -> bytes:
    found = [
        Record(offset=row.offset, timestamp=time, key=row.key, value=row.value)
        for row in rows(first)
    ]
    return encode_batch(NewBatch(records=found, **APPEND_TIME))


def test_batches_appended_at_the_same_time_become_one_and_others_do_not() -> None:
    log = [appended(0, TIME), appended(2, TIME), appended(4, TIME + 1), batch(6)]

    found = repack(b"".join(log), ZSTD)

    assert bounds(found) == [(0, 4), (4, 6), (6, 8)]
    first, second, _ = opened(found)
    assert {record.timestamp for record in first.records} == {TIME}
    assert {record.timestamp for record in second.records} == {TIME + 1}
    assert first.header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_whose_time_it_is_keeps_batches_apart_also_at_the_same_time() -> None:
    log = [appended(0, TIME + 3), batch(2), appended(4, TIME + 3)]
    assert {decode_header(one).max_timestamp for one in log} == {TIME + 3}

    assert repack(b"".join(log), PLAIN).run == b"".join(log)


def test_one_horizon_stays_and_so_do_times() -> None:
    log = [batch(0, delete_horizon=TIME + 5), batch(2, delete_horizon=TIME + 5)]

    (one,) = opened(repack(b"".join(log), ZSTD))

    assert one.header.delete_horizon == TIME + 5
    assert one.records == tuple(rows(0, 4))


def test_a_transaction_of_one_producer_becomes_one_batch_and_ends_at_its_marker() -> None:
    who: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "is_transactional": True}
    marker = [Record(offset=4, timestamp=TIME, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")]
    end = encode_batch(NewBatch(records=marker, is_control=True, **who))
    log = [
        batch(0, base_sequence=0, **who), batch(2, base_sequence=2, **who), end,
        batch(5, base_sequence=4, **who), batch(7, base_sequence=6, **who),
    ]  # fmt: skip

    found = repack(b"".join(log), ZSTD)

    assert bounds(found) == [(0, 4), (4, 5), (5, 9)]
    assert all(one.header.is_transactional for one in opened(found))
    assert end in found.run


def test_a_batch_without_records_stays_and_parts_its_neighbours() -> None:
    empty = encode_batch(NewBatch(records=[], base_offset=2, next_offset=4))

    found = repack(batch(0) + empty + batch(4), PLAIN)

    assert found.run == batch(0) + empty + batch(4)


def test_a_batch_without_records_stays_whatever_codec_it_names() -> None:
    empty = bytearray(encode_batch(NewBatch(records=[], base_offset=2, next_offset=4)))
    empty[22] |= Codec.GZIP
    empty[17:21] = crc32c(empty[21:]).to_bytes(4, "big")

    for shape in (PLAIN, ZSTD):
        found = repack(bytes(empty), shape)
        assert (found.run, found.batches_made, found.batches_left) == (bytes(empty), 1, 0)


def test_the_newest_time_is_that_of_all_also_if_times_fall() -> None:
    late, early = rows(0, time=TIME + 50), rows(2, time=TIME - 50)
    log = encode_batch(NewBatch(records=late)) + encode_batch(NewBatch(records=early))

    (one,) = opened(repack(log, ZSTD))

    assert one.records == (*late, *early)
    assert (one.header.base_timestamp, one.header.max_timestamp) == (TIME + 50, TIME + 51)


def test_times_too_far_apart_for_one_batch_stay_apart() -> None:
    early = encode_batch(NewBatch(records=rows(0, time=-(1 << 63))))

    found = repack(early + batch(2) + batch(4), ZSTD)

    assert bounds(found) == [(0, 2), (2, 6)]
    assert [r for one in opened(found) for r in one.records] == [
        *rows(0, time=-(1 << 63)), *rows(2, 4),
    ]  # fmt: skip


def test_what_a_record_says_in_unusual_ways_is_kept() -> None:
    """Attributes that nobody uses, varints that are longer than they need to be."""
    record = b"\x55" + encode_varint(3) + encode_varint(0) + b"\x82\x00k" + b"\x01" + b"\x80\x00"
    body = encode_varint(len(record)) + record
    head = bytearray(batch(0, 1)[:HEADER_BYTES])
    head[8:12] = (HEADER_BYTES - 12 + len(body)).to_bytes(4, "big")
    odd = bytearray(bytes(head) + body)
    odd[17:21] = crc32c(odd[21:]).to_bytes(4, "big")
    assert decode_header(odd).base_timestamp == TIME

    found = repack(batch(0) + bytes(odd[:7]) + b"\x02" + bytes(odd[8:]), PLAIN)

    (one,) = opened(found)
    assert one.records[2] == Record(offset=2, timestamp=TIME + 3, key=b"k", value=None)
    moved = b"\x55" + encode_varint(3) + encode_varint(2) + record[3:]
    assert found.run.endswith(encode_varint(len(moved)) + moved)


def test_times_of_the_producer_stay_behind_the_time_of_the_append() -> None:
    """Nobody sees them, and nobody has asked to lose them."""
    log = []
    for first in (0, 2):
        made = bytearray(batch(first))
        made[22] |= 0x08
        made[35:43] = (TIME + 999).to_bytes(8, "big")
        made[17:21] = crc32c(made[21:]).to_bytes(4, "big")
        log.append(bytes(made))

    made = bytearray(repack(b"".join(log), PLAIN).run)
    (one,) = decode_batches(bytes(made))
    assert {record.timestamp for record in one.records} == {TIME + 999}

    made[22] &= ~0x08
    made[17:21] = crc32c(made[21:]).to_bytes(4, "big")
    (one,) = decode_batches(bytes(made))
    assert one.records == tuple(rows(0, 4))


# -------------------------------------------------------------------------------------- sizes


def test_batches_are_filled_up_to_the_size_and_no_further() -> None:
    log = [batch(10 * number, 10) for number in range(100)]
    size = len(log[50]) - HEADER_BYTES
    shape = Shape(codec=Codec.NONE, records_bytes=10 * size + size // 2)

    found = repack(b"".join(log), shape)

    sizes = [one.header.size - HEADER_BYTES for one in opened(found)]
    assert max(sizes) <= shape.records_bytes
    assert min(sizes[:-1]) >= shape.records_bytes - 2 * size


def test_batches_are_filled_up_to_the_count_and_no_further() -> None:
    log = [batch(10 * number, 10) for number in range(10)]

    found = repack(b"".join(log), Shape(codec=Codec.ZSTD, records_max=45))

    assert [one.header.count for one in opened(found)] == [40, 40, 20]


def test_what_has_half_the_size_or_the_count_is_left_alone() -> None:
    large, small = batch(2, 100), batch(102)
    half = 2 * (len(large) - HEADER_BYTES)

    for shape in (
        Shape(codec=Codec.NONE, records_bytes=half),
        Shape(codec=Codec.NONE, records_max=200),
    ):
        found = repack(batch(0) + large + small + batch(104), shape)
        assert bounds(found) == [(0, 2), (2, 102), (102, 106)]
        assert large in found.run


def test_what_is_large_is_found_so_behind_another_codec_as_well() -> None:
    squeezed = batch(2, 100, codec=Codec.ZSTD)
    shape = Shape(codec=Codec.ZSTD, records_bytes=2 * (len(batch(2, 100)) - HEADER_BYTES))

    found = repack(batch(0, codec=Codec.ZSTD) + squeezed + batch(102), shape)

    assert bounds(found) == [(0, 2), (2, 102), (102, 104)]
    assert squeezed in found.run


def test_a_batch_that_is_done_is_not_even_opened() -> None:
    """It costs nothing, and so a second merge costs little: these bytes are no zstd."""
    broken = bytearray(batch(0, codec=Codec.ZSTD))
    broken[-9:] = bytes(9)

    found = repack(bytes(broken), ZSTD)

    assert (found.run, found.batches_left) == (bytes(broken), 0)


def test_a_batch_alone_is_compressed_anew_if_that_helps() -> None:
    for codec in Codec:
        found = repack(batch(0, 100, codec=codec), ZSTD)
        assert opened(found)[0].records == tuple(rows(0, 100))
        assert found.run == batch(0, 100, codec=Codec.ZSTD)


def test_what_would_become_larger_stays_as_it_is() -> None:
    assert repack(noisy(0), ZSTD).run == noisy(0)
    squeezed = batch(0, 200, codec=Codec.ZSTD)
    assert repack(squeezed, Shape(codec=Codec.LZ4)).run == squeezed


def test_who_asks_for_no_compression_is_given_more_bytes() -> None:
    found = repack(batch(0, 100, codec=Codec.GZIP) + batch(100, 100, codec=Codec.ZSTD), PLAIN)

    (one,) = opened(found)
    assert one.header.codec is Codec.NONE
    assert one.records == tuple(rows(0, 200))


def test_no_batch_becomes_larger_than_the_topic_allows() -> None:
    """Also what does not compress is joined, up to that size."""
    log = b"".join(noisy(number) for number in range(40))

    for codec in Codec:
        shape = Shape(codec=codec, batch_bytes_max=2000)
        found = repack(log, shape)
        sizes = [one.header.size for one in opened(found)]
        assert max(sizes) <= 2000
        assert 5 <= len(sizes) <= 7


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_what_compressing_adds_to_noise_has_room(codec: Codec) -> None:
    """Else a batch that is just full would be too large, and nothing would be joined at all."""
    log = [noisy(number, 2000) for number in range(40)]
    full = len(repack(b"".join(log[:8]), PLAIN).run)

    found = repack(b"".join(log), Shape(codec=codec, batch_bytes_max=full + 2))

    assert found.batches_made == (5 if codec is Codec.NONE else 6)


def test_what_would_be_too_large_without_its_codec_keeps_it() -> None:
    squeezed = batch(0, 200, codec=Codec.ZSTD)

    found = repack(squeezed, Shape(codec=Codec.NONE, batch_bytes_max=2000))

    assert found.run == squeezed


def test_the_defaults_fit_the_default_of_a_topic() -> None:
    log = b"".join(noisy(number, 4000) for number in range(600))

    for codec in (Codec.NONE, Codec.SNAPPY, Codec.LZ4):
        sizes = [one.header.size for one in opened(repack(log, Shape(codec=codec)))]
        assert len(sizes) == 3
        assert max(sizes) <= 1_048_588


def test_a_level_is_taken() -> None:
    log = b"".join(batch(20 * number, 20) for number in range(40))

    sizes = [len(repack(log, Shape(codec=Codec.ZSTD, level=level)).run) for level in (-50, 19)]

    assert sizes[1] < sizes[0]


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="use 0 or more"):
        Shape(codec=Codec.NONE, records_max=-1)


def test_a_shape_can_travel() -> None:
    assert pickle.loads(pickle.dumps(ZSTD)) == ZSTD


# -------------------------------------------------------------------------------- what is bad


def test_what_cannot_be_read_is_left_and_parts_its_neighbours() -> None:
    bad = bytearray(batch(4))
    bad[-1] ^= 1

    found = repack(b"".join([batch(0), batch(2), bytes(bad), batch(6), batch(8)]), ZSTD)

    assert found.batches_left == 1
    assert found.batches_made == 3
    assert bytes(bad) in found.run


def test_a_batch_that_holds_too_much_is_left_as_it_is() -> None:
    """A kilobyte can say that it is a terabyte."""
    bomb = encode_batch(
        NewBatch(
            records=[Record(offset=2, timestamp=TIME, key=None, value=bytes(1 << 20))],
            codec=Codec.GZIP,
        )
    )
    log = batch(0) + bomb + batch(3)

    found = repack(log, Shape(codec=Codec.ZSTD, decompressed_bytes_max=1 << 19))

    assert bomb in found.run
    assert (found.batches_left, found.batches_made) == (1, 3)
    # One that may be opened is compressed anew.
    assert repack(log, ZSTD).batches_left == 0
    assert bomb not in repack(log, ZSTD).run


def test_what_is_no_batch_is_refused() -> None:
    log = batch(0) + batch(2)
    with pytest.raises(CorruptError, match="bytes left"):
        repack(log + log[:60], ZSTD)
    with pytest.raises(CorruptError, match="a batch of"):
        repack(log[:-1], ZSTD)
    with pytest.raises(UnsupportedError, match="magic") as caught:
        repack(log + log[:16] + b"\3" + log[17:], ZSTD, where="it")
    assert (caught.value.at, caught.value.where) == (len(log) + 16, "it")


def test_batches_that_overlap_are_not_joined() -> None:
    log = batch(0, 10) + batch(5)
    assert repack(log, PLAIN).run == log


def test_a_repacker_may_be_used_again() -> None:
    repacker, log = Repacker(ZSTD), batch(0) + batch(2)
    assert repacker.repack(log) == repacker.repack(log) == repack(log, ZSTD)
    assert repacker.repack(b"").run == b""


def test_the_kernel_writes_nothing_behind_its_limit() -> None:
    """Whatever the limit: it fits, or it is refused, and not a byte more is touched."""
    body = encode_batch(
        NewBatch(
            records=[
                Record(offset=at, timestamp=at * 1000, key=b"k" * at, value=b"v" * 60)
                for at in range(4)
            ]
        )
    )
    records = np.frombuffer(body, np.uint8)[HEADER_BYTES:]
    room = len(records) + 64
    needed = -1
    for limit in range(room):
        out = np.full(room, 0xAA, np.uint8)
        # Far from its base: deltas and lengths take more bytes than before.
        end = move_records(records, 4, 0, -(1 << 40), 1 << 20, out.ctypes.data, 0, limit)
        assert (out[limit:] == 0xAA).all(), limit
        assert end == -1 or end <= limit
        if end >= 0 and needed < 0:
            needed = end
            assert limit == needed, "it fits, and was refused"
    assert needed > len(records)

"""The map of compaction: what it notes, what it passes over, and what it says when it is full."""

import pickle
from collections.abc import Iterable

import pytest

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.records.offset_map import BYTES_PER_KEY, OffsetMap

PRIME = (1 << 61) - 1


def batch_of(
    keys: Iterable[bytes | None],
    *,
    first: int = 0,
    value: bytes | None = b"v",
    codec: Codec = Codec.NONE,
    is_control: bool = False,
) -> bytes:
    records = [
        Record(offset=first + i, timestamp=0, key=key, value=value) for i, key in enumerate(keys)
    ]
    return encode_batch(NewBatch(records=records, codec=codec, is_control=is_control))


def make(memory_bytes: int = 1 << 16, seed: int = 1) -> OffsetMap:
    return OffsetMap(memory_bytes, seed=seed)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_the_newest_offset_of_a_key_is_noted(codec: Codec) -> None:
    newest = make()

    noted = newest.note(batch_of([b"a", b"b", b"a", b""], first=5, codec=codec))

    assert (noted.records, noted.is_full) == (4, False)
    assert [newest.get(key) for key in (b"a", b"b", b"", b"c")] == [7, 6, 8, None]
    assert (len(newest), newest.end) == (3, 9)


def test_control_batches_and_records_without_a_key_are_passed_over() -> None:
    newest = make()

    noted = newest.note(
        batch_of([None, b"a", None]) + batch_of([b"\0\0\0\1"], first=3, is_control=True)
    )

    assert (noted.records, len(newest), newest.end) == (1, 1, 4)
    assert newest.get(b"\0\0\0\1") is None


def test_records_before_the_dirty_part_are_passed_over() -> None:
    newest = make()
    newest.note(batch_of([b"a", b"b", b"c"]), offset_from=1)
    assert [newest.get(key) for key in (b"a", b"b", b"c")] == [None, 1, 2]


def test_keys_that_are_nearly_the_same_are_not_the_same() -> None:
    """Zeros at the end, lengths around the words of the hash, the last byte of the buffer."""
    keys = [bytes(n) for n in range(40)] + [bytes([1]) + bytes(n) for n in range(40)]
    keys += [bytes(n) + bytes([1]) for n in range(1, 40)] + [b"%d" % n for n in range(10_000)]
    newest = make(1 << 20)
    for offset, key in enumerate(keys):
        newest.note(batch_of([key], first=offset, value=None))

    assert len(newest) == len(keys) == len(set(keys))
    assert [newest.get(key) for key in keys] == list(range(len(keys)))


def test_a_hash_is_a_polynomial_of_the_key_at_two_secret_points() -> None:
    newest = make(seed=12345)
    points = newest.numbers[:2].tolist()
    for key in (b"", b"a", b"seven b", b"eight by", b"\xff" * 14, bytes(range(200))):
        newest = make(seed=12345)
        newest.note(batch_of([key]))
        words = [int.from_bytes(key[i : i + 7], "little") for i in range(0, len(key), 7)]
        expected = []
        for point in points:
            total = len(key)
            for word in words:
                total = (total * point + word) % PRIME
            expected.append(total)
        assert newest.filled().tolist() == [[*expected, 1]]


def test_other_seeds_have_other_points() -> None:
    points = {point for seed in range(100) for point in make(64, seed).numbers[:2].tolist()}
    assert len(points) == 200
    assert min(points) > 1 << 50, "small seeds must not make small points"


def test_a_full_map_says_how_far_it_came() -> None:
    newest = make(256)
    assert newest.room == 7
    keys = [b"%d" % n for n in range(20)]

    noted = newest.note(batch_of([*keys[:7], keys[0], *keys[7:]], first=100))

    assert noted.is_full
    assert newest.is_full
    assert (noted.records, len(newest)) == (8, 7), "keys that are there need no room"
    assert newest.end == 108, "everything before the first key that did not fit"
    assert newest.get(keys[0]) == 107


def test_a_full_map_takes_nothing_more() -> None:
    newest = make(256)
    newest.note(batch_of(b"%d" % n for n in range(8)))

    noted = newest.note(batch_of([b"0"], first=8))
    newest.advance(99)

    assert (noted.records, noted.is_full, newest.end, newest.get(b"0")) == (0, True, 7, 0)


def test_a_full_map_stays_full_when_it_travels() -> None:
    newest = make(256)
    newest.note(batch_of(b"%d" % n for n in range(8)))

    copy = pickle.loads(pickle.dumps(newest))

    assert (copy.is_full, copy.end, len(copy), copy.room) == (True, 7, 7, 7)
    assert [copy.get(b"%d" % n) for n in range(8)] == [*range(7), None]


def test_a_key_takes_32_bytes_of_memory_and_24_on_the_way() -> None:
    newest = make(1 << 20)
    newest.note(batch_of(b"key number %d" % n for n in range(10_000)))

    assert BYTES_PER_KEY == 32
    assert newest.room == (1 << 20) // BYTES_PER_KEY - 1
    assert len(pickle.dumps(newest)) < 24 * 10_000 + 300


def test_an_offset_may_be_the_last_there_is() -> None:
    newest = make()
    newest.note(batch_of([b"a"], first=(1 << 63) - 3))
    assert newest.get(b"a") == (1 << 63) - 3


def test_nothing_is_missing_where_the_caller_says_so() -> None:
    newest = make()
    newest.note(batch_of([b"a"]))
    newest.advance(10)
    newest.advance(5)
    assert newest.end == 10


@pytest.mark.parametrize("memory_bytes", [-1, 0, 63, (1 << 40) + 1])
def test_a_map_of_no_size_is_refused(memory_bytes: int) -> None:
    with pytest.raises(InvalidInputError, match="64 or more"):
        make(memory_bytes)


@pytest.mark.parametrize("seed", [-1, 1 << 128])
def test_a_seed_of_more_than_128_bits_is_refused(seed: int) -> None:
    with pytest.raises(InvalidInputError, match="128 bits"):
        make(seed=seed)


def test_damage_is_said_with_its_place() -> None:
    run = bytearray(batch_of([b"a"]) + batch_of([b"b"], first=1))
    run[-1] ^= 1
    newest = make()

    with pytest.raises(CorruptError, match=f"the log at byte {len(run) // 2}: CRC") as caught:
        newest.note(run, where="the log")

    assert caught.value.at == len(run) // 2

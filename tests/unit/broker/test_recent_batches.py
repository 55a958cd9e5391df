"""What was just written: read back with its offsets, and forgotten in its turn."""

from lakelog.broker.recent_batches import RecentBatches
from lakelog.journal import Append, Stored, new_append, new_run
from lakelog.records import decode_batches
from tests.unit.broker.site import batch

TOPIC = b"a topic of tests"


def request(*values: bytes, partition: int = 0, copies: int = 1) -> Append:
    return new_run(TOPIC, partition, memoryview(bytearray(batch(*values) * copies)))


def stored(base_offset: int, epoch: int = 3) -> Stored:
    return Stored(base_offset, 0, epoch, 0)


def read(
    recent: RecentBatches, offset: int, most: int = 1 << 20, partition: int = 0
) -> list[int] | None:
    found = recent.read((TOPIC, partition), offset, most)
    if found is None:
        return None
    pieces, size = found
    data = b"".join(pieces)
    assert len(data) == size
    batches = list(decode_batches(data))  # CRCs are checked here.
    assert {one.header.leader_epoch for one in batches} == {3}
    return [record.offset for one in batches for record in one.records]


def test_batches_are_handed_out_with_their_offsets() -> None:
    recent = RecentBatches(1 << 20)
    recent.add(request(b"a", b"b"), stored(10))
    recent.add(request(b"c", copies=3), stored(12))
    assert read(recent, 10) == [10, 11, 12, 13, 14]
    assert read(recent, 11) == [10, 11, 12, 13, 14], "the batch that holds it"
    assert read(recent, 13) == [13, 14]
    assert read(recent, 14, most=1) == [14], "at least one"
    for offset in (9, 15):
        assert read(recent, offset) is None
    assert read(recent, 10, partition=1) is None


def test_what_others_wrote_between_is_not_made_up() -> None:
    recent = RecentBatches(1 << 20)
    recent.add(request(b"a"), stored(0))
    recent.add(request(b"b"), stored(5))
    assert read(recent, 5) == [5]
    for offset in (0, 1, 4):
        assert read(recent, offset) is None


def test_the_oldest_go_first_whatever_partition_they_are_of() -> None:
    one = len(request(b"x").body)
    recent = RecentBatches(4 * one)
    for at in range(4):
        recent.add(request(b"x", partition=at % 2), stored(at // 2))
    recent.add(request(b"x", partition=1), stored(2))
    assert recent.size_bytes <= 4 * one
    assert read(recent, 0, partition=0) is None
    assert read(recent, 1, partition=0) == [1]
    assert read(recent, 0, partition=1) == [0, 1, 2]


def test_it_is_bounded_and_reads_on_after_thousands() -> None:
    one = len(request(b"x").body)
    recent = RecentBatches(10 * one)
    for at in range(3_000):
        recent.add(request(b"x"), stored(at))
    assert recent.size_bytes == 10 * one
    assert read(recent, 2_990) == list(range(2_990, 3_000))
    assert read(recent, 2_989) is None


def test_a_batch_larger_than_all_of_it_is_not_kept() -> None:
    recent = RecentBatches(100)
    recent.add(request(b"x" * 1_000), stored(0))
    assert recent.size_bytes == 0
    assert read(recent, 0) is None
    recent.add(request(b"y"), stored(1))
    assert read(recent, 1) == [1]


def test_a_small_batch_does_not_hold_the_buffer_it_came_in() -> None:
    buffer = bytearray(1 << 20)
    body = batch(b"x")
    buffer[: len(body)] = body
    recent = RecentBatches(1 << 20)
    recent.add(new_append(TOPIC, 0, memoryview(buffer)[: len(body)]), stored(0))
    buffer[:] = bytes(len(buffer))
    assert read(recent, 0) == [0]


def test_a_topic_that_is_forgotten_is_not_found_and_its_bytes_go_later() -> None:
    one = len(request(b"x").body)
    recent = RecentBatches(2 * one)
    recent.add(request(b"x"), stored(0))
    recent.forget(TOPIC)
    assert read(recent, 0) is None
    for at in range(4):
        recent.add(request(b"x", partition=1), stored(at))
    assert recent.size_bytes == 2 * one
    assert read(recent, 2, partition=1) == [2, 3]

"""Several brokers' copies of a partition are one log: the one that Kafka would go on with."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.segments import OffsetSpec, Selection, find_logs
from lakelog.segments.copies import decode_log_starts
from lakelog.store import GetRange, MemoryStore, Meter, PutIfAbsent, metered
from tests.kafka_files import encode_metadata
from tests.plain_encoders import encode_kafka_log
from tests.unit.segments.brokers import (
    batch,
    log_of,
    offsets_and_values,
    put_copy,
)


def seen(store: MemoryStore) -> list[tuple[int, int]]:
    """Offset and epoch of every record that a read gives."""
    return [(offset, int(value.rpartition(b"/")[2])) for offset, value in offsets_and_values(store)]


def two_of(*batches: tuple[int, int]) -> list[tuple[int, int]]:
    return [(base + i, epoch) for base, epoch in batches for i in (0, 1)]


def test_equal_copies_come_out_once() -> None:
    store, log = MemoryStore(), [(0, 0), (2, 0), (4, 1)]
    put_copy(store, "b1/t-0", log, rolls=(0, 4))
    put_copy(store, "b2/t-0", log, rolls=(0, 2))
    put_copy(store, "b3/t-0", log)
    assert seen(store) == two_of(*log)
    assert len({ref.directory for ref in log_of(store)}) == 1


def test_a_longer_tail_of_an_older_epoch_never_shows() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(0, 0), (2, 0), (4, 0), (6, 0), (8, 0)], rolls=(0, 4))
    put_copy(store, "b2/t-0", [(0, 0), (2, 0), (4, 1)], rolls=(0, 2))
    assert seen(store) == two_of((0, 0), (2, 0), (4, 1))


def test_a_leader_that_has_not_written_yet_is_known_by_its_checkpoint() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(0, 0), (2, 0), (4, 0)], epochs=[(0, 0)])
    put_copy(store, "b2/t-0", [(0, 0), (2, 0)], epochs=[(0, 0), (1, 4)])
    assert seen(store) == two_of((0, 0), (2, 0))


def test_a_copy_that_begins_late_is_completed_from_the_others() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(6, 2), (8, 3)], rolls=(6,))
    put_copy(store, "b2/t-0", [(4, 1), (6, 2), (8, 2), (10, 2)], rolls=(4, 8))
    put_copy(store, "b3/t-0", [(0, 0), (2, 0), (4, 0)], rolls=(0, 2))
    assert seen(store) == two_of((0, 0), (2, 0), (4, 1), (6, 2), (8, 3))
    ends = [(ref.directory, ref.base_offset, ref.next_offset_max) for ref in log_of(store)]
    assert ends[:3] == [("b3/t-0", 0, 2), ("b3/t-0", 2, 4), ("b2/t-0", 4, 6)]


def test_an_empty_copy_adds_nothing_and_hides_nothing() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [])
    put_copy(store, "b2/t-0", [(0, 0)], rolls=(0, 2))
    assert seen(store) == two_of((0, 0))
    only = MemoryStore()
    put_copy(only, "b1/t-0", [])
    put_copy(only, "b2/t-0", [])
    assert seen(only) == []


def test_a_torn_end_is_not_part_of_a_copy() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(0, 0)], tail=batch(2, 9)[:-1])
    put_copy(store, "b2/t-0", [(0, 0), (2, 0)])
    assert seen(store) == two_of((0, 0), (2, 0))


def test_of_a_damaged_copy_and_a_whole_one_the_whole_one_is_read() -> None:
    store, spoilt = MemoryStore(), bytearray(batch(4, 0))
    spoilt[70] ^= 1
    put_copy(store, "b1/t-0", [(0, 0), (2, 0)], tail=bytes(spoilt) + batch(6, 0))
    put_copy(store, "b2/t-0", [(0, 0), (2, 0), (4, 0), (6, 0)])
    assert seen(store) == two_of((0, 0), (2, 0), (4, 0), (6, 0))


@pytest.mark.parametrize("index", [b"\0\0\0\1\0\0\0\7", b"\1" * 16, b"\0\0\0\1\0\0"])
def test_a_copy_whose_index_misleads_is_ranked_by_its_batches(index: bytes) -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(0, 0), (2, 0), (4, 1)], index=index)
    put_copy(store, "b2/t-0", [(0, 0), (2, 0), (4, 0)], rolls=(0, 2, 4, 6))
    assert {ref.directory for ref in log_of(store)} == {"b1/t-0"}


def test_the_end_of_a_long_index_is_searched_not_read() -> None:
    """A broker sets 10 MiB aside for the index of the segment it is writing to."""
    store, log = MemoryStore(), [(base, base // 4000) for base in range(0, 12_000, 2)]
    used = encode_kafka_log(b"".join(batch(*one) for one in log), interval_bytes=0)
    space = used[".index"].ljust(10 << 20, b"\0")
    put_copy(store, "b1/t-0", log, index=space)
    put_copy(store, "b2/t-0", log[:-1], index=space[: len(used[".index"]) - 8])
    meter = Meter()
    asked: list[GetRange] = []

    def perform(op: object) -> object:
        if isinstance(op, GetRange):
            asked.append(op)
        return metered(store.perform, meter)(op)  # type: ignore[arg-type]

    (log_found,) = find_logs(perform, "kafka", Selection()).values()
    assert {ref.directory for ref in log_found} == {"b1/t-0"}
    assert meter.usage.bytes_read < 200_000
    assert len(asked) < 25


def test_one_directory_costs_no_request() -> None:
    store, meter = MemoryStore(), Meter()
    put_copy(store, "b1/t-0", [(0, 0)], epochs=[(0, 0)])
    put_copy(store, "b2/t-1", [(0, 0)])

    find_logs(metered(store.perform, meter), "kafka", Selection())
    assert set(meter.usage.requests) == {"list"}


def test_directories_of_a_topic_and_of_one_deleted_before_are_refused() -> None:
    store = MemoryStore()
    for number in (1, 2):
        put_copy(store, f"b{number}/t-0", [(0, 0)])
        metadata = encode_metadata(UUID(int=number))
        store.perform(PutIfAbsent(f"b{number}/t-0/partition.metadata", metadata))
    with pytest.raises(InvalidInputError, match="b1/t-0 and b2/t-0 belong to different topics"):
        log_of(store)


def test_other_checkpoints_than_kafka_s_are_no_reason_to_read_nothing() -> None:
    store = MemoryStore()
    for number in (1, 2):
        put_copy(store, f"b{number}/t-0", [(0, 0), (2, 0)])
        store.perform(PutIfAbsent(f"b{number}/t-0/leader-epoch-checkpoint", b"?"))
        store.perform(PutIfAbsent(f"b{number}/t-0/partition.metadata", b"?"))
    assert seen(store) == two_of((0, 0), (2, 0))


# ---------------------------------------------------------------------------- a model of brokers


class Model:
    """What Kafka does, without bytes: leaders write, followers copy, and give up what diverges."""

    def __init__(self) -> None:
        self.logs: list[list[tuple[int, int]]] = [[], [], []]
        self.noted: list[list[tuple[int, int]]] = [[], [], []]
        self.leader, self.epoch = 0, 0
        self.lead(0)

    def lead(self, broker: int) -> None:
        self.leader, self.epoch = broker, self.epoch + 1
        log, noted = self.logs[broker], self.noted[broker]
        end = log[-1][0] + 2 if log else 0
        noted[:] = [one for one in noted if one[1] < end] + [(self.epoch, end)]

    def write(self, count: int) -> None:
        log = self.logs[self.leader]
        for _ in range(count):
            log.append((log[-1][0] + 2 if log else 0, self.epoch))

    def follow(self, broker: int, count: int) -> None:
        source, log = self.logs[self.leader], self.logs[broker]
        same = 0
        while same < min(len(source), len(log)) and source[same] == log[same]:
            same += 1
        log[same:] = source[same : same + count]
        starts: dict[int, int] = {}
        for base, epoch in log:
            starts.setdefault(epoch, base)
        self.noted[broker][:] = list(starts.items())


@given(data=st.data())
def test_whoever_led_last_is_right(data: st.DataObject) -> None:
    model = Model()
    steps = st.tuples(
        st.sampled_from((model.lead, model.write, model.follow)),
        st.integers(0, 2),
        st.integers(0, 4),
    )
    for step, broker, count in data.draw(st.lists(steps, max_size=12)):
        if step == model.lead:
            model.lead(broker)
        elif step == model.write:
            model.write(count)
        elif broker != model.leader:
            model.follow(broker, count)
    store = MemoryStore()
    for broker, log in enumerate(model.logs):
        bases = [base for base, _ in log]
        rolls = data.draw(st.sets(st.sampled_from([0, *bases]), max_size=3)) | {0}
        put_copy(store, f"b{broker}/t-0", log, rolls=sorted(rolls), epochs=model.noted[broker])
    assert seen(store) == two_of(*model.logs[model.leader])


# ---------------------------------------------------------------------------- DeleteRecords


def put_start(store: MemoryStore, root: str, offset: int, topic: str = "t") -> None:
    body = f"0\n2\nother 7 99\n{topic} 0 {offset}\n".encode()
    name = "log-start-offset-checkpoint"
    store.perform(PutIfAbsent(f"{root}/{name}" if root else name, body))


@pytest.mark.parametrize("root", ["", "disk"])
def test_records_that_were_deleted_do_not_come_out(root: str) -> None:
    store = MemoryStore()
    directory = f"{root}/t-0".lstrip("/")
    put_copy(store, directory, [(0, 0), (2, 0), (4, 0), (6, 0)], rolls=(0, 4))
    put_start(store, root, 5)
    assert [offset for offset, _ in seen(store)] == [5, 6, 7]
    assert [ref.base_offset for ref in log_of(store)] == [4]
    starting = OffsetSpec(offsets={("t", 0): 0})
    assert [offset for offset, _ in offsets_and_values(store, starting=starting)] == [5, 6, 7]


def test_a_time_is_looked_for_among_the_records_that_are_left() -> None:
    store = MemoryStore()
    put_copy(store, "t-0", [(0, 0), (2, 0), (4, 0)])
    put_start(store, "", 3)
    for timestamp, first in ((0, 3), (1003, 3), (1004, 4)):
        found = offsets_and_values(store, starting=OffsetSpec(timestamp=timestamp))
        assert [offset for offset, _ in found] == list(range(first, 6))
    assert offsets_and_values(store, starting=OffsetSpec(timestamp=1006)) == []


def test_a_time_is_not_found_in_a_tail_that_is_not_the_log() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(4, 1)], rolls=(4,))
    put_copy(store, "b2/t-0", [(0, 0), (2, 0), (4, 0), (6, 0), (8, 0)])
    found = offsets_and_values(store, starting=OffsetSpec(timestamp=1003))
    assert [offset for offset, _ in found] == [3, 4, 5]
    assert offsets_and_values(store, starting=OffsetSpec(timestamp=1007)) == []


def test_what_any_copy_knows_to_be_deleted_is_deleted() -> None:
    store, log = MemoryStore(), [(0, 0), (2, 0), (4, 0)]
    put_copy(store, "b1/t-0", log)
    put_copy(store, "b2/t-0", log)
    put_start(store, "b1", 3)
    assert [offset for offset, _ in seen(store)] == [3, 4, 5]


def test_a_beginning_behind_the_end_is_of_a_history_that_was_lost() -> None:
    store = MemoryStore()
    put_copy(store, "b1/t-0", [(0, 0), (2, 0), (4, 0), (6, 0)])
    put_copy(store, "b2/t-0", [(0, 0), (2, 1)])
    put_start(store, "b1", 6)
    assert seen(store) == two_of((0, 0), (2, 1))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"0\n", "no version and count"),
        (b"0\nx\n", "no version and count"),
        (b"0\n2\nt 0 5\n", "1 lines, not 2"),
        (b"0\n1\nt 0 five\n", "is not a topic, a partition and an offset"),
        (b"0\n1\nt 00 5\n", "is not a topic, a partition and an offset"),
    ],
)
def test_what_no_broker_wrote_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_log_starts(data)


def test_a_broker_makes_the_file_before_it_has_anything_to_say() -> None:
    assert decode_log_starts(b"") == {}


def test_another_version_is_not_guessed_at() -> None:
    with pytest.raises(UnsupportedError, match="version 1, this reader knows 0"):
        decode_log_starts(b"1\n0\n")

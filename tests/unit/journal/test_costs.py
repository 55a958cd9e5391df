"""What the journal costs, in requests: the reason why it is built as it is.

    steady state   one put for each flush, however many partitions there are
    recovery       a lane of 100,000 bundles is learned by reading about as many directories as lie
                   between two checkpoints
    locating       an old offset is found by bisecting checkpoints

Nobody appends 100,000 bundles for a test: the old ones exist by rule (``OldLane``). Those which a
recovery may read are real, and so are the last checkpoints.
"""

import math
import time
from collections import Counter
from typing import Any

import pytest

from lakelog.formats.lanes import (
    BatchRow,
    Bundle,
    Checkpoint,
    End,
    Kept,
    Rolled,
    Slice,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.journal import (
    Fold,
    Lane,
    LocatedSlice,
    Snapshot,
    append,
    learn,
    locate_run,
    look,
    write_checkpoint,
)
from lakelog.journal.fold import ProducerState
from lakelog.journal.layers import Layers
from lakelog.journal.locate import _indexed
from lakelog.model import Rules
from lakelog.names import bundle_key, checkpoint_key, head_key, seq_of, tail_key
from lakelog.store import (
    Fetched,
    Get,
    GetSuffix,
    Head,
    ObjectInfo,
    Op,
    Work,
    run,
    working,
)
from lakelog.testing import make_batch
from tests.patience import in_time
from tests.unit.journal.script import EPOCH_MS, TOPIC, Script, plain

DEFAULT = Rules()
EVERY = DEFAULT.checkpoint_every

# ---------------------------------------------------------------------------- steady state


def flushes(partitions: int, count: int, step_ms: int = 250) -> tuple[Counter[str], Counter[str]]:
    """Return what flushes asked for, and what the checkpoints between them did."""
    script = Script(DEFAULT)
    lane = script.lane()
    script.run(learn(lane))
    requests = [plain(1, partition=number) for number in range(partitions)]
    bundles: Counter[str] = Counter()
    checkpoints: Counter[str] = Counter()
    works: tuple[tuple[Work[Any], Counter[str]], ...]
    for _ in range(count):
        script.pass_ms(step_ms)
        script.asked.clear()
        works = (append(lane, requests), bundles), (write_checkpoint(lane), checkpoints)
        for work, counter in works:
            before = script.meter.usage
            script.run(work)
            counter.update((script.meter.usage - before).requests)
        bundles["head reads"] += sum(getattr(op, "key", "") == head_key(0) for op in script.asked)
    assert lane.next_seq == count
    return bundles, checkpoints


def test_a_flush_is_one_put_and_nothing_else() -> None:
    bundles, checkpoints = flushes(1, 1_000)
    assert +bundles == {"put": 1_000}, "250 seconds are less than a quarter of the grace"
    assert checkpoints.total() <= 3 * (1_000 // EVERY)
    assert checkpoints["list"] == 0


def test_no_request_depends_on_the_number_of_partitions() -> None:
    assert flushes(250, 3 * EVERY) == flushes(1, 3 * EVERY)


def test_the_head_is_read_once_in_a_quarter_of_the_grace() -> None:
    step_ms = 60_000
    bundles, _ = flushes(1, 200, step_ms)
    quarters = 200 * step_ms // (DEFAULT.grace_ms // 4)
    assert quarters == 13
    assert 1 <= bundles["head reads"] <= quarters
    assert bundles["get"] == bundles["head reads"]
    assert (bundles["put"], bundles["list"], bundles["head"]) == (200, 0, 0)


# ---------------------------------------------------------------------------- recovery


LAST = 100_030
"""The last bundle: 63 come after the last checkpoint, the most there can be."""
PARTITIONS = 10_000
ACTIVE = 250
START = (LAST + 1) // EVERY * EVERY - 2 * EVERY - 1


class OldLane(Script):
    """A lane whose bundles from 0 on exist by rule, up to those that are real."""

    def perform(self, op: Op) -> Any:
        if isinstance(op, Head) and op.key.endswith(".bundle"):
            seq = seq_of(op.key)
            if seq is not None and seq <= START:
                self._counted(Head(head_key(0)))  # It is counted as any other.
                return ObjectInfo(key=op.key, size=1, etag="old", modified_ms=EPOCH_MS)
        return super().perform(op)

    def twin(self) -> "OldLane":
        """Return another one with the same objects."""
        twin = OldLane(self.rules)
        twin.store._objects = dict(self.store._objects)
        twin.store._keys = list(self.store._keys)
        twin.store._versions = self.store._versions
        return twin


@pytest.fixture(scope="module")
def old_lane() -> OldLane:
    """A lane with 100,031 bundles and 10,000 partitions, each with a producer."""
    script = OldLane(DEFAULT)
    kept = tuple(Kept(10 * number, 9, 10 * number) for number in range(5))
    seen = ProducerState(0, EPOCH_MS, kept)
    fold = Fold(
        lane=0,
        every=EVERY,
        seq=START,
        nonce=b"n" * 16,
        created_ms=EPOCH_MS,
        ends=Layers({(TOPIC, number): 1_000_000 for number in range(PARTITIONS)}),
        producers=Layers({(TOPIC, number, 7): seen for number in range(PARTITIONS)}),
    )
    lane = script.lane()
    lane.publish(Snapshot(fold=fold))
    lane.stands(START)
    script.run(look(lane))
    for number in range(LAST - START):
        first = number * ACTIVE % PARTITIONS
        requests = [plain(1, partition=first + at) for at in range(ACTIVE)]
        script.append(lane, *requests)
        script.run(write_checkpoint(lane))
    assert lane.next_seq == LAST + 1
    return script


def recover(script: OldLane, *, tail: bool) -> tuple[Lane, int, float]:
    """Learn the lane; return it, the requests and the seconds of CPU that it took."""
    if not tail:
        script.forget_tail()
    lane = script.lane()
    before, start = script.meter.usage, time.process_time()
    script.run(learn(lane))
    took = time.process_time() - start
    return lane, sum((script.meter.usage - before).requests.values()), took


@pytest.mark.parametrize("after", [0, 1, 63])
@pytest.mark.parametrize(("tail", "most"), [(True, 70), (False, 110)], ids=["tail", "no tail"])
def test_a_lane_of_100_000_bundles_is_recovered(
    old_lane: OldLane, after: int, tail: bool, most: int
) -> None:
    """``after`` so many bundles behind the last checkpoint."""
    script = old_lane.twin()
    last = LAST - 63 + after
    script.delete(bundle_key(0, seq) for seq in range(last + 1, LAST + 1))
    lane, requests, seconds = recover(script, tail=tail)
    assert lane.next_seq == last + 1
    assert lane.counters["W1 tail" if tail else "W1 gallop"] == 1
    assert len(lane.known.bundles) == after
    assert lane.fold is not None
    assert len(lane.fold.ends) == len(lane.fold.producers) == PARTITIONS
    assert requests <= most
    in_time(seconds <= 5, seconds)
    assert script.meter.usage.requests.get("list", 0) == 0


def test_a_lane_whose_last_checkpoint_was_not_written_costs_one_stretch_more(
    old_lane: OldLane,
) -> None:
    """Its writer died between a bundle and the checkpoint that was due."""
    script = old_lane.twin()
    script.delete([checkpoint_key(0, START + 2 * EVERY), tail_key(0)])
    for tail, most in ((True, 70 + EVERY), (False, 110 + EVERY)):
        if tail:
            script.put(tail_key(0), b'{"checkpoint": %d}' % (START + EVERY))
        lane, requests, _ = recover(script, tail=tail)
        assert lane.next_seq == LAST + 1
        assert requests <= most


def test_a_recovered_lane_knows_its_producers(old_lane: OldLane) -> None:
    script = old_lane.twin()
    lane, _, _ = recover(script, tail=True)
    seen = lane.fold.producer((TOPIC, 9_999), 7) if lane.fold else None
    assert seen is not None
    assert seen.kept[-1] == Kept(40, 9, 40)


# ---------------------------------------------------------------------------- locating


UNSEALED = 1_563 * EVERY
"""About 100,000 bundles, none of them sealed."""
OTHERS = tuple(bytes([255]) * 15 + bytes([number]) for number in range(100))
BODY = make_batch(1, 2, (-1, -1, -1), EPOCH_MS)


def bundle_at(seq: int) -> tuple[Bundle, bytes]:
    """Every bundle holds two records of the partition, and the third of them none."""
    slices, batches, payload = [], [], []
    if seq % 3:
        base = 2 * (seq - seq // 3 - 1)
        slices.append(Slice(TOPIC, 0, 1, base, 2, 8, len(BODY), EPOCH_MS, EPOCH_MS))
        batches.append(BatchRow(-1, 0, len(BODY), 1, -1, -1, 0))
        payload.append(BODY)
    bundle = Bundle(
        lane=0,
        seq=seq,
        created_ms=EPOCH_MS,
        epoch=0,
        writer=b"w" * 16,
        nonce=(seq + 1).to_bytes(16, "big"),
        previous=seq.to_bytes(16, "big"),
        slices=tuple(slices),
        batches=tuple(batches),
    )
    return bundle, encode_bundle(bundle, payload)


def checkpoint_at(seq: int) -> Checkpoint:
    first = seq - EVERY + 1
    rolled = (bundle_at(one)[0] for one in range(first, seq + 1))
    return Checkpoint(
        lane=0,
        seq=seq,
        epoch=0,
        created_ms=EPOCH_MS,
        nonce=(seq + 1).to_bytes(16, "big"),
        leader=b"w" * 16,
        first=first,
        ends=(
            End(TOPIC, 0, 2 * (seq - seq // 3)),
            *(End(other, 0, seq) for other in OTHERS),
        ),
        slice_index=tuple(Rolled(bundle.seq, one, 0) for bundle in rolled for one in bundle.slices),
    )


class Counted:
    """Bundles and checkpoints that are made when they are asked for."""

    def __init__(self) -> None:
        self.asked: list[Op] = []

    def perform(self, op: Op) -> Fetched:
        self.asked.append(op)
        match op:
            case GetSuffix():
                body = bundle_at(seq_of(op.key) or 0)[1]
            case Get():
                seq = seq_of(op.key)
                assert seq is not None
                assert (seq + 1) % EVERY == 0
                body = encode_checkpoint(checkpoint_at(seq))
            case _:
                raise AssertionError(f"{op} is not needed to locate")
        info = ObjectInfo(key=op.key, size=len(body), etag="1", modified_ms=EPOCH_MS)
        return Fetched(info=info, start=0, body=body)


@pytest.fixture
def unsealed() -> Lane:
    script = Script(DEFAULT)
    lane = script.lane()
    script.run(look(lane))
    lane.publish(Snapshot(fold=Fold.of(checkpoint_at(UNSEALED - 1), EVERY)))
    return lane


END = 2 * (UNSEALED - 1 - (UNSEALED - 1) // 3)


def located(lane: Lane, store: Counted, offset: int) -> LocatedSlice:
    (found,) = run(locate_run(lane, (TOPIC, 0), offset), working(store.perform))
    return found


@pytest.mark.parametrize(
    "offset", [0, 1, 2, 127, 12_345, END // 2, END // 2 + 1, END - 129, END - 2, END - 1]
)
def test_an_offset_among_100_000_bundles_is_located(unsealed: Lane, offset: int) -> None:
    store = Counted()
    found = located(unsealed, store, offset)
    assert found.slice.base_offset <= offset < found.slice.next_offset
    assert found.slice in bundle_at(found.seq)[0].slices
    assert len(store.asked) <= 25
    store.asked.clear()
    located(unsealed, store, min(offset + 2, END - 1))
    assert len(store.asked) <= 3, "whoever reads on does not search again"


def test_an_offset_that_is_not_there_costs_nothing(unsealed: Lane) -> None:
    store = Counted()
    for place, offset in (((TOPIC, 0), END), ((TOPIC, 1), 0), ((b"?" * 16, 0), 0)):
        assert run(locate_run(unsealed, place, offset), working(store.perform)) == []
    assert store.asked == []


def test_the_rule_by_which_old_bundles_exist_is_that_of_a_chain() -> None:
    """The stand-in is sound: its bundles fold to its checkpoints."""
    fold = Fold.of(checkpoint_at(EVERY - 1), EVERY)
    for seq in range(EVERY, 2 * EVERY):
        bundle, _ = bundle_at(seq)
        assert not fold.flaw(bundle)
        fold = fold.after(bundle)
    assert fold.end((TOPIC, 0)) == checkpoint_at(2 * EVERY - 1).ends[0].offset


class CountedRoll(tuple[Rolled, ...]):
    """A slice index that counts how many of its rows are touched."""

    touched = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        CountedRoll.touched += len(found) if isinstance(at, slice) else 1
        return found


def test_reading_from_a_roll_touches_what_is_read_and_not_all_that_stands_behind() -> None:
    rows = [
        Rolled(seq, Slice(TOPIC, partition, 1, seq, 1, 0, 100, 0, 0), 0)
        for partition in range(2_000)
        for seq in range(8)
    ]
    slice_index = CountedRoll(rows)
    checkpoint = Checkpoint(
        lane=0, seq=7, nonce=bytes(16), epoch=0, first=0, created_ms=0, slice_index=slice_index
    )
    for partition in (0, 1_000, 1_999):
        CountedRoll.touched = 0
        found = list(_indexed(checkpoint, (TOPIC, partition)))
        assert [one.slice.base_offset for one in found] == list(range(8))
        assert CountedRoll.touched <= 2 * 8 + math.log2(len(rows)) + 4


def test_what_is_kept_for_locating_goes_when_the_floor_has_passed_it() -> None:
    """A lane that is trimmed as it grows is as long as ever, and so is what is known of it. Else
    each broker would keep up to the bound of each lane of what nobody can ask for any more.
    """
    script = Script()
    lane, every = script.learned(), script.rules.checkpoint_every
    for at in range(0, 20 * every, every):
        script.grow(lane, every)
        if at >= 2 * every:
            script.trim(at - every, at - 1)
            script.run(look(lane))
            assert script.run(locate_run(lane, (TOPIC, 0), at - 1))[0].seq == at - 1
        assert all(seq >= at - every for seq in lane.slice_indexes), (at, list(lane.slice_indexes))
    assert lane.slice_indexes

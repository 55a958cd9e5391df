"""Laws of the journal: folds, judgements, drafts, queues, heads, and finding offsets.

Chains are built as brokers build them: requests are drawn, `draft` judges them, and what it makes
is added to a fold. So every chain is one that can be, with producers whose sequences wrap, epochs,
deletions, and hours between two bundles in which what the fold remembers expires.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lakelog.errors import CorruptError
from lakelog.formats.lanes import (
    BatchRow,
    Bundle,
    EventKind,
    Kept,
    decode_bundle,
    decode_checkpoint,
    encode_checkpoint,
)
from lakelog.journal import (
    Append,
    DeleteTopic,
    FlushSettings,
    Fold,
    Head,
    Lane,
    Look,
    Queue,
    Refusal,
    Refused,
    Request,
    Stored,
    Touch,
    decode_head,
    encode_head,
    judge,
    learn,
    locate_run,
)
from lakelog.journal.draft import draft
from lakelog.journal.fold import MEMORY_MS, ProducerState, _within_quota
from lakelog.journal.head import FLOORS_MAX
from lakelog.model import Rules
from lakelog.names import bundle_key, checkpoint_key
from lakelog.store import Delete, PutIfAbsent, join_body
from tests.unit.journal.script import EPOCH_MS, Script, make_append

SEQUENCES = 1 << 31
half = settings(max_examples=max(10, settings().max_examples // 2))

TOPICS = tuple(bytes([letter]) * 16 for letter in b"abc")
WRITERS = tuple(bytes([letter]) * 16 for letter in b"xy")

# ---------------------------------------------------------------------------- what is drawn


@dataclass(frozen=True)
class Batch:
    """A batch that some producer means to send: its sequence is chosen when it is sent."""

    topic: int
    partition: int
    count: int
    producer: int
    epoch: int
    skip: int
    """0: the next sequence; below: an earlier batch again; above: a gap."""


# Few producers in few places, so that each of them has a history.
batches = st.builds(
    Batch,
    topic=st.sampled_from((0, 0, 0, 1, 2)),
    partition=st.sampled_from((0, 0, 1)),
    count=st.integers(1, 3),
    producer=st.sampled_from((0, 0, 0, -1, 1)),
    epoch=st.sampled_from((0, 0, 0, 0, 0, 1)),
    skip=st.sampled_from((0, 0, 0, 0, -1, -2, -5, 1)),
)
deletions = st.sampled_from((1, 2, 1, 2, 0)).map(lambda topic: DeleteTopic(topic=TOPICS[topic]))
others = st.just(Touch()) | deletions
wishes = st.lists(st.integers(0, 19).flatmap(lambda n: batches if n < 18 else others), max_size=8)
hours = st.sampled_from((0, 1, 250, 250, 3_600_000, MEMORY_MS // 2, MEMORY_MS, MEMORY_MS + 1))


@dataclass(frozen=True)
class Turn:
    """One flush: who, how long after the last one, and what is asked for."""

    writer: int
    after_ms: int
    wishes: Sequence[Batch | DeleteTopic | Touch]


turns = st.lists(st.builds(Turn, st.integers(0, 1), hours, wishes), min_size=1, max_size=14)


@dataclass
class Chain:
    """Bundles, as they were stored one behind the other."""

    every: int
    bundles: list[Bundle] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    numbers: int = 0
    sent: dict[tuple[int, int, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """What each producer has sent: sequences and counts."""

    def request(self, wish: Batch | DeleteTopic | Touch) -> Request:
        if not isinstance(wish, Batch):
            return wish
        self.numbers += 1
        producer = (-1, -1, -1)
        count = wish.count
        if wish.producer >= 0:
            # Near the end of the sequences, so that they wrap.
            key = (wish.topic, wish.partition, wish.producer, wish.epoch)
            mine = self.sent.setdefault(key, [])
            start = 0 if wish.epoch else SEQUENCES - 4
            at, before = mine[-1] if mine else (start, 0)
            sequence = (at + before) % SEQUENCES
            if wish.skip < 0 and len(mine) >= -wish.skip:
                sequence, count = mine[wish.skip]
            elif wish.skip <= 0:
                mine.append((sequence, count))
            else:
                sequence = (sequence + wish.skip) % SEQUENCES
            producer = (wish.producer, wish.epoch, sequence)
        return make_append(
            self.numbers, count, producer, partition=wish.partition, topic=TOPICS[wish.topic]
        )


def build(drawn: Sequence[Turn], every: int) -> tuple[Chain, Fold]:
    """Return the chain that flushes make, and the fold of all of it."""
    chain, fold, now_ms = Chain(every), Fold(lane=0, every=every), EPOCH_MS
    for turn in drawn:
        now_ms += turn.after_ms
        requests = [chain.request(wish) for wish in turn.wishes]
        made = draft(fold, requests, writer=WRITERS[turn.writer], now_ms=now_ms)
        if made.is_empty:
            made = draft(fold, [*requests, Touch()], writer=WRITERS[turn.writer], now_ms=now_ms)
        nonce = (len(chain.bundles) + 1).to_bytes(16, "big")
        bundle, body = made.finish(writer=WRITERS[turn.writer], nonce=nonce, checkpoint=-1)
        assert not fold.flaw(bundle)
        fold = fold.after(bundle)
        chain.bundles.append(bundle)
        chain.bodies.append(join_body(body))
    return chain, fold


def state(fold: Fold) -> object:
    """All that a fold knows."""
    return {name: getattr(fold, name) for name in Fold.__slots__}


# ---------------------------------------------------------------------------- folds


@given(turns, st.integers(1, 5), st.data())
def test_a_checkpoint_and_the_rest_of_the_chain_are_the_whole_chain(
    drawn: Sequence[Turn], every: int, data: st.DataObject
) -> None:
    chain, whole = build(drawn, every)
    cut = data.draw(st.integers(1, len(chain.bundles)))
    fold = Fold(lane=0, every=every)
    for bundle in chain.bundles[:cut]:
        fold = fold.after(bundle)
    body = encode_checkpoint(fold.checkpoint(chain.bundles[max(0, cut - every) : cut]))
    resumed = Fold.of(decode_checkpoint(body), every)
    assert state(resumed) == state(fold), "a checkpoint holds all that a fold knows"
    for bundle in chain.bundles[cut:]:
        assert not resumed.flaw(bundle)
        resumed = resumed.after(bundle)
    assert state(resumed) == state(whole)


@given(turns, st.integers(1, 5))
def test_a_fold_of_what_was_read_is_the_fold_of_what_was_written(
    drawn: Sequence[Turn], every: int
) -> None:
    chain, whole = build(drawn, every)
    fold = Fold(lane=0, every=every)
    for body in chain.bodies:
        bundle = decode_bundle(body)[0]
        assert not fold.flaw(bundle)
        fold = fold.after(bundle)
    assert state(fold) == state(whole)


@given(turns, st.integers(1, 5))
def test_a_fold_stays_as_it_is_when_others_are_made_of_it(
    drawn: Sequence[Turn], every: int
) -> None:
    chain, _ = build(drawn, every)
    fold = Fold(lane=0, every=every)
    folds = []
    for bundle in chain.bundles:
        folds.append((fold, encoded(fold)))
        fold = fold.after(bundle)
    assert all(encoded(one) == before for one, before in folds)


def encoded(fold: Fold) -> bytes:
    return encode_checkpoint(fold.checkpoint(())) if fold.seq >= 0 else b""


@given(turns, st.integers(1, 5), st.data())
def test_no_other_bundle_follows(drawn: Sequence[Turn], every: int, data: st.DataObject) -> None:
    """Of all bundles of a chain exactly the next one passes."""
    chain, _ = build(drawn, every)
    cut = data.draw(st.integers(0, len(chain.bundles) - 1))
    fold = Fold(lane=0, every=every)
    for bundle in chain.bundles[:cut]:
        fold = fold.after(bundle)
    assert [bundle.seq for bundle in chain.bundles if not fold.flaw(bundle)] == [cut]


@given(turns, st.integers(1, 5))
def test_what_a_fold_remembers_is_at_most_a_day_old_when_a_checkpoint_is_due(
    drawn: Sequence[Turn], every: int
) -> None:
    chain, _ = build(drawn, every)
    fold = Fold(lane=0, every=every)
    for bundle in chain.bundles:
        fold = fold.after(bundle)
        if fold.is_due():
            since = fold.created_ms - MEMORY_MS
            assert all(seen.seen_ms >= since for seen in fold.producers.values())
            for (kind, _), seen_ms in fold.marks.items():
                assert seen_ms >= since or kind is EventKind.TOPIC_DELETED


# ---------------------------------------------------------------------------- drafts


@given(turns, st.integers(1, 5))
def test_offsets_of_a_partition_tile_from_zero_until_its_topic_is_deleted(
    drawn: Sequence[Turn], every: int
) -> None:
    chain, fold = build(drawn, every)
    ends: dict[tuple[bytes, int], int] = {}
    for bundle in chain.bundles:
        for one in bundle.slices:
            assert one.base_offset == ends.get(one.topic_partition, 0)
            ends[one.topic_partition] = one.next_offset
        for event in bundle.events:
            ends = {place: end for place, end in ends.items() if place[0] != event.id}
    assert ends == fold.ends


@given(turns, wishes, st.integers(1, 5), st.integers(-MEMORY_MS, MEMORY_MS))
def test_every_request_of_a_draft_is_answered_and_what_it_says_is_stored_there(
    drawn: Sequence[Turn],
    asked: Sequence[Batch | DeleteTopic | Touch],
    every: int,
    now_ms: int,
) -> None:
    chain, fold = build(drawn, every)
    requests = [chain.request(wish) for wish in asked]
    made = draft(fold, requests, writer=WRITERS[0], now_ms=EPOCH_MS + now_ms)
    assert len(made.outcomes) == len(made.stores) == len(requests)
    bundle, body = made.finish(writer=WRITERS[0], nonce=b"n" * 16, checkpoint=-1)
    assert not fold.flaw(bundle)
    read, payload = decode_bundle(join_body(body))
    assert read == bundle
    taken: dict[tuple[bytes, int], list[tuple[int, int, bytes]]] = {}
    for request, outcome, stores in zip(requests, made.outcomes, made.stores, strict=True):
        if isinstance(request, Append):
            assert stores == (isinstance(outcome, Stored) and not outcome.duplicate)
            if stores:
                assert isinstance(outcome, Stored)
                count = request.rows[0].last_offset_delta + 1
                row = (outcome.base_offset, count, bytes(request.body))
                taken.setdefault(request.topic_partition, []).append(row)
    for place, rows in taken.items():
        (one,) = (one for one in bundle.slices if one.topic_partition == place)
        spans = [(base, base + count) for base, count, _ in rows]
        assert spans[0][0] == one.base_offset
        assert spans[-1][1] == one.next_offset
        assert all(left[1] == right[0] for left, right in pairwise(spans)), "no gap, no overlap"
        whole = b"".join(body for _, _, body in rows)
        assert bytes(payload[one.position - 8 :][: one.length]) == whole
    assert {one.topic_partition for one in bundle.slices} == set(taken)


# ---------------------------------------------------------------------------- judging


class DumbKafka:
    """Kafka's rules for one producer in one partition, with sequences as a list of all numbers."""

    def __init__(self) -> None:
        self.epoch = -1
        self.stored: list[tuple[int, int]] = []

    def judge(self, epoch: int, sequence: int, count: int) -> int | Refusal | None:
        if not self.stored:
            return None
        if epoch != self.epoch:
            if epoch < self.epoch:
                return Refusal.FENCED
            return None if sequence == 0 else Refusal.OUT_OF_ORDER
        for at, known in reversed(list(enumerate(self.stored))[-5:]):
            if known == (sequence, count):
                return at
        last, length = self.stored[-1]
        after = last
        for _ in range(length):
            after = 0 if after == SEQUENCES - 1 else after + 1
        return None if sequence == after else Refusal.OUT_OF_ORDER

    def store(self, epoch: int, sequence: int, count: int) -> None:
        if epoch != self.epoch:
            self.stored = []
        self.epoch = epoch
        self.stored.append((sequence, count))


steps = st.tuples(
    st.sampled_from((0, 0, 0, 0, 0, 1, 2)),
    st.sampled_from((0, 0, 0, 0, 0, -1, -2, -5, -6, 1)),
    st.integers(1, 3),
)
around = st.integers(0, 6) | st.integers(SEQUENCES - 6, SEQUENCES - 1)


@given(around, st.lists(steps, max_size=25))
@example(SEQUENCES - 2, [(0, 0, 2), (0, 0, 1), (0, -2, 1)])
@example(0, [(0, 0, 1), (1, -6, 2), (1, -2, 1)])
def test_a_batch_is_judged_as_kafka_does(first: int, drawn: list[tuple[int, int, int]]) -> None:
    kafka, seen = DumbKafka(), None
    offsets: list[int] = []
    next_, end = first, 0
    for epoch, skip, count in drawn:
        sequence = (next_ + skip) % SEQUENCES
        if skip == -6:
            sequence = 0
        elif skip < 0 and len(kafka.stored) >= -skip:
            sequence, count = kafka.stored[skip]
        row = BatchRow(7, 0, 61, count - 1, sequence, epoch, 0)
        told, expected = judge(seen, row), kafka.judge(epoch, sequence, count)
        if isinstance(expected, int):
            assert told == Kept(sequence, count - 1, offsets[expected])
            continue
        assert told == expected
        if expected is None:
            if epoch != kafka.epoch:
                offsets = []
            kafka.store(epoch, sequence, count)
            offsets.append(end)
            seen = (seen or ProducerState(epoch, 0, ())).then(row, end, 0)
            end += count
            next_ = (sequence + count) % SEQUENCES


# ---------------------------------------------------------------------------- queues


@given(
    st.tuples(st.integers(1, 400), st.integers(0, 300), st.integers(0, 500)),
    st.lists(st.one_of(st.integers(1, 5), st.just(0), st.none()), max_size=40),
)
def test_a_queue_keeps_its_caps_and_its_order_and_loses_nothing(
    sizes: tuple[int, int, int], drawn: list[int | None]
) -> None:
    """A number offers a batch of so many records, 0 a touch, None takes what is next."""
    goal, more, most = sizes
    limits = FlushSettings(
        interval_ms=10,
        size_bytes_goal=goal,
        size_bytes_max=goal + more,
        queue_bytes_max=goal + more + most,
    )
    queue: Queue[None] = Queue(limits)
    offered: list[Request] = []
    taken: list[Request] = []

    def take() -> None:
        some = [request for request, _ in queue.take()]
        size = sum(map(size_of, some))
        assert size <= limits.size_bytes_max or len(some) == 1
        waiting = offered[len(taken) + len(some) :]
        if waiting:
            assert size + size_of(waiting[0]) > limits.size_bytes_max, "no smaller than need be"
        taken.extend(some)

    for number, count in enumerate(drawn):
        if count is None:
            take()
        else:
            request: Request = make_append(number, count) if count else Touch()
            fits = queue.size_bytes + size_of(request) <= limits.queue_bytes_max or not len(queue)
            assert queue.has_room(request) == fits
            if fits:
                queue.push(request, number, None)
                offered.append(request)
        assert len(queue) == len(offered) - len(taken)
        assert queue.size_bytes == sum(map(size_of, offered[len(taken) :]))
        assert queue.size_bytes <= limits.queue_bytes_max or len(queue) == 1
        assert (queue.due_ms() is None) == (not len(queue))
    while len(queue):
        take()
    assert taken == offered


@given(
    st.integers(1, 5),
    st.integers(1, 600),
    st.lists(st.one_of(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), st.none())),
)
def test_each_client_keeps_its_order_and_who_waits_at_the_front_is_in_the_next_bundle(
    places: int, size: int, drawn: list[tuple[str, int] | None]
) -> None:
    """A client offers a batch of so many records; None takes what is next."""
    limits = FlushSettings(
        size_bytes_goal=1, size_bytes_max=size, queue_bytes_max=1 << 20, requests_max=places
    )
    queue: Queue[tuple[str, int]] = Queue(limits)
    offered: dict[str, list[int]] = {client: [] for client in "abc"}
    taken: dict[str, list[int]] = {client: [] for client in "abc"}
    skipped: dict[str, int] = dict.fromkeys("abc", 0)

    def take() -> None:
        some = queue.take()
        assert len(some) <= places
        assert sum(size_of(request) for request, _ in some) <= size or len(some) == 1
        for client in "abc":
            mine = [number for _, (whose, number) in some if whose == client]
            is_waiting = len(taken[client]) < len(offered[client])
            skipped[client] = skipped[client] + 1 if is_waiting and not mine else 0
            assert skipped[client] < 3, "there are two others, and each was before it once"
            taken[client] += mine

    for number, one in enumerate(drawn):
        if one is None:
            take()
        else:
            queue.push(make_append(number, one[1]), number, (one[0], number), one[0])
            offered[one[0]].append(number)
    while len(queue):
        take()
    assert taken == offered
    assert (queue.size_bytes, queue.due_ms()) == (0, None)


def size_of(request: Request) -> int:
    return len(request.body) if isinstance(request, Append) else 0


# ---------------------------------------------------------------------------- heads

rises = st.lists(st.tuples(st.integers(-2, 9), st.integers(-1, 5), st.integers(0, 50)), max_size=90)


@given(rises, st.integers(1, 200), st.lists(st.integers(0, 40), min_size=91, max_size=91))
@example([(1, 0, 1)] * 90, 50, [0] * 91)
def test_a_floor_never_goes_down_and_neither_does_what_may_be_deleted(
    drawn: list[tuple[int, int, int]], grace_ms: int, waits: list[int]
) -> None:
    """And that it may be deleted is said, exactly until floors are forgotten, and then soon."""
    head, since_ms, now_ms, below = Head(lane=3), 0, 0, 0
    true: list[tuple[int, int]] = [(0, 0)]
    for (step, above, passes), wait in zip(drawn, waits, strict=False):
        now_ms += passes
        floor = head.floor + step
        if step <= 0:
            try:
                head.raised(floor, max(floor, head.checkpoint), since_ms)
            except CorruptError:
                continue
            raise AssertionError("a floor that does not rise")
        if above < 0:
            try:
                head.raised(floor, floor - 1, since_ms)
            except CorruptError:
                continue
            raise AssertionError("a floor that stands on nothing")
        head = head.raised(floor, floor + above, since_ms)
        since_ms = now_ms
        true.append((floor, since_ms))
        head = decode_head(encode_head(head), 3)
        assert head.floor == floor
        now_ms += wait
        may = head.deletable(since_ms, now_ms, grace_ms)
        old = [floor for floor, since in true if now_ms - since >= grace_ms]
        assert may in (*old, 0), "never a floor that is too young"
        older = [floor for floor, since in true if now_ms - since >= 4 * grace_ms]
        assert may >= max(older, default=0)
        if len(true) <= FLOORS_MAX:
            assert may == max(old, default=0)
            assert may >= below
            below = may


# ---------------------------------------------------------------------------- locating


def stored(chain: Chain, every: int, missing: Sequence[int]) -> Script:
    """Return a store that holds a chain and its checkpoints, without some of these."""
    script = Script(Rules(grace_ms=4_000, checkpoint_every=every))
    fold, since = Fold(lane=0, every=every), 0
    for bundle, body in zip(chain.bundles, chain.bodies, strict=True):
        script.put(bundle_key(0, bundle.seq), body)
        fold = fold.after(bundle)
        if fold.is_due():
            slice_index = chain.bundles[since : bundle.seq + 1]
            script.put(
                checkpoint_key(0, bundle.seq), encode_checkpoint(fold.checkpoint(slice_index))
            )
            since = bundle.seq + 1
    for seq in missing:
        script.store.perform(Delete(checkpoint_key(0, seq)))
    return script


def lowered(lane: Lane, floor: int) -> None:
    """Let a lane have seen another floor."""
    assert lane.last_look is not None
    seen = {name: getattr(lane.last_look, name) for name in Look.__slots__}
    head = Head(lane=0, floor=floor, checkpoint=max(floor, 1 << 20) if floor else -1)
    lane.last_look = Look(**{**seen, "head": head})


@half
@given(turns, st.integers(1, 4), st.data())
def test_every_offset_at_or_above_the_floor_is_found_and_no_other(
    drawn: Sequence[Turn], every: int, data: st.DataObject
) -> None:
    chain, fold = build(drawn, every)
    missing = data.draw(st.lists(st.integers(0, len(chain.bundles)), max_size=6))
    script = stored(chain, every, missing)
    lane = script.learned()
    top = fold.seq - len(lane.known.bundles)
    floor = data.draw(st.integers(0, max(0, top)))
    lowered(lane, floor)
    for place, end in sorted(fold.ends.items()):
        places: dict[int, int] = {}
        for bundle in chain.bundles:
            for one in bundle.slices:
                if one.topic_partition == place:
                    places |= dict.fromkeys(range(one.base_offset, one.next_offset), bundle.seq)
        offsets = data.draw(st.permutations(range(end + 2)))
        for offset in offsets:
            found = script.run(locate_run(lane, place, offset))
            if offset >= end or places[offset] < floor:
                assert found == [], f"{offset} of {end}, floor {floor}"
                continue
            assert len(found) == 1, f"{offset} of {end}, floor {floor}"
            assert (found[0].seq, found[0].slice.topic_partition) == (places[offset], place)
            assert found[0].slice.base_offset <= offset < found[0].slice.next_offset


@half
@given(turns, st.integers(1, 4), st.data())
def test_a_lane_is_learned_whatever_checkpoints_are_missing(
    drawn: Sequence[Turn], every: int, data: st.DataObject
) -> None:
    chain, fold = build(drawn, every)
    missing = data.draw(st.lists(st.integers(0, len(chain.bundles)), max_size=6))
    script = stored(chain, every, missing)
    hint = data.draw(st.none() | st.integers(-1, len(chain.bundles) + every))
    if hint is not None:
        script.store.perform(PutIfAbsent("_lakelog/lanes/0000/tail", b'{"checkpoint": %d}' % hint))
    lane = script.lane()
    script.run(learn(lane))
    assert lane.fold is not None
    assert state(lane.fold) == state(fold)


@given(turns, st.integers(1, 4))
def test_a_refusal_stores_nothing(drawn: Sequence[Turn], every: int) -> None:
    """What is refused once is refused again by the same fold, alone or in company."""
    chain, fold = build(drawn, every)
    probes = [
        make_append(9_000 + at, 1, (producer, 0, 77), topic=topic)
        for at, (topic, producer) in enumerate((t, p) for t in TOPICS for p in range(3))
    ]
    assume(chain.bundles)
    made = draft(fold, probes, writer=WRITERS[0], now_ms=EPOCH_MS)
    alone = [draft(fold, [one], writer=WRITERS[0], now_ms=EPOCH_MS).outcomes[0] for one in probes]
    for outcome, single, stores in zip(made.outcomes, alone, made.stores, strict=True):
        assert isinstance(outcome, Refused) == isinstance(single, Refused)
        assert stores != isinstance(outcome, Refused)


# ---------------------------------------------------------------------------- many producers

crowds = st.dictionaries(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)),
    st.lists(st.integers(0, 40), max_size=30),
    min_size=1,
)
"""The producers of each partition, by when they were last seen."""


@given(crowds, st.integers(0, 60))
def test_a_partition_keeps_its_producers_whatever_is_written_to_others(
    crowd: dict[tuple[bytes, int], list[int]], most: int
) -> None:
    producers = [
        ((*place, number), ProducerState(0, seen_ms, ()))
        for place, times in crowd.items()
        for number, seen_ms in enumerate(times)
    ]
    kept = dict(_within_quota(producers, most))
    assert len(kept) == min(most, len(producers)), "no more go than must"
    fair = most // len(crowd)
    for place, times in crowd.items():
        mine = {key: seen.seen_ms for key, seen in kept.items() if key[:2] == place}
        assert len(mine) >= min(fair, len(times)), "an equal share is everybody's own"
        gone = [time for at, time in enumerate(times) if (*place, at) not in mine]
        assert not gone or not mine or max(gone) <= min(mine.values()), "the longest idle go"
        if gone:
            most_of_others = (
                max(sum(key[:2] == other for key in kept) for other in crowd if other != place)
                if len(crowd) > 1
                else 0
            )
            assert most_of_others <= len(mine) + 1, "they go where there are the most"


def test_strangers_cannot_make_a_lane_forget_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again is a duplicate, however many producers wrote to other topics."""
    monkeypatch.setattr("lakelog.journal.fold.PRODUCERS_MAX", 5)
    script = Script(Rules(grace_ms=4_000, checkpoint_every=4))
    lane = script.lane()
    mine = make_append(1, 1, (7, 0, 0), topic=TOPICS[0])
    script.append(lane, mine)
    for number in range(40):
        stranger = make_append(2 + number, 1, (100 + number, 0, 0), topic=TOPICS[1])
        script.append(lane, stranger)
    assert lane.fold is not None
    assert len(lane.fold.producers) <= 5 + 4
    (again,) = script.append(lane, mine)
    assert isinstance(again, Stored)
    assert again.duplicate

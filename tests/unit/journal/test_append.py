"""Stories of W2 to W4: every way in which one append can end."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from lakelog.errors import (
    CorruptError,
    InvalidInputError,
    LakelogError,
    TooLargeError,
    UnavailableError,
)
from lakelog.formats.lanes import Event, decode_bundle
from lakelog.journal import (
    Append,
    Begin,
    DeleteTopic,
    Lane,
    Outcome,
    Refusal,
    Refused,
    Stored,
    Touch,
    Unknown,
    flush,
    follow,
    new_append,
    write_checkpoint,
)
from lakelog.journal.fold import MEMORY_MS
from lakelog.model import Record
from lakelog.names import bundle_key, head_key
from lakelog.records import NewBatch, encode_batch
from lakelog.store import Get, GetSuffix, Op, PutIfAbsent, join_body
from tests.unit.journal.script import EPOCH_MS, RULES, TOPIC, Script, plain, sent


def offset_of(outcome: Outcome) -> int:
    assert isinstance(outcome, Stored), outcome
    return outcome.base_offset


def numbers_in(script: Script) -> list[bytes]:
    """The payloads of all bundles that stand, in the order of the chain."""
    keys = sorted(key for key in script.store._objects if key.endswith(".bundle"))
    return [bytes(decode_bundle(script.get(key))[1]) for key in keys]


def copies(script: Script, request: Append) -> int:
    return sum(payload.count(bytes(request.body)) for payload in numbers_in(script))


def puts(script: Script, seq: int) -> list[PutIfAbsent]:
    key = bundle_key(0, seq)
    return [op for op in script.asked if isinstance(op, PutIfAbsent) and op.key == key]


def pair(script: Script) -> tuple[Lane, Lane]:
    """Two processes that know the lane to its end, with three bundles in it."""
    mine, other = script.lane(), script.lane()
    script.append(mine, plain(1))
    script.append(other, plain(2))
    script.append(mine, plain(3))
    script.run(follow(other, other.next_seq))
    assert mine.next_seq == other.next_seq == 3
    mine.counters.clear()
    return mine, other


# ---------------------------------------------------------------------------- W3: created


def test_a_bundle_that_is_created_answers_with_its_place() -> None:
    script = Script()
    lane = script.lane()
    assert script.append(lane, plain(1, 3)) == (
        Stored(base_offset=0, seq=0, epoch=0, created_ms=script.clock.wall),
    )
    first, second = script.append(lane, plain(2, 2), plain(3))
    assert (offset_of(first), offset_of(second)) == (3, 5)
    assert lane.counters["W3 created"] == 2
    assert lane.fold is not None
    assert lane.fold.end((TOPIC, 0)) == 6


def test_times_in_the_chain_never_go_back_though_the_clock_does() -> None:
    script = Script()
    lane = script.lane()
    (first,) = script.append(lane, plain(1))
    script.clock.wall -= 3_600_000
    (second,) = script.append(lane, plain(2))
    assert isinstance(first, Stored)
    assert isinstance(second, Stored)
    assert second.created_ms == first.created_ms


# ---------------------------------------------------------------------------- W3: no answer


@pytest.mark.parametrize("times", [1, 2, 5])
def test_an_answer_that_was_lost_is_found_again_and_is_mine(times: int) -> None:
    script = Script()
    mine, _ = pair(script)
    key = bundle_key(0, 3)
    script.on(PutIfAbsent, key, script.lose_answer)
    for _ in range(times - 1):
        script.on(PutIfAbsent, key, script.lose_request)
    request = plain(4)
    (outcome,) = script.append(mine, request)
    assert offset_of(outcome) == 3
    assert copies(script, request) == 1
    assert mine.counters["W3 mine"] == 1
    assert mine.counters["W3 unknown"] == times
    assert script.is_told


def test_the_retry_is_byte_identical_and_to_the_same_key() -> None:
    script = Script()
    mine, _ = pair(script)
    for _ in range(4):
        script.on(PutIfAbsent, bundle_key(0, 3), script.lose_request)
    script.append(mine, plain(4), sent(0))
    bodies = [join_body(op.body) for op in puts(script, 3)]
    assert len(bodies) == 5
    assert len(set(bodies)) == 1
    assert not puts(script, 4)


def test_between_two_puts_of_the_same_bytes_it_waits_longer_and_longer() -> None:
    script = Script()
    lane = script.lane()
    moments: list[int] = []
    for _ in range(10):
        script.on(
            PutIfAbsent,
            bundle_key(0, 0),
            script.then_lost(lambda: moments.append(script.clock.boot)),
        )
    script.append(lane, plain(1))
    waits = [two - one for one, two in pairwise(moments)]
    assert waits == [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_without_an_answer_and_anothers_there_ours_goes_behind_it() -> None:
    script = Script()
    mine, other = pair(script)
    lost = script.then_lost(lambda: script.append(other, plain(5, 2)))
    script.on(PutIfAbsent, bundle_key(0, 3), lost)
    request = plain(4)
    (outcome,) = script.append(mine, request)
    assert offset_of(outcome) == 5
    assert copies(script, request) == 1
    assert mine.counters["W3 another's"] == 1
    assert mine.counters["fate lost"] == 1


def test_a_lost_look_after_the_put_is_no_lost_put() -> None:
    """W4 has no answer: the bundle is found again, and confirmed once."""
    script = Script()
    mine, _ = pair(script)
    script.pass_ms(RULES.grace_ms)
    script.on(Get, head_key(0), script.lose_request)
    request = plain(4)
    (outcome,) = script.append(mine, request)
    assert offset_of(outcome) == 3
    assert copies(script, request) == 1
    assert mine.counters["W3 mine"] == 1


def test_a_bundle_that_cannot_be_read_is_asked_for_again() -> None:
    script = Script()
    mine, other = pair(script)
    script.append(other, plain(5))
    script.on(GetSuffix, bundle_key(0, 3), script.lose_request)
    (outcome,) = script.append(mine, plain(4))
    assert offset_of(outcome) == 4
    assert script.is_told


# ---------------------------------------------------------------------------- W3: exists


def test_a_lost_race_folds_the_winner_and_comes_next() -> None:
    script = Script()
    mine, other = pair(script)
    for number in range(6):
        script.append(other, plain(10 + number))
    (outcome,) = script.append(mine, plain(4))
    assert outcome == Stored(base_offset=9, seq=9, epoch=4, created_ms=script.clock.wall)
    assert [len(puts(script, seq)) for seq in (3, 9)] == [2, 1]


def test_what_the_winner_of_a_race_stored_is_known_as_a_duplicate() -> None:
    """The producer had no answer from one broker, and sent the same batch to another."""
    script = Script()
    mine, other = pair(script)
    (first,) = script.append(other, sent(0, 2))
    again, new = script.append(mine, sent(0, 2), plain(4))
    assert isinstance(again, Stored)
    assert (again.duplicate, again.base_offset) == (True, offset_of(first))
    assert offset_of(new) == 5
    assert copies(script, sent(0, 2)) == 1


def test_a_batch_that_was_next_before_the_race_is_refused_after_it() -> None:
    """Two producers with one id: the fold of the winner decides, not the fold that was built on."""
    script = Script()
    mine, other = pair(script)
    script.append(other, sent(0, epoch=1))
    refused, stored = script.append(mine, sent(0, epoch=0), plain(4))
    assert refused == Refused(Refusal.FENCED)
    assert offset_of(stored) == 4


def test_an_earlier_attempt_of_the_same_process_is_anothers() -> None:
    """A put of a flush that failed lands late. It has our name, and not our nonce."""
    script = Script()
    mine, earlier = pair(script)
    earlier.writer = mine.writer
    script.append(earlier, plain(8))
    request = plain(4)
    (outcome,) = script.append(mine, request)
    assert offset_of(outcome) == 4
    assert copies(script, request) == 1


def test_a_producer_is_forgotten_a_day_later_and_only_where_a_checkpoint_is_due() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, sent(0))
    script.pass_ms(24 * 3_600_000 + 1)
    known = []
    for number in range(3):
        script.append(lane, plain(number))
        assert lane.fold is not None
        known.append(lane.fold.producer((TOPIC, 0), 7) is not None)
    assert known == [True, True, False]
    assert isinstance(script.append(lane, sent(5))[0], Stored), "anything from one nobody knows"


def test_a_key_said_to_be_occupied_that_never_was_is_put_again() -> None:
    """A conflict that comes back as ``exists`` with nothing stored."""
    script = Script()
    mine, _ = pair(script)
    script.on(PutIfAbsent, bundle_key(0, 3), script.say_exists)
    request = plain(4)
    (outcome,) = script.append(mine, request)
    assert offset_of(outcome) == 3
    assert copies(script, request) == 1
    assert mine.counters["W3 exists, then absent"] == 1
    first, second = puts(script, 3)
    assert join_body(first.body) == join_body(second.body)


# ---------------------------------------------------------------------------- below the floor


def go_on(script: Script, other: Lane, *also: Append) -> Callable[[], None]:
    """Return what happens while a writer sleeps: others append, trim, and delete its key."""

    def happen() -> None:
        for request in (*also, *(plain(50 + number) for number in range(6))):
            script.append(other, request)
            script.run(write_checkpoint(other))
        script.trim(5, 7)
        assert not script.has(bundle_key(0, 3))

    return happen


@pytest.mark.parametrize("unanswered", [False, True])
def test_exists_then_deleted_a_plain_batch_is_unknown(unanswered: bool) -> None:
    """It may have been ours that stood there. It is not appended a second time.

    That the store said "exists" proves nothing: something on the way may have sent our put twice.
    """
    script = Script()
    mine, other = pair(script)
    if unanswered:
        script.on(PutIfAbsent, bundle_key(0, 3), script.lose_answer)
    else:
        script.append(other, plain(49))
    script.on(GetSuffix, bundle_key(0, 3), script.before(go_on(script, other)))
    request = plain(4)
    assert script.append(mine, request) == (Unknown(),)
    assert script.is_told
    assert copies(script, request) == 0
    assert mine.counters["W3 exists, then absent"] == 1
    assert mine.counters["fate unknown"] == 1


@pytest.mark.parametrize("unanswered", [False, True])
def test_exists_then_deleted_an_idempotent_batch_is_appended_again(unanswered: bool) -> None:
    script = Script()
    mine, other = pair(script)
    if unanswered:
        lost = script.then_lost(lambda: script.append(other, plain(49)))
        script.on(PutIfAbsent, bundle_key(0, 3), lost)
    else:
        script.append(other, plain(49))
    script.on(GetSuffix, bundle_key(0, 3), script.before(go_on(script, other)))
    (outcome,) = script.append(mine, sent(0))
    assert isinstance(outcome, Stored)
    assert (outcome.base_offset, outcome.duplicate) == (10, False)
    assert copies(script, sent(0)) == 1


def test_exists_then_deleted_an_idempotent_batch_that_was_sealed_is_a_duplicate() -> None:
    """Ours was stored, the answer was lost, and then it was sealed and deleted: it is in the log.

    A copy behind it would be a second one."""
    script = Script()
    mine, other = pair(script)
    script.on(PutIfAbsent, bundle_key(0, 3), script.lose_answer)
    script.on(GetSuffix, bundle_key(0, 3), script.before(go_on(script, other)))
    (outcome,) = script.append(mine, sent(0))
    assert isinstance(outcome, Stored)
    assert (outcome.base_offset, outcome.duplicate) == (3, True)
    assert copies(script, sent(0)) == 0


def sleeps_before_its_put(script: Script, *also: Append) -> Lane:
    """Return a lane whose next put wins a key that was deleted long ago."""
    mine, other = pair(script)
    script.on(PutIfAbsent, bundle_key(0, 3), script.before(go_on(script, other, *also)))
    return mine


def test_w4_a_plain_batch_that_won_a_deleted_key_is_unknown() -> None:
    script = Script()
    mine = sleeps_before_its_put(script)
    request = plain(4)
    assert script.append(mine, request) == (Unknown(),)
    assert script.has(bundle_key(0, 3)), "it was created, below the floor"
    assert copies(script, request) == 1, "and nowhere else"
    assert mine.counters["W4 passed"] == 1


def test_w4_an_idempotent_batch_that_nobody_stored_is_appended_again() -> None:
    script = Script()
    mine = sleeps_before_its_put(script)
    (outcome,) = script.append(mine, sent(0))
    assert isinstance(outcome, Stored)
    assert (outcome.base_offset, outcome.seq, outcome.duplicate) == (9, 9, False)
    assert mine.counters["W4 passed"] == 1


def test_w4_an_idempotent_batch_that_is_in_the_new_fold_has_its_offset_there() -> None:
    script = Script()
    mine = sleeps_before_its_put(script, plain(48), sent(0, 2))
    (outcome,) = script.append(mine, sent(0, 2))
    assert isinstance(outcome, Stored)
    assert (outcome.base_offset, outcome.duplicate) == (4, True)
    assert mine.counters["W4 passed"] == 1


def test_w4_every_request_of_a_bundle_has_its_own_end() -> None:
    script = Script()
    mine = sleeps_before_its_put(script, sent(0, 2))
    requests = (plain(4), sent(0, 2), sent(0, producer=8), DeleteTopic(topic=b"a" * 16), Touch())
    lost, known, again, deleted, touched = script.append(mine, *requests)
    assert lost == Unknown()
    assert isinstance(known, Stored)
    assert (known.duplicate, known.base_offset) == (True, 3)
    assert isinstance(again, Stored)
    assert (again.duplicate, again.base_offset) == (False, 11)
    assert isinstance(deleted, Stored)
    assert isinstance(touched, Stored)
    assert mine.fold is not None
    assert mine.fold.is_deleted(b"a" * 16)


def test_w4_a_refused_plain_batch_is_no_unknown_one() -> None:
    """Only what the attempt carried can be unknown; a refusal is judged again."""
    script = Script()
    topic = b"b" * 16
    mine, other = script.lane(), script.lane()
    for request in (DeleteTopic(topic=topic), Touch(), Touch()):
        script.append(mine, request)
    script.on(PutIfAbsent, bundle_key(0, 3), script.before(go_on(script, other)))
    refused, lost = script.append(mine, plain(3, topic=topic), plain(4))
    assert refused == Refused(Refusal.TOPIC_DELETED)
    assert lost == Unknown()
    assert mine.counters["W4 passed"] == 1


def test_a_winner_read_from_a_deleted_key_is_not_believed() -> None:
    """The writer of an old key slept, and made it anew. Whoever reads it looks at the floor."""
    script = Script()
    mine, other = pair(script)
    ghost = script.lane()
    script.append(ghost, plain(60))
    body = script.get(bundle_key(0, 3))
    script.delete([bundle_key(0, 3)])

    def happen() -> None:
        go_on(script, other)()
        script.put(bundle_key(0, 3), body)

    script.on(PutIfAbsent, bundle_key(0, 3), script.before(happen))
    lost, stored = script.append(mine, plain(4), sent(0))
    assert lost == Unknown()
    assert offset_of(stored) == 9
    assert mine.counters["floor passed walk"] == 1


# ---------------------------------------------------------------------------- refusals


def test_a_refusal_by_a_stale_fold_is_judged_again() -> None:
    script = Script()
    mine, other = pair(script)
    script.append(mine, sent(0))
    script.append(other, sent(1))
    (outcome,) = script.append(mine, sent(2))
    assert offset_of(outcome) == 5
    assert mine.counters["refusal stale"] == 1


def test_a_refusal_is_final_when_the_next_key_was_seen_to_be_absent() -> None:
    script = Script()
    mine, _ = pair(script)
    script.append(mine, sent(0))
    before = len(script.asked)
    assert script.append(mine, sent(2)) == (Refused(Refusal.OUT_OF_ORDER),)
    assert script.asked[before:] == [GetSuffix(bundle_key(0, 4), 64 << 10)]
    assert not script.has(bundle_key(0, 4))


def test_a_refusal_is_final_with_a_bundle_at_the_very_next_key() -> None:
    script = Script()
    mine, _ = pair(script)
    script.append(mine, sent(0))
    before = len(script.asked)
    refused, stored = script.append(mine, sent(2), plain(9))
    assert refused == Refused(Refusal.OUT_OF_ORDER)
    assert offset_of(stored) == 4
    assert [type(op) for op in script.asked[before:]] == [PutIfAbsent]


def test_an_absent_key_below_the_floor_makes_no_refusal_final() -> None:
    """The next key is absent because it was deleted. In truth the sequence is the next one."""
    script = Script()
    mine, other = pair(script)
    script.append(mine, sent(0))
    happen = go_on(script, other, sent(1))
    script.on(GetSuffix, bundle_key(0, 4), script.before(happen))
    (outcome,) = script.append(mine, sent(2))
    assert offset_of(outcome) == 11
    assert mine.counters["fate gone"] == 1


def test_a_duplicate_needs_no_request() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, sent(0, 2), sent(2))
    before = len(script.asked)
    again = script.append(lane, sent(2), sent(0, 2))
    assert [(offset_of(one), getattr(one, "duplicate", None)) for one in again] == [
        (2, True),
        (0, True),
    ]
    assert len(script.asked) == before


def test_a_duplicate_within_one_flush_is_stored_once() -> None:
    script = Script()
    lane = script.lane()
    first, again = script.append(lane, sent(0, 2), sent(0, 2))
    assert (offset_of(first), offset_of(again)) == (0, 0)
    assert isinstance(again, Stored)
    assert again.duplicate
    assert copies(script, sent(0, 2)) == 1


# ---------------------------------------------------------------------------- deletions, touches


def test_a_deleted_topic_takes_no_more() -> None:
    script = Script()
    lane, other = script.lane(), script.lane()
    script.append(lane, plain(1), sent(0))
    script.append(other, DeleteTopic(topic=TOPIC))
    assert script.append(lane, plain(2), sent(1)) == (Refused(Refusal.TOPIC_DELETED),) * 2
    assert lane.fold is not None
    assert not lane.fold.ends
    assert not lane.fold.producers
    assert isinstance(script.append(lane, plain(3, topic=b"c" * 16))[0], Stored)


def test_a_topic_that_is_deleted_within_a_flush_takes_what_came_before() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, plain(1))
    stored, gone, refused = script.append(lane, plain(2), DeleteTopic(topic=TOPIC), plain(3))
    assert offset_of(stored) == 1
    assert isinstance(gone, Stored)
    assert refused == Refused(Refusal.TOPIC_DELETED)
    assert lane.fold is not None
    assert not lane.fold.ends
    assert (copies(script, plain(2)), copies(script, plain(3))) == (1, 0)


def test_a_topic_is_deleted_once() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, DeleteTopic(topic=TOPIC), DeleteTopic(topic=TOPIC))
    (bundle, _) = decode_bundle(script.get(bundle_key(0, 0)))
    assert len(bundle.events) == 1
    (outcome,) = script.append(lane, DeleteTopic(topic=TOPIC))
    assert isinstance(outcome, Stored)
    assert not script.has(bundle_key(0, 1))


# ---------------------------------------------------------------------------- beginning


def begin(offset: int, partition: int = 0) -> Begin:
    return Begin(topic_partition=(TOPIC, partition), offset=offset)


def test_a_partition_begins_where_it_is_told_to() -> None:
    script = Script()
    lane = script.lane()
    (told,) = script.append(lane, begin(1_000))
    assert offset_of(told) == 1_000
    assert offset_of(script.append(lane, plain(1, 3))[0]) == 1_000
    assert offset_of(script.append(lane, plain(2))[0]) == 1_003
    other = script.lane()
    assert offset_of(script.append(other, plain(3))[0]) == 1_004


def test_the_beginning_outlives_its_bundle_in_a_checkpoint() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, begin(1_000))
    while lane.fold is None or not lane.fold.is_due():
        script.append(lane, Touch())
    script.run(write_checkpoint(lane))
    other = script.lane()
    assert offset_of(script.append(other, plain(1))[0]) == 1_000


def test_what_comes_with_the_beginning_comes_behind_it() -> None:
    script = Script()
    told, first, second, elsewhere = script.append(
        script.lane(), begin(7), plain(1, 2), plain(2), plain(3, partition=1)
    )
    assert [*map(offset_of, (told, first, second, elsewhere))] == [7, 7, 9, 0]
    assert offset_of(script.append(script.lane(), plain(4))[0]) == 10


def test_a_partition_begins_once() -> None:
    script = Script()
    lane = script.lane()
    first, again, other = script.append(lane, begin(7), begin(7), begin(8))
    assert (offset_of(first), offset_of(again)) == (7, 7)
    assert isinstance(again, Stored)
    assert (again.duplicate, again.seq) == (True, -1)
    assert other == Refused(Refusal.BEGUN)
    asked = len(puts(script, 1))
    assert offset_of(script.append(script.lane(), begin(7))[0]) == 7
    assert len(puts(script, 1)) == asked


def test_a_partition_with_records_has_begun() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, plain(1, 3))
    assert script.append(lane, begin(7)) == (Refused(Refusal.BEGUN),)
    later = script.append(lane, plain(2, partition=1), begin(3, partition=1))
    assert later[1] == Refused(Refusal.BEGUN)


def test_a_partition_of_a_deleted_topic_does_not_begin() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, plain(1), DeleteTopic(topic=TOPIC))
    assert script.append(lane, begin(7)) == (Refused(Refusal.TOPIC_DELETED),)


def test_a_chain_in_which_a_partition_begins_twice_is_refused() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, begin(7))
    assert lane.fold is not None
    bundle = lane.known.bundles[-1].bundle
    again = replace(bundle, seq=1, previous=bundle.nonce, nonce=bytes(15) + b"2")
    assert "has begun" in lane.fold.flaw(again)
    other = replace(again, events=(Event.begins(TOPIC, 3, 9),) * 2)
    assert "has begun" in lane.fold.flaw(other)


def test_a_touch_makes_a_bundle_of_nothing() -> None:
    script = Script()
    lane = script.lane()
    (outcome,) = script.append(lane, Touch())
    assert outcome == Stored(base_offset=0, seq=0, epoch=0, created_ms=script.clock.wall)
    bundle, payload = decode_bundle(script.get(bundle_key(0, 0)))
    assert (bundle.slices, bundle.events, bytes(payload)) == ((), (), b"")
    assert offset_of(script.append(script.lane(), plain(1))[0]) == 0


def test_nothing_to_append_asks_for_nothing() -> None:
    script = Script()
    assert script.append(script.lane()) == ()
    assert script.asked == []


# ---------------------------------------------------------------------------- failures


def failing_flush(script: Script) -> tuple[Outcome, ...]:
    lane = script.lane()
    script.append(lane, plain(1), sent(0))
    script.put(bundle_key(0, 1), b"no bundle at all, and long enough to be one of them")
    requests = (plain(2), sent(1), sent(5), DeleteTopic(topic=TOPIC), Touch())
    done = script.run(flush(lane, requests))
    assert isinstance(done.error, CorruptError)
    assert lane.counters["flush failed"] == 1
    outcomes: tuple[Outcome, ...] = done.outcomes
    return outcomes


def test_a_flush_that_fails_answers_every_request_and_calls_none_absent() -> None:
    assert failing_flush(Script()) == (Unknown(),) * 5


@pytest.mark.parametrize("missing", [False, True], ids=["unavailable", "missing"])
def test_a_flush_without_a_head_answers_every_request(missing: bool) -> None:
    script = Script()
    if missing:
        script.delete([head_key(0)])
    else:
        script.on(Get, head_key(0), script.lose_request)
    done = script.run(flush(script.lane(), (plain(1), sent(0))))
    assert done.outcomes == (Unknown(), Unknown())
    assert isinstance(done.error, LakelogError)
    assert isinstance(done.error, UnavailableError) is not missing


def test_after_a_flush_that_failed_the_lane_goes_on() -> None:
    """The put without an answer lands late: what it carried is known, and is not stored twice."""
    script = Script()
    mine, other = pair(script)
    late: list[PutIfAbsent] = []

    def keep(op: object) -> None:
        assert isinstance(op, PutIfAbsent)
        late.append(op)
        script.lose_request(op)

    script.on(PutIfAbsent, bundle_key(0, 3), keep)
    script.on(PutIfAbsent, bundle_key(0, 3), script.say_exists)
    script.on(GetSuffix, bundle_key(0, 3), script.lose_request)
    script.on(PutIfAbsent, bundle_key(0, 3), script.say_exists)
    script.on(Get, head_key(0), script.lose_request)
    done = script.run(flush(mine, (sent(0), plain(4))))
    assert done.outcomes == (Unknown(), Unknown())
    assert script.is_told
    script.store.perform(late[0])
    again, new = script.append(mine, sent(0), plain(5))
    assert isinstance(again, Stored)
    assert (again.base_offset, again.duplicate) == (3, True)
    assert offset_of(new) == 5
    assert [copies(script, one) for one in (sent(0), plain(4), plain(5))] == [1, 1, 1]
    assert offset_of(script.append(other, plain(6))[0]) == 6


# ---------------------------------------------------------------------------- what is too much


def refuse_above(script: Script, size_max: int) -> None:
    """Let the store refuse every larger object, as one with a limit of its own does."""

    def perform(op: Op) -> object:
        if isinstance(op, PutIfAbsent) and op.size > size_max:
            raise TooLargeError("413: split it")
        return script.store.perform(op)

    script._counted = perform


def large(number: int, kib: int = 100, producer: tuple[int, int, int] = (-1, -1, -1)) -> Append:
    """Return a batch of one large record."""
    value = number.to_bytes(8, "big") * (kib * 128)
    record = Record(offset=0, timestamp=EPOCH_MS, key=None, value=value)
    id_, epoch, sequence = producer
    batch = NewBatch(
        records=(record,), producer_id=id_, producer_epoch=epoch, base_sequence=sequence
    )
    return new_append(TOPIC, 0, encode_batch(batch))


def test_a_bundle_that_the_store_does_not_take_is_split() -> None:
    script = Script()
    lane = script.lane()
    requests = [large(number) for number in range(8)]
    refuse_above(script, 3 * len(requests[0].body))
    outcomes = script.append(lane, *requests)
    offsets = [offset_of(outcome) for outcome in outcomes]
    assert offsets == list(range(8)), "in their order"
    assert all(copies(script, request) == 1 for request in requests)
    assert lane.counters["W3 too large"] == 2


def test_a_single_request_that_the_store_does_not_take_is_refused_and_the_rest_stored() -> None:
    script = Script()
    lane = script.lane()
    requests = [plain(1), large(2), plain(3)]
    refuse_above(script, 4_000)
    first, second, third = script.append(lane, *requests)
    assert [offset_of(first), offset_of(third)] == [0, 1]
    assert second == Refused(Refusal.TOO_LARGE)
    assert copies(script, requests[1]) == 0


def test_bundles_grow_again_when_the_store_takes_them() -> None:
    script = Script()
    lane = script.lane()
    refuse_above(script, 200_000)
    script.append(lane, *(large(number) for number in range(4)))
    assert lane.payload_bytes_max < 1 << 20
    refuse_above(script, 1 << 30)
    for turn in range(40):
        script.append(lane, *(large(10 * turn + number) for number in range(4)))
    before = lane.next_seq
    script.append(lane, *(large(1_000 + number) for number in range(4)))
    assert lane.next_seq == before + 1


def slow_above(script: Script, size_max: int, late: list[PutIfAbsent]) -> None:
    """Let every put of a larger object take longer than its time-out."""
    real = script._counted

    def perform(op: Op) -> object:
        if isinstance(op, PutIfAbsent) and op.size > size_max:
            script.pass_ms(30_000)
            late.append(op)
            raise UnavailableError("no answer within 30 s: retry")
        return real(op)

    script._counted = perform


def test_puts_that_cannot_end_in_time_do_not_stop_the_lane() -> None:
    """Plain batches are unknown; those with an identity are stored in smaller bundles."""
    script = Script()
    lane = script.lane()
    mine = [large(number, producer=(7, 0, number)) for number in range(4)]
    others = [large(100 + number) for number in range(4)]
    late: list[PutIfAbsent] = []
    slow_above(script, 2 * len(mine[0].body) + 1_000, late)
    outcomes = script.append(lane, *mine, *others)
    assert [offset_of(one) for one in outcomes[:4]] == [0, 1, 2, 3]
    assert outcomes[4:] == (Unknown(),) * 4
    assert late
    assert lane.putting_since_ms is None


def test_what_was_given_up_and_arrives_late_is_not_stored_twice() -> None:
    script = Script()
    lane = script.lane()
    mine = [large(number, producer=(7, 0, number)) for number in range(4)]
    late: list[PutIfAbsent] = []
    slow_above(script, 3 * len(mine[0].body), late)
    real = script._counted

    def perform(op: Op) -> object:
        if isinstance(op, PutIfAbsent) and op.size < 3 * len(mine[0].body) and late:
            script.store.perform(late[0])  # It arrives just before the smaller one.
        return real(op)

    script._counted = perform
    outcomes = script.append(lane, *mine)
    assert [offset_of(one) for one in outcomes] == [0, 1, 2, 3]
    assert all(copies(script, request) == 1 for request in mine)


def test_a_single_large_request_that_cannot_end_in_time_lets_the_others_pass() -> None:
    script = Script()
    lane = script.lane()
    huge = large(1, kib=400, producer=(7, 0, 0))
    slow_above(script, 300_000, [])
    first, second = script.append(lane, huge, sent(0, producer=8))
    assert first == Unknown()
    assert offset_of(second) == 0
    assert copies(script, huge) == 0


def test_the_same_small_bytes_are_put_for_as_long_as_the_store_is_away() -> None:
    script = Script()
    lane = script.learned()
    for _ in range(40):
        script.on(PutIfAbsent, bundle_key(0, 0), script.lose_request)
    (outcome,) = script.append(lane, plain(1))
    assert offset_of(outcome) == 0
    assert len({join_body(op.body) for op in puts(script, 0)}) == 1


def test_a_definite_refusal_ends_the_flush_and_the_lane_goes_on() -> None:
    script = Script()
    lane = script.lane()

    def refuse(_: Op) -> object:
        raise InvalidInputError("400: check the options of the store")

    script.on(PutIfAbsent, bundle_key(0, 0), refuse)
    done = script.run(flush(lane, [plain(1)]))
    assert done.outcomes == (Unknown(),)
    assert "400" in str(done.error)
    assert len(puts(script, 0)) == 1, "it is not put again and again"
    assert lane.putting_since_ms is None
    assert offset_of(script.append(lane, plain(2))[0]) == 0


# ---------------------------------------------------------------------------- what is too old


@pytest.mark.parametrize("clock", ["both", "wall"])
def test_a_request_that_is_older_than_what_the_lane_remembers_is_not_judged_again(
    clock: str,
) -> None:
    """A writer sleeps in mid-append for longer than a producer is remembered."""
    script = Script()
    mine, other = pair(script)
    batch = sent(0)

    def sleep() -> None:
        script.append(other, batch)  # It reaches the log through another process, ...
        script.pass_ms(MEMORY_MS + 1)
        for number in range(RULES.checkpoint_every):
            script.append(other, plain(50 + number))  # ... which forgets who sent it.
        if clock == "wall":
            script.clock.boot -= MEMORY_MS  # A machine that was frozen did not count the time.

    script.on(PutIfAbsent, bundle_key(0, 3), script.before(sleep))
    assert script.append(mine, batch) == (Unknown(),)
    assert copies(script, batch) == 1
    assert mine.counters["too old to judge"] == 1


def test_a_request_that_has_waited_for_less_is_judged_again() -> None:
    script = Script()
    mine, other = pair(script)

    def sleep() -> None:
        script.append(other, plain(9))
        script.pass_ms(MEMORY_MS // 2 - 60_000)

    script.on(PutIfAbsent, bundle_key(0, 3), script.before(sleep))
    assert offset_of(script.append(mine, sent(0))[0]) == 4

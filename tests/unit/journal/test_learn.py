"""Stories of W1: learning a lane, whatever `tail` says, and stopping where the chain is broken."""

import json
from collections.abc import Callable

import pytest

from lakelog.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.formats.lanes import decode_bundle, decode_checkpoint, encode_bundle, encode_checkpoint
from lakelog.journal import (
    Fold,
    Head,
    Lane,
    Touch,
    decode_head,
    encode_head,
    flush,
    learn,
    write_checkpoint,
)
from lakelog.model import Rules
from lakelog.names import bundle_key, checkpoint_key, head_key, tail_key
from lakelog.store import SOON, Get, GetRange, GetSuffix, ListPage, PutIfAbsent
from lakelog.store import Head as Stat
from tests.unit.journal.script import RULES, TOPIC, Script, plain, sent


def grown(bundles: int) -> tuple[Script, Fold]:
    """Return a lane of some bundles, and what it amounts to."""
    script = Script()
    lane = script.lane()
    script.grow(lane, bundles)
    assert lane.fold is not None
    return script, lane.fold


def same(one: Fold | None, two: Fold) -> bool:
    """Whether two folds are one, and were made of the same chain."""
    return one is not None and one.checkpoint(()) == two.checkpoint(())


def asked_for(script: Script, since: int = 0) -> list[str]:
    return [getattr(op, "key", "a listing").rpartition("/")[2] for op in script.asked[since:]]


def put_tail(script: Script, seq: object) -> None:
    script.put(tail_key(0), json.dumps({"checkpoint": seq}).encode())


# ---------------------------------------------------------------------------- where to begin


@pytest.mark.parametrize("bundles", [0, 1, 3, 4, 5, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("tail", [True, False])
def test_a_lane_is_learned_to_its_end_with_tail_and_without(bundles: int, tail: bool) -> None:
    script = Script()
    lane = script.lane()
    script.grow(lane, bundles)
    if not tail:
        script.forget_tail()
    learned = script.learned()
    assert learned.next_seq == bundles
    if lane.fold is not None:
        assert same(learned.fold, lane.fold)
        assert [held.bundle for held in learned.known.bundles] == [
            held.bundle for held in lane.known.bundles
        ]
        assert learned.checkpoint == lane.checkpoint
    assert not any(isinstance(op, ListPage) for op in script.asked)


def test_an_empty_lane_is_learned_and_has_nothing() -> None:
    script = Script()
    lane = script.learned()
    assert lane.counters["W1 from the first"] == 1
    assert (lane.next_seq, lane.checkpoint, lane.known.bundles) == (0, -1, ())


def test_tail_saves_the_search() -> None:
    script, _ = grown(41)
    before = len(script.asked)
    lane = script.learned()
    assert lane.counters["W1 tail"] == 1
    assert asked_for(script, before)[:4] == [
        "head",
        "tail",
        f"{39:020}.checkpoint",
        f"{43:020}.bundle",
    ]
    assert not any(isinstance(op, Stat) for op in script.asked[before + 4 :])


def test_a_stale_tail_finds_the_checkpoints_that_came_after_it() -> None:
    script, fold = grown(41)
    put_tail(script, 27)
    lane = script.learned()
    assert lane.counters["W1 tail stale"] == 3
    assert (lane.checkpoint, len(lane.known.bundles)) == (39, 1)
    assert same(lane.fold, fold)


def test_a_stale_tail_and_a_missing_checkpoint_cost_reads_and_no_more() -> None:
    script, fold = grown(41)
    put_tail(script, 27)
    script.delete([checkpoint_key(0, 31)])
    lane = script.learned()
    assert lane.checkpoint == 27
    assert same(lane.fold, fold)
    assert len(lane.known.bundles) == 1, "directories since a checkpoint was due, no older ones"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"7",
        b"null",
        b"\xff\xfe\x00",
        b'"checkpoint"',
        b'{"checkpoint": null}',
        b'{"checkpoint": "39"}',
        b'{"checkpoint": true}',
        b'{"checkpoint": 39.0}',
        b'{"checkpoint": -1}',
        b'{"checkpoint": -40}',
        b'{"checkpoint": 1e400}',
        b'{"checkpoint": 99999999999999999999999999}',
        b'{"checkpoint": 4611686018427387904}',
        b"[" * 1000,
        b" " * 2000,
        b'{"checkpoint": 39, "more": "' + b"x" * 5000 + b'"}',
    ],
)
def test_a_tail_of_garbage_is_as_good_as_none(body: bytes) -> None:
    script, fold = grown(41)
    script.put(tail_key(0), body)
    lane = script.learned()
    assert lane.counters["W1 gallop"] == 1
    assert same(lane.fold, fold)
    script.grow(lane, 3)
    assert lane.checkpoint == 43, "and it does not keep a checkpoint from being written"


@pytest.mark.parametrize("seq", [38, 40, 43, 1000, (1 << 62) - 1])
def test_a_tail_that_names_no_checkpoint_is_as_good_as_none(seq: int) -> None:
    script, fold = grown(41)
    put_tail(script, seq)
    lane = script.learned()
    assert lane.counters["W1 gallop"] == 1
    assert same(lane.fold, fold)


def test_a_tail_below_what_the_floor_stands_on_is_not_followed() -> None:
    script, fold = grown(41)
    put_tail(script, 7)
    script.raise_floor(20, 23)
    before = len(script.asked)
    lane = script.learned()
    assert same(lane.fold, fold)
    assert f"{7:020}.checkpoint" not in asked_for(script, before)
    assert lane.counters["W1 gallop"] == 1


def test_without_the_newest_checkpoint_an_older_one_does() -> None:
    script, fold = grown(41)
    script.forget_tail()
    script.delete(checkpoint_key(0, seq) for seq in (39, 35))
    lane = script.learned()
    assert (lane.checkpoint, lane.counters["W1 gallop"]) == (31, 1)
    assert same(lane.fold, fold)


def test_without_any_checkpoint_the_whole_chain_is_read() -> None:
    script, fold = grown(41)
    script.forget_tail()
    script.delete(checkpoint_key(0, seq) for seq in range(41))
    lane = script.learned()
    assert lane.counters["W1 from the first"] == 1
    assert same(lane.fold, fold)


# ---------------------------------------------------------------------------- the floor


def test_a_trimmed_lane_is_learned_from_what_its_floor_stands_on() -> None:
    """Everything expired: the end offset is in that checkpoint, and nowhere else."""
    script, fold = grown(8)
    script.trim(7, 7)
    script.delete([tail_key(0), bundle_key(0, 7)])
    lane = script.learned()
    assert lane.counters["W1 from the floor"] == 1
    assert same(lane.fold, fold)
    (outcome,) = script.append(lane, plain(1))
    assert getattr(outcome, "base_offset", None) == 8


@pytest.mark.parametrize("tail", [True, False])
def test_a_trimmed_lane_that_went_on_is_learned_from_a_later_one(tail: bool) -> None:
    script = Script()
    lane = script.lane()
    script.grow(lane, 9)
    script.trim(6, 7)
    script.grow(lane, 6)
    if not tail:
        script.forget_tail()
    learned = script.learned()
    assert lane.fold is not None
    assert same(learned.fold, lane.fold)
    assert learned.checkpoint == 11


def test_a_floor_that_rises_during_the_walk_makes_it_begin_anew() -> None:
    """What was read may be of keys that were deleted and made again."""
    script, fold = grown(14)
    lane = script.lane()
    script.on(GetSuffix, bundle_key(0, 12), script.before(lambda: script.trim(13, 13)))
    script.put(
        checkpoint_key(0, 13),
        encode_checkpoint(fold.checkpoint(())),
    )
    script.run(learn(lane))
    assert lane.counters["floor passed walk"] == 1
    assert lane.checkpoint == 13
    assert same(lane.fold, fold)


def test_a_checkpoint_that_is_deleted_while_it_is_looked_for_makes_it_begin_anew() -> None:
    script, fold = grown(14)
    script.trim(3, 3)
    script.delete([tail_key(0), *(checkpoint_key(0, seq) for seq in (7, 11))])
    script.put(checkpoint_key(0, 13), encode_checkpoint(fold.checkpoint(())))
    script.on(Get, checkpoint_key(0, 3), script.before(lambda: script.trim(10, 13)))
    lane = script.learned()
    assert lane.counters["W1 checkpoint gone"] == 1
    assert same(lane.fold, fold)


def test_a_lane_that_lost_what_its_floor_stands_on_stops_and_says_so() -> None:
    """It does not ask for ever, and it does not begin at offset 0."""
    script, _ = grown(8)
    script.trim(6, 7)
    script.delete([tail_key(0), checkpoint_key(0, 7)])
    with pytest.raises(NotFoundError, match=r"(?s)checkpoint 7.*Restore the object"):
        script.learned()
    assert len(script.asked) < 60


def test_a_walk_that_ends_without_an_answer_leaves_nothing_unverified() -> None:
    """A checkpoint was read, and the look that would verify it had no answer."""
    script, _ = grown(14)
    lane = script.lane()
    slow = script.before(lambda: script.pass_ms(RULES.grace_ms))
    script.on(Get, checkpoint_key(0, 11), slow)
    script.on(Get, head_key(0), script.lose_request, nth=2)
    with pytest.raises(UnavailableError):
        script.run(learn(lane))
    assert lane.snapshot is None
    assert not lane.is_sure
    assert script.is_told


# ---------------------------------------------------------------------------- stopping


def test_a_missing_head_stops_the_lane_and_names_the_next_step() -> None:
    script, _ = grown(3)
    script.delete([head_key(0)])
    lane = script.lane()
    with pytest.raises(NotFoundError, match="lakelog init"):
        script.run(learn(lane))
    done = script.run(flush(lane, [plain(1)]))
    assert isinstance(done.error, NotFoundError)
    assert "Nothing is written" in str(done.error)
    assert not script.has(head_key(0)), "nobody but init makes one"
    assert not script.has(bundle_key(0, 3))


def test_a_head_that_goes_missing_stops_a_lane_that_knew_it() -> None:
    script = Script()
    lane = script.lane()
    script.grow(lane, 3)
    script.delete([head_key(0)])
    script.pass_ms(RULES.grace_ms)
    done = script.run(flush(lane, [plain(1)]))
    assert isinstance(done.error, NotFoundError)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", CorruptError),
        (b"[]", CorruptError),
        (b"[" * 5000, CorruptError),
        (b'{"format": 2}', UnsupportedError),
        (b'{"format": 1}', CorruptError),
        (encode_head(Head(lane=1)), CorruptError),
        (encode_head(Head(lane=0)).replace(b'"floor": 0', b'"floor": true'), CorruptError),
        (encode_head(Head(lane=0)).replace(b'"floor": 0', b'"floor": -1'), CorruptError),
        (encode_head(Head(lane=0)).replace(b'"floor": 0', b'"floor": 5'), CorruptError),
        (encode_head(Head(lane=0)).replace(b"[]", b"[[1, 2, 3]]"), CorruptError),
        (encode_head(Head(lane=0)).replace(b"[]", b"[[3, 0]]"), CorruptError),
        (b" " * 70_000, UnsupportedError),
    ],
)
def test_a_head_that_is_none_stops_the_lane(body: bytes, error: type[Exception]) -> None:
    script, _ = grown(3)
    script.put(head_key(0), body)
    with pytest.raises(error):
        script.learned()


Damage = Callable[[Script], None]


def _flip(key: str) -> Damage:
    def damage(script: Script) -> None:
        body = bytearray(script.get(key))
        body[-40] ^= 1
        script.put(key, bytes(body))

    return damage


def _swap(key: str, by: str) -> Damage:
    return lambda script: script.put(key, script.get(by))


def _other_nonce(script: Script) -> None:
    bundle, payload = decode_bundle(script.get(bundle_key(0, 5)))
    fields = {name: getattr(bundle, name) for name in bundle.__slots__}
    forged = type(bundle)(**{**fields, "nonce": b"n" * 16})
    script.put(bundle_key(0, 5), encode_bundle(forged, [payload]))


def _other_epoch(script: Script) -> None:
    bundle, payload = decode_bundle(script.get(bundle_key(0, 6)))
    fields = {name: getattr(bundle, name) for name in bundle.__slots__}
    forged = type(bundle)(**{**fields, "epoch": bundle.epoch + 1})
    script.put(bundle_key(0, 6), encode_bundle(forged, [payload]))


def _other_end(script: Script) -> None:
    checkpoint = decode_checkpoint(script.get(checkpoint_key(0, 3)))
    fields = {name: getattr(checkpoint, name) for name in checkpoint.__slots__}
    ends = (checkpoint.ends[0]._replace(offset=3),)
    forged = type(checkpoint)(**{**fields, "ends": ends})
    script.put(checkpoint_key(0, 3), encode_checkpoint(forged))


DAMAGE: dict[str, tuple[Damage, str]] = {
    "a flipped bit in a bundle": (_flip(bundle_key(0, 5)), bundle_key(0, 5)),
    "garbage instead of a bundle": (
        lambda script: script.put(bundle_key(0, 5), b"x" * 99),
        bundle_key(0, 5),
    ),
    "nothing instead of a bundle": (
        lambda script: script.put(bundle_key(0, 5), b""),
        bundle_key(0, 5),
    ),
    "another bundle": (_swap(bundle_key(0, 5), bundle_key(0, 4)), bundle_key(0, 5)),
    "a bundle that nobody names": (_other_nonce, bundle_key(0, 6)),
    "an epoch that does not follow": (_other_epoch, bundle_key(0, 6)),
    "a checkpoint of other offsets": (_other_end, bundle_key(0, 4)),
    "a flipped bit in a checkpoint": (_flip(checkpoint_key(0, 3)), checkpoint_key(0, 3)),
    "another checkpoint": (_swap(checkpoint_key(0, 3), checkpoint_key(0, 7)), checkpoint_key(0, 3)),
    "a bundle instead of a checkpoint": (
        _swap(checkpoint_key(0, 3), bundle_key(0, 3)),
        checkpoint_key(0, 3),
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_in_the_chain_stops_and_is_never_skipped(what: str) -> None:
    damage, key = DAMAGE[what]
    script, _ = grown(10)
    script.delete([tail_key(0)])
    damage(script)
    script.delete([checkpoint_key(0, 7)])
    lane = script.lane()
    for _ in range(2):
        with pytest.raises(CorruptError) as raised:
            script.run(learn(lane))
        assert raised.value.where == key, "the operator is told which object"
    done = script.run(flush(lane, [plain(1)]))
    assert isinstance(done.error, CorruptError)
    assert not script.has(bundle_key(0, 10))


def test_damage_that_is_met_while_following_stops_a_lane_that_knows_all_before_it() -> None:
    script = Script()
    lane, other = script.lane(), script.lane()
    script.append(lane, plain(1))
    script.append(other, plain(2))
    _flip(bundle_key(0, 1))(script)
    done = script.run(flush(lane, [plain(3)]))
    assert isinstance(done.error, CorruptError)
    assert lane.next_seq == 1
    assert not script.has(bundle_key(0, 2))


# ---------------------------------------------------------------------------- large directories


def test_a_directory_larger_than_the_first_read_is_read_whole() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, *(plain(number, partition=number) for number in range(700)))
    script.append(lane, Touch())
    before = len(script.asked)
    learned = script.learned()
    assert lane.fold is not None
    assert same(learned.fold, lane.fold)
    assert asked_for(script, before).count(f"{0:020}.bundle") == 3, "is it there, its end, the rest"


def test_a_bundle_that_is_made_anew_between_two_reads_is_not_mixed() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, *(plain(number, partition=number) for number in range(700)))
    key = bundle_key(0, 0)
    body = script.get(key)
    script.on(GetRange, key, script.before(lambda: script.put(key, body)))
    learned = script.learned()
    assert learned.next_seq == 0, "as good as absent"


# ---------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_is_written_once_it_is_due_and_named_by_the_tail() -> None:
    script = Script()
    lane = script.lane()
    for number in range(4):
        assert script.run(write_checkpoint(lane)) is False
        script.append(lane, plain(number))
    assert script.run(write_checkpoint(lane)) is True
    assert script.run(write_checkpoint(lane)) is False
    assert json.loads(script.get(tail_key(0))) == {"checkpoint": 3}
    checkpoint = decode_checkpoint(script.get(checkpoint_key(0, 3)))
    assert (checkpoint.first, [row.seq for row in checkpoint.slice_index]) == (0, [0, 1, 2, 3])


def test_everybody_writes_the_same_checkpoint() -> None:
    script = Script()
    one, two = script.lane(), script.lane()
    for number in range(9):
        script.append((one, two)[number % 2], sent(number))
    for lane in (one, two):
        script.run(learn(lane))
    bodies = set()
    for lane in (one, two, script.learned()):
        script.delete([checkpoint_key(0, 7)])
        script.run(write_checkpoint(lane))
        bodies.add(script.get(checkpoint_key(0, 7)))
    assert len(bodies) == 1


def test_a_checkpoint_whose_put_had_no_answer_is_still_due() -> None:
    script = Script()
    lane = script.lane()
    for number in range(4):
        script.append(lane, plain(number))
    for _ in range(SOON.attempts_max):
        script.on(PutIfAbsent, checkpoint_key(0, 3), script.lose_request)
    with pytest.raises(UnavailableError):
        script.run(write_checkpoint(lane))
    assert script.run(write_checkpoint(lane)) is True
    assert script.has(checkpoint_key(0, 3))


def test_the_tail_never_goes_back() -> None:
    script = Script()
    slow = script.lane()
    for number in range(4):
        script.append(slow, plain(number))
    script.grow(script.lane(), 4)
    assert json.loads(script.get(tail_key(0))) == {"checkpoint": 7}
    script.run(write_checkpoint(slow))
    assert json.loads(script.get(tail_key(0))) == {"checkpoint": 7}
    assert slow.checkpoint == 3


def test_bundles_name_the_newest_checkpoint_that_their_writer_knew() -> None:
    script, _ = grown(10)
    named = [decode_bundle(script.get(bundle_key(0, seq)))[0].checkpoint for seq in range(10)]
    assert named == [-1] * 4 + [3] * 4 + [7] * 2


def test_a_bundle_over_everything_that_a_checkpoint_carries_folds_to_the_same() -> None:
    """Every bundle is due: the fold is always one that was read from a checkpoint."""
    script = Script(Rules(grace_ms=4_000, checkpoint_every=1))
    lane: Lane = script.lane()
    for sequence in range(8):
        script.append(lane, sent(sequence), plain(sequence))
        script.run(write_checkpoint(lane))
        learned = script.learned()
        assert lane.fold is not None
        assert same(learned.fold, lane.fold)
        assert learned.fold is not None
        assert learned.fold.end((TOPIC, 0)) == 2 * (sequence + 1)


def test_the_head_is_as_it_was_when_only_bundles_come() -> None:
    script, _ = grown(20)
    assert decode_head(script.get(head_key(0)), 0) == Head(lane=0)

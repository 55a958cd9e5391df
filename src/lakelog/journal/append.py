"""Append: the one place where the journal grows (W2 to W4).

    W2 build    judge every request against the fold of 0 to s - 1, give offsets, make bundle s
       put      create key s; without an answer put the same bytes to the same key, for as long as
                it takes to see that the key is occupied
    W3 answer   created              -> W4
                exists, mine         -> W4            an earlier put had succeeded
                exists, another's    -> take it in, and what follows it; W2 for the next key
                exists, then absent  -> it was deleted: learn the lane again
    W4 confirm  the floor has not passed s            -> it is so: answer every request
                it has: what we made may be a key that was deleted, and means nothing. Learn again

After "learn again" the new fold decides. A batch that is found there is answered with its offset.
One that is not is appended again, if it has an identity by which a second copy would be noticed. A
plain batch has none; once it was sent its outcome is unknown, and so it is answered, and never
appended a second time. That we were told "exists" says nothing: a proxy or a library may have sent
our put twice, and it may have been ours.

A refusal is judged by the fold as well, and the fold may be behind. It is final when the bundle was
stored at the very next key, or that key was seen to be absent.
"""

from collections.abc import Sequence
from enum import Enum, auto

from lakelog.errors import UnavailableError
from lakelog.formats.lanes import Bundle
from lakelog.journal.draft import Draft, draft
from lakelog.journal.lane import Held, Lane, floor_holds
from lakelog.journal.requests import Outcome, Refused, Request, Unknown
from lakelog.journal.walk import follow, learn, read_bundle
from lakelog.names import bundle_key
from lakelog.store import Created, Wait, Work, put_if_absent

__all__ = ["append"]

DELAY_MS_MIN = 50
DELAY_MS_MAX = 5_000
"""Between two puts of the same bytes."""


class _Fate(Enum):
    STORED = auto()
    LOST = auto()
    """Another bundle stands there, and has been taken in. Ours was not stored."""
    GONE = auto()
    """The key is below the floor, and nothing of ours was sent there."""
    UNKNOWN = auto()
    """The key is below the floor, and ours may have been stored before."""


def append(lane: Lane, requests: Sequence[Request]) -> Work[tuple[Outcome, ...]]:
    """Store requests in one bundle, and say what became of each.

    Whoever drives this answers *every* request: with its outcome, or, if this raises, with an
    error that does not say that it is absent.
    """
    outcomes: dict[int, Outcome] = {}
    left = list(enumerate(requests))
    while left:
        if not lane.is_sure:
            yield from learn(lane)
        made = draft(
            lane.known.fold,
            [request for _, request in left],
            writer=lane.writer,
            now_ms=lane.clock.now_ms(),
        )
        fate = yield from (_settle(lane, made) if made.is_empty else _store(lane, made))
        lane.notes[f"fate {fate.name.lower()}"] += 1
        if fate is _Fate.STORED:
            outcomes.update(zip((at for at, _ in left), made.outcomes, strict=True))
            left = []
        elif fate is _Fate.UNKNOWN:
            stored = dict(zip((at for at, _ in left), made.stores, strict=True))
            lost = {at for at, request in left if stored[at] and request.is_plain}
            outcomes.update(dict.fromkeys(lost, Unknown()))
            left = [(at, request) for at, request in left if at not in lost]
    return tuple(outcomes[at] for at in range(len(requests)))


def _settle(lane: Lane, made: Draft) -> Work[_Fate]:
    """There is nothing to store: only duplicates, which are known, and refusals."""
    if not any(isinstance(outcome, Refused) for outcome in made.outcomes):
        return _Fate.STORED
    seq = lane.next_seq
    found = yield from read_bundle(lane, seq)
    if found is not None:
        lane.notes["refusal stale"] += 1
        return (yield from _follow(lane, seq, found))
    if (yield from floor_holds(lane, seq)):
        return _Fate.STORED
    lane.forget()
    return _Fate.GONE


def _store(lane: Lane, made: Draft) -> Work[_Fate]:
    """Create the next bundle, or learn who did."""
    seq = lane.next_seq
    bundle, body = made.finish(writer=lane.writer, nonce=lane.ids(), checkpoint=lane.checkpoint)
    key, delay_ms = bundle_key(lane.number, seq), DELAY_MS_MIN
    while True:
        try:
            answer = yield from put_if_absent(key, body)
            if isinstance(answer, Created):
                lane.notes["W3 created"] += 1
                return (yield from _confirm(lane, Held(bundle, answer.etag, sum(map(len, body)))))
            found = yield from read_bundle(lane, seq)
        except UnavailableError:
            lane.notes["W3 unknown"] += 1
            yield Wait(delay_ms)
            delay_ms = min(2 * delay_ms, DELAY_MS_MAX)
            continue
        if found is None:
            lane.notes["W3 exists, then absent"] += 1
            yield Wait(delay_ms)
            yield from learn(lane)
            if lane.next_seq != seq:
                return _Fate.UNKNOWN
        elif _is_mine(found.bundle, bundle):
            lane.notes["W3 mine"] += 1
            return (yield from _confirm(lane, found))
        else:
            lane.notes["W3 another's"] += 1
            fate = yield from _follow(lane, seq, found)
            return _Fate.UNKNOWN if fate is _Fate.GONE else fate


def _is_mine(found: Bundle, mine: Bundle) -> bool:
    return found.nonce == mine.nonce


def _follow(lane: Lane, seq: int, found: Held) -> Work[_Fate]:
    if (yield from follow(lane, seq, found)):
        return _Fate.LOST
    return _Fate.GONE


def _confirm(lane: Lane, held: Held) -> Work[_Fate]:
    """W4: it was stored at this key; does the key count?"""
    seq = held.bundle.seq
    if (yield from floor_holds(lane, seq)):
        lane.notes["W4 holds"] += 1
        lane.take(held)
        return _Fate.STORED
    lane.notes["W4 passed"] += 1
    lane.forget()
    return _Fate.UNKNOWN

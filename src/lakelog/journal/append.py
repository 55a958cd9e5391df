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

A bundle may be larger than the store accepts. If the store says so, nothing was stored, and half of
the requests are tried. If puts are not answered for ``PATIENCE_MS``, it may be that a put of this
size cannot end within its time-out. Then the bundle is given up: the outcome of its plain batches
is unknown, the others are tried again in smaller bundles, and those who wait behind it get their
turn. What was given up may still arrive at its key. The next bundle then finds the key taken, and
the earlier one is read and taken in as if another process had made it.

The fold forgets a producer after ``MEMORY_MS``. A request that has been here for half of that time,
because this process was suspended, is not judged again: what would have shown that it is a
duplicate may be forgotten. Its outcome is unknown.
"""

from collections.abc import Sequence
from enum import Enum, auto

from lakelog.errors import TooLargeError, UnavailableError
from lakelog.formats.lanes import PAYLOAD_BYTES_MAX, Bundle
from lakelog.journal.draft import Draft, draft
from lakelog.journal.fold import MEMORY_MS
from lakelog.journal.lane import KnownBundle, Lane, floor_holds
from lakelog.journal.requests import (
    Outcome,
    Refusal,
    Refused,
    Request,
    Unknown,
    request_bytes,
)
from lakelog.journal.timekeeping import stamp
from lakelog.journal.walk import follow, learn, read_bundle
from lakelog.names import bundle_key
from lakelog.store import Created, Wait, Work, put_if_absent

__all__ = ["append"]

DELAY_MS_MIN = 50
DELAY_MS_MAX = 5_000
"""Between two puts of the same bytes."""

PATIENCE_MS = 60_000
"""For so long the same bytes are put again; then the bundle is given up, if it could be smaller."""
SMALL_BYTES = 256 << 10
"""A bundle of this size is small enough for every store: it is never given up for its size."""

JUDGED_MS_MAX = MEMORY_MS // 2
"""A request that is older is not judged again."""


class _Fate(Enum):
    STORED = auto()
    LOST = auto()
    """Another bundle stands there, and has been taken in. Ours was not stored."""
    GONE = auto()
    """The key is below the floor, and nothing of ours was sent there."""
    UNKNOWN = auto()
    """The key is below the floor, and ours may have been stored before."""
    TOO_LARGE = auto()
    """The store does not take it. Nothing of ours was stored."""
    GIVEN_UP = auto()
    """There was no answer, and no end of trying: ours may be stored, now or later."""


def append(lane: Lane, requests: Sequence[Request]) -> Work[tuple[Outcome, ...]]:
    """Store requests in one bundle, and say what became of each.

    Whoever drives this answers *every* request: with its outcome, or, if this raises, with an
    error that does not say that it is absent.
    """
    outcomes: dict[int, Outcome] = {}
    left = list(enumerate(requests))
    begun = lane.clock.boot_ms(), lane.clock.now_ms()
    most = len(left)
    while left:
        if lane.elapsed_ms(*begun) > JUDGED_MS_MAX:
            lane.counters["too old to judge"] += 1
            outcomes.update((at, Unknown()) for at, _ in left)
            break
        if not lane.is_sure:
            yield from learn(lane)
            continue
        some = _first(left, most, lane.payload_bytes_max)
        made = draft(
            lane.known.fold,
            [request for _, request in some],
            writer=lane.writer,
            now_ms=(yield from stamp(lane.time, lane.clock, lane.ids)),
        )
        fate = yield from _kept_time(lane, made)
        lane.counters[f"fate {fate.name.lower()}"] += 1
        if fate is _Fate.TOO_LARGE or fate is _Fate.GIVEN_UP:
            most = max(len(some) // 2, 1)
            lane.payload_bytes_max = max(made.size_bytes // 2, SMALL_BYTES)
        ended = _ended(fate, some, made)
        outcomes.update(ended)
        left = [one for one in left if one[0] not in ended]
    return tuple(outcomes[at] for at in range(len(requests)))


_Numbered = list[tuple[int, Request]]


def _first(left: _Numbered, most: int, bytes_max: int) -> _Numbered:
    """Return the requests of the next bundle, at least one."""
    size = 0
    for at, (_, request) in enumerate(left[:most]):
        size += request_bytes(request)
        if at and size > bytes_max:
            return left[:at]
    return left[:most]


def _ended(fate: _Fate, some: _Numbered, made: Draft) -> dict[int, Outcome]:
    """Return the outcomes of those requests that are not tried again."""
    if fate is _Fate.STORED:
        return dict(zip((at for at, _ in some), made.outcomes, strict=True))
    if fate is _Fate.TOO_LARGE and len(some) == 1:
        return {some[0][0]: Refused(Refusal.TOO_LARGE)}
    if fate is _Fate.UNKNOWN or fate is _Fate.GIVEN_UP:
        # A request that was given up alone is not tried again: it would block all the others.
        alone = fate is _Fate.GIVEN_UP and len(some) == 1
        return {
            at: Unknown()
            for (at, request), stored in zip(some, made.stores, strict=True)
            if stored and (request.is_plain or alone)
        }
    return {}


def _kept_time(lane: Lane, made: Draft) -> Work[_Fate]:
    """Store a draft, and let the lane say since when it is being stored."""
    lane.putting_since_ms = since_ms = lane.clock.boot_ms()
    try:
        if made.is_empty:
            return (yield from _confirm_refusals(lane, made))
        fate = yield from _store(lane, made)
        lane.put_times.note(lane.clock.boot_ms() - since_ms)
        return fate
    finally:
        lane.putting_since_ms = None


def _confirm_refusals(lane: Lane, made: Draft) -> Work[_Fate]:
    """There is nothing to store: only duplicates, which are known, and refusals."""
    if not any(isinstance(outcome, Refused) for outcome in made.outcomes):
        return _Fate.STORED
    seq = lane.next_seq
    found = yield from read_bundle(lane, seq)
    if found is not None:
        lane.counters["refusal stale"] += 1
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
    size, since_ms, unanswered = sum(map(len, body)), lane.clock.boot_ms(), False
    while True:
        try:
            answer = yield from put_if_absent(key, body)
            if isinstance(answer, Created):
                lane.counters["W3 created"] += 1
                _let_grow(lane, made.size_bytes)
                return (yield from _confirm(lane, KnownBundle(bundle, answer.etag, size)))
            found = yield from read_bundle(lane, seq)
        except TooLargeError:
            lane.counters["W3 too large"] += 1
            # An earlier put of it may have been taken, by a store that has changed its mind.
            return _Fate.GIVEN_UP if unanswered else _Fate.TOO_LARGE
        except UnavailableError:
            lane.counters["W3 unknown"] += 1
            unanswered = True
            waited_ms = lane.clock.boot_ms() - since_ms
            if made.size_bytes > SMALL_BYTES and waited_ms > PATIENCE_MS:
                lane.counters["W3 given up"] += 1
                return _Fate.GIVEN_UP
            yield Wait(delay_ms)
            delay_ms = min(2 * delay_ms, DELAY_MS_MAX)
            continue
        if found is None:
            lane.counters["W3 exists, then absent"] += 1
            yield Wait(delay_ms)
            yield from learn(lane)
            if lane.next_seq != seq:
                return _Fate.UNKNOWN
        elif _is_mine(found.bundle, bundle):
            lane.counters["W3 mine"] += 1
            return (yield from _confirm(lane, found))
        else:
            lane.counters["W3 another's"] += 1
            fate = yield from _follow(lane, seq, found)
            return _Fate.UNKNOWN if fate is _Fate.GONE else fate


def _let_grow(lane: Lane, size: int) -> None:
    """A bundle as large as we dared was stored: the next one may be twice as large."""
    if 2 * size >= lane.payload_bytes_max:
        lane.payload_bytes_max = min(2 * lane.payload_bytes_max, PAYLOAD_BYTES_MAX)


def _is_mine(found: Bundle, mine: Bundle) -> bool:
    return found.nonce == mine.nonce


def _follow(lane: Lane, seq: int, found: KnownBundle) -> Work[_Fate]:
    if (yield from follow(lane, seq, found)):
        return _Fate.LOST
    return _Fate.GONE


def _confirm(lane: Lane, held: KnownBundle) -> Work[_Fate]:
    """W4: it was stored at this key; does the key count?"""
    seq = held.bundle.seq
    if (yield from floor_holds(lane, seq)):
        lane.counters["W4 holds"] += 1
        lane.take(held)
        return _Fate.STORED
    lane.counters["W4 passed"] += 1
    lane.forget()
    return _Fate.UNKNOWN

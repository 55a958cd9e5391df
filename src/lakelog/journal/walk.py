"""Walking a lane: read bundles in order, and learn where it ends (W1).

    look at the head          floor, and the checkpoint it stands on
    find a place to begin     `tail` names a recent checkpoint; else gallop along the keys, which
                              have no holes from the floor on, and bisect
    fold                      a checkpoint, then every directory behind it to the first absent key
    look again                the floor has not passed what was used; else begin anew

A directory is the end of its bundle: one request for an ordinary one. They are asked for many at a
time. ``tail`` may be stale, wrong or gone: that costs requests and never safety, because nothing
counts that was not read from the chain.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.formats.lanes import (
    CHECKPOINT_BYTES_MAX,
    Checkpoint,
    bundle_directory_start,
    decode_checkpoint,
    decode_directory,
)
from lakelog.journal.fold import Fold, TopicIdPartition
from lakelog.journal.lane import KnownBundle, Lane, Snapshot, floor_holds, look
from lakelog.names import bundle_key, checkpoint_key, tail_key
from lakelog.store import (
    Fetched,
    Get,
    GetRange,
    GetSuffix,
    Work,
    ask,
    fetch_many,
    is_there,
)

__all__ = [
    "DIRECTORIES_AT_ONCE",
    "checkpoint_in",
    "follow",
    "learn",
    "probe",
    "read_bundle",
    "read_bundles",
    "read_checkpoint",
]

SUFFIX_BYTES = 64 << 10
"""Asked for of a bundle: the directory of an ordinary one and more."""

TAIL_BYTES_MAX = 1 << 10

DIRECTORIES_AT_ONCE = 16
"""Directories of bundles, or checkpoints, that are asked for at a time."""


# ---------------------------------------------------------------------------- reading


def read_bundle(lane: Lane, seq: int) -> Work[KnownBundle | None]:
    """Return the bundle at a key, or None if there is none."""
    (found,) = yield from read_bundles(lane, (seq,))
    return found


def read_bundles(lane: Lane, seqs: Sequence[int]) -> Work[list[KnownBundle | None]]:
    """Return what stands at each key.

    Raises:
        CorruptError, UnsupportedError: something else stands there.
        UnavailableError: a read had no answer.
    """
    ends = yield from fetch_many(
        [GetSuffix(bundle_key(lane.number, seq), SUFFIX_BYTES) for seq in seqs]
    )
    found: list[KnownBundle | None] = []
    for seq, end in zip(seqs, ends, strict=True):
        found.append(None if end is None else (yield from _bundle_in(lane, seq, end)))
    return found


def _bundle_in(lane: Lane, seq: int, end: Fetched) -> Work[KnownBundle | None]:
    size, tail = end.info.size, end.body
    with _named(end.info.key):
        start = bundle_directory_start(tail, size)
    if start < end.start:
        try:
            more = yield from ask(GetRange(end.info.key, start, size))
        except NotFoundError:
            return None
        if more.info.etag != end.info.etag:
            return None  # Deleted and made again meanwhile: as good as absent.
        tail = more.body
    with _named(end.info.key):
        bundle = decode_directory(tail, size)
    if (bundle.lane, bundle.seq) != (lane.number, seq):
        what = f"it holds bundle {bundle.seq} of lane {bundle.lane}: restore the right one"
        raise CorruptError(what, at=start, where=end.info.key)
    return KnownBundle(bundle, end.info.etag, size)


@contextmanager
def _named(key: str) -> Iterator[None]:
    """A format knows what is wrong with bytes, and not which object they are of."""
    try:
        yield
    except (CorruptError, UnsupportedError) as error:
        raise type(error)(error.what, at=error.at, where=key) from error


def read_checkpoint(
    lane: Lane, seq: int, known: Mapping[int, Checkpoint] | None = None
) -> Work[Checkpoint | None]:
    """Return a checkpoint, or None if there is none. One that is ``known`` by the time its bytes
    have come is not decoded again: many ask for the same at once.
    """
    key = checkpoint_key(lane.number, seq)
    try:
        found = yield from ask(Get(key, CHECKPOINT_BYTES_MAX))
    except NotFoundError:
        return None
    if known is not None and seq in known:
        return known[seq]
    return checkpoint_in(found, lane, seq)


def checkpoint_in(
    found: Fetched, lane: Lane, seq: int, partitions: Sequence[TopicIdPartition] | None = None
) -> Checkpoint:
    """Return the checkpoint that an object holds, or what it says of some partitions.

    Raises:
        CorruptError, UnsupportedError: it is none, or another one.
    """
    with _named(found.info.key):
        checkpoint = decode_checkpoint(found.body, partitions)
    if (checkpoint.lane, checkpoint.seq) != (lane.number, seq):
        what = f"it holds checkpoint {checkpoint.seq} of lane {checkpoint.lane}"
        raise CorruptError(what, at=0, where=found.info.key)
    return checkpoint


# ---------------------------------------------------------------------------- learning


def learn(lane: Lane) -> Work[Fold]:
    """Learn the lane from what is stored: afterwards its fold is verified (W1).

    Raises:
        NotFoundError: the head is gone, or the checkpoint that it names; the lane stops.
        CorruptError: this is not a chain.
    """
    lane.counters["W1"] += 1
    lane.forget()
    while True:
        seen = yield from look(lane)
        begun = yield from _begin(lane, seen.head.floor, seen.head.checkpoint)
        if begun is None:
            lane.counters["W1 checkpoint gone"] += 1
            if (yield from look(lane)).head == seen.head:
                raise _floorless(lane, seen.head.checkpoint)
            continue
        fold, used = begun
        if not (yield from floor_holds(lane, used)):
            lane.counters["floor passed walk"] += 1
            continue
        learned = yield from _walk(lane, Snapshot(fold=fold), used)
        if learned is not None:
            _check_grown(lane, learned)
            lane.counters["W1 learned"] += 1
            lane.publish(learned)
            lane.stands(fold.seq)
            return learned.fold


def _check_grown(lane: Lane, learned: Snapshot) -> None:
    """A lane never becomes shorter. One that did is not the one that readers were told of."""
    known = lane.snapshot
    if known is not None and learned.fold.seq < known.fold.seq:
        what = (
            f"the lane ends at bundle {learned.fold.seq}, and this process has read bundle "
            f"{known.fold.seq}: objects were deleted, or an older copy was restored. Stop every "
            "process that uses the namespace, restore what is missing, then start them again"
        )
        raise CorruptError(what, at=0, where=bundle_key(lane.number, learned.fold.seq + 1))


def _floorless(lane: Lane, seq: int) -> NotFoundError:
    """Nobody deletes at or above a floor: this one is lost, and asking again does not help."""
    return NotFoundError(
        f"lane {lane.number} has no checkpoint {seq}, on which its floor stands: it was deleted. "
        f"Nothing is written. Restore the object {checkpoint_key(lane.number, seq)}"
    )


def follow(lane: Lane, used: int, found: KnownBundle | None = None) -> Work[bool]:
    """Take in every bundle from the next key to the first absent one.

    ``used`` is the lowest key that anything not yet verified was learned from, and ``found`` is
    what is known to stand at the next key. Returns False, and is sure of nothing, if the floor has
    passed ``used`` meanwhile.

    Raises:
        CorruptError: the floor has not, and this is not a chain.
    """
    try:
        after = yield from _walk(lane, lane.known, used, found)
    except CorruptError:
        lane.forget()
        raise
    if after is None:
        lane.forget()
        return False
    lane.publish(after)
    return True


def _walk(
    lane: Lane, known: Snapshot, used: int, found: KnownBundle | None = None
) -> Work[Snapshot | None]:
    """Return what is known with every bundle behind it; None: the floor has passed ``used``."""
    every = lane.rules.checkpoint_every
    chain = [] if found is None else [found]
    width, hole, torn, ended = (1 if found else DIRECTORIES_AT_ONCE), -1, False, False
    while True:
        if not (yield from floor_holds(lane, used)):
            lane.counters["floor passed walk"] += 1
            return None
        for held in chain:
            flaw = known.fold.flaw(held.bundle)
            if flaw:
                raise CorruptError(flaw, at=0, where=bundle_key(lane.number, held.bundle.seq))
            known = known.after(held)
        if torn:
            what = "it is missing, and a later one is there: it was deleted. Restore it"
            raise CorruptError(what, at=0, where=bundle_key(lane.number, hole))
        if ended:
            return known
        # What was taken in is verified; from here on only what comes now can be passed. And not
        # beyond where a checkpoint is due: so a walk asks for no more keys than lie between two.
        used = known.fold.seq + 1
        window = min(width, every - used % every)
        some = yield from read_bundles(lane, range(used, used + window))
        chain = [held for held in takewhile(lambda held: held is not None, some) if held]
        # Keys are read side by side, so one may have been made between. A second look tells.
        gap = any(some[len(chain) :])
        torn, hole = gap and used + len(chain) == hole, used + len(chain) if gap else -1
        ended = len(chain) < window and not gap
        width = min(2 * width, DIRECTORIES_AT_ONCE)


def probe(lane: Lane) -> Work[None]:
    """Know the lane to its end: by one request, if nobody has appended since."""
    if lane.is_sure:
        seq = lane.next_seq
        found = yield from read_bundle(lane, seq)
        if found is not None:
            if (yield from follow(lane, seq, found)):
                return
        elif (yield from floor_holds(lane, seq)):
            return
    yield from learn(lane)


def _begin(lane: Lane, floor: int, stands_on: int) -> Work[tuple[Fold, int] | None]:
    """Return a fold to begin with, and the lowest key that it may rest on."""
    every = lane.rules.checkpoint_every
    hint = yield from _tail(lane)
    if hint is not None and hint > stands_on:
        checkpoint = yield from read_checkpoint(lane, hint)
        later = hint + every
        while checkpoint is not None and (yield from _is_there(lane, later)):
            # The tail was not renewed. What it should name may stand all the same.
            lane.counters["W1 tail stale"] += 1
            newer = yield from read_checkpoint(lane, later)
            if newer is None:
                break
            checkpoint, later = newer, later + every
        if checkpoint is not None:
            lane.counters["W1 tail"] += 1
            return Fold.of(checkpoint, every), checkpoint.seq
    last = yield from _last(lane, max(floor, stands_on))
    seq = (last + 1) // every * every - 1
    while seq > stands_on:
        checkpoint = yield from read_checkpoint(lane, seq)
        if checkpoint is not None:
            lane.counters["W1 gallop"] += 1
            return Fold.of(checkpoint, every), seq
        seq -= every
    if stands_on < 0:
        lane.counters["W1 from the first"] += 1
        return Fold(lane=lane.number, every=every), 0
    checkpoint = yield from read_checkpoint(lane, stands_on)
    lane.counters["W1 from the floor"] += 1
    return None if checkpoint is None else (Fold.of(checkpoint, every), stands_on)


def _tail(lane: Lane) -> Work[int | None]:
    try:
        found = yield from ask(GetRange(tail_key(lane.number), 0, TAIL_BYTES_MAX))
        seq = json.loads(found.body)["checkpoint"]
    except (NotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return seq if type(seq) is int and 0 <= seq < 1 << 62 else None


def _is_there(lane: Lane, seq: int) -> Work[bool]:
    return (yield from is_there(bundle_key(lane.number, seq)))


def _last(lane: Lane, start: int) -> Work[int]:
    """Return the last key that is occupied, ``start - 1`` if that one is not: gallop, bisect."""
    if not (yield from _is_there(lane, start)):
        return start - 1
    low, step = start, 1
    while (yield from _is_there(lane, low + step)):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from _is_there(lane, middle)):
            low = middle
        else:
            high = middle
    return low

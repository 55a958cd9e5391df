"""Trim: the floor of a lane rises over what is sealed; later, what lies below it is deleted.

    trim   every slice below x is sealed, and a checkpoint at or after x was read back and is right
           -> compare-and-swap the head: floor = x
    reap   a floor is as old as the grace, by the head's own record and the store's clock
           -> delete the bundles and checkpoints below it

A slice is sealed when a manifest of the same topic id, read after the head was looked at, ends
behind it; when nobody may read it any more; or when its topic was deleted. A manifest that is not
there is none of these. Between the two steps lies the grace: whoever looked at the head less than a
quarter of it ago may still act on keys that are now below the floor.

Deletion goes by listing, not by counting from the last floor: a put that was in the network for
hours may have made a key anew, below the floor, where nobody sees it.
"""

from dataclasses import dataclass, replace

from lakelog.catalog import Topic
from lakelog.errors import UnavailableError
from lakelog.formats.lanes import Checkpoint
from lakelog.journal import (
    DeleteTopic,
    Due,
    Fold,
    Lane,
    Look,
    Touch,
    append,
    encode_head,
    look,
    read_checkpoint,
    write_checkpoint,
)
from lakelog.log import refresh
from lakelog.maintenance.backlog import Backlog, Catalog, try_histories
from lakelog.manifests import Manifest
from lakelog.names import head_key, lane_prefix, seq_of
from lakelog.store import (
    ListPage,
    Replaced,
    Unanswered,
    Work,
    ask,
    delete_many,
    put_if_match,
)

__all__ = ["Trimmed", "append_topic_tombstones", "end_lane", "reap", "trim"]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Where the floor was, and where it is."""

    before: int
    floor: int


def end_lane(
    lane: Lane, backlog: Backlog | None, catalog: Catalog, *, now_ms: int, idle: bool
) -> Work[tuple[int, int]]:
    """Trim and reap a lane; return how many bundles the floor has passed, and objects are gone.

    ``now_ms`` is the store's time.
    """
    passed = 0
    if backlog is not None:
        trimmed = yield from trim(lane, backlog, catalog, idle=idle)
        passed = trimmed.floor - trimmed.before
    reaped = yield from reap(lane, now_ms)
    yield from write_checkpoint(lane)
    return passed, reaped


def trim(lane: Lane, backlog: Backlog, catalog: Catalog, *, idle: bool = False) -> Work[Trimmed]:
    """Raise the floor as far as everything below is sealed.

    ``idle``: nobody appends. Then an empty bundle and a checkpoint of it are made, so that the
    floor can pass everything else.
    """
    floor = backlog.floor
    sealed = yield from _sealed_to(lane, backlog, catalog)
    if sealed <= floor:
        return Trimmed(floor, floor)
    if idle and sealed == floor + len(backlog.bundles) and _is_worth_it(backlog):
        yield from append(lane, [Touch()])
        yield from write_checkpoint(lane, _newest_checkpoint(lane))
    else:
        yield from write_checkpoint(lane)
    checkpoint = yield from _good_checkpoint(lane, backlog)
    if checkpoint is None:
        return Trimmed(floor, floor)
    x = _target(sealed, checkpoint.seq)
    raised = x > floor and (yield from _raise(lane, backlog.look, x, checkpoint.seq))
    return Trimmed(floor, x if raised else floor)


def _target(sealed: int, checkpoint: int) -> int:
    """The floor stands on a checkpoint at or after it."""
    return min(sealed, checkpoint)


def _sealed_to(lane: Lane, backlog: Backlog, catalog: Catalog) -> Work[int]:
    """Return the first seq of which something is not sealed."""
    fold = lane.fold
    topic_partitions = dict.fromkeys(
        one.topic_partition for held in backlog.bundles for one in held.bundle.slices
    )
    left = [
        topic_partition
        for topic_partition in topic_partitions
        if fold is None or not fold.is_deleted(topic_partition[0])
    ]
    found = yield from try_histories(left, catalog)
    for answer in found.values():
        if isinstance(answer, UnavailableError):
            raise answer
    # What a damaged one says is not known: so nothing of its partition counts as sealed, and the
    # floor stays before it.
    manifests = {
        where.topic_partition: one for where, one in found.items() if isinstance(one, Manifest)
    }
    for held in backlog.bundles:
        for one in held.bundle.slices:
            if fold is not None and fold.is_deleted(one.topic):
                continue
            manifest = manifests.get(one.topic_partition)
            if manifest is None:
                return held.bundle.seq
            safe = manifest.deleted or one.next_offset <= manifest.sealed_end
            if not safe and one.next_offset > manifest.log_start:
                return held.bundle.seq
    return backlog.floor + len(backlog.bundles)


def _is_worth_it(backlog: Backlog) -> bool:
    """Whether more than empty bundles would go."""
    return backlog.complete and any(
        held.bundle.slices or held.bundle.events for held in backlog.bundles
    )


def _newest_checkpoint(lane: Lane) -> Due | None:
    """Return what a checkpoint of the very end is made of; None: the one that is due is that."""
    known = lane.known
    bundles = tuple(one.bundle for one in known.bundles)
    return (known.fold, bundles) if bundles else None


def _good_checkpoint(lane: Lane, backlog: Backlog) -> Work[Checkpoint | None]:
    """Return the newest checkpoint that can carry a floor, read back and compared with the fold."""
    fold = lane.fold
    if fold is None:
        return None
    every, stands_on = lane.rules.checkpoint_every, backlog.look.head.checkpoint
    last = fold.seq if backlog.complete else backlog.floor + len(backlog.bundles) - 1
    # Others append meanwhile: the fold may be far beyond what is known of the chain here.
    newest = (backlog.floor + len(backlog.bundles)) // every * every - 1
    for seq in dict.fromkeys((last, newest, newest - every)):
        if seq <= max(stands_on, backlog.floor):
            continue
        checkpoint = yield from read_checkpoint(lane, seq)
        if checkpoint is not None and (yield from _is_right(lane, backlog, checkpoint)):
            return checkpoint
    return None


def _is_right(lane: Lane, backlog: Backlog, checkpoint: Checkpoint) -> Work[bool]:
    """Whether a checkpoint is what the chain amounts to, from where the floor stands."""
    head = backlog.look.head
    if head.checkpoint < 0:
        fold = Fold(lane=lane.number, every=lane.rules.checkpoint_every)
    else:
        base = yield from read_checkpoint(lane, head.checkpoint)
        if base is None:
            return False
        fold = Fold.of(base, lane.rules.checkpoint_every)
    held_here = (*backlog.bundles, *lane.known.bundles)
    for held in held_here:
        if fold.seq < held.bundle.seq <= checkpoint.seq:
            if fold.flaw(held.bundle):
                return False
            fold = fold.after(held.bundle)
    plain = replace(checkpoint, first=checkpoint.seq, slice_index=())
    known = {held.bundle.seq: held.bundle for held in held_here}
    # Sets: a slice index has as many rows as its bundles have slices, which may be a million.
    slices = {
        seq: frozenset(known[seq].slices)
        for seq in {row.seq for row in checkpoint.slice_index}
        if seq in known
    }
    rolled = all(
        row.slice in slices[row.seq] and row.epoch == known[row.seq].epoch
        for row in checkpoint.slice_index
        if row.seq in slices
    )
    return rolled and fold.seq == checkpoint.seq and fold.checkpoint(()) == plain


def _raise(lane: Lane, seen: Look, floor: int, checkpoint: int) -> Work[bool]:
    """Swap the head that was seen for one with a higher floor."""
    body = encode_head(seen.head.raised(floor, checkpoint, seen.since_ms))
    unanswered = Unanswered(body)
    while True:
        try:
            answer = yield from put_if_match(head_key(lane.number), body, seen.etag)
            if isinstance(answer, Replaced):
                lane.counters["trimmed"] += 1
                return True
        except UnavailableError as error:
            yield from unanswered.wait(error)
        now = yield from look(lane)
        if now.head.floor >= floor:
            return True  # By us, or by somebody who knew as much.
        if now.etag != seen.etag:
            return False


def reap(lane: Lane, now_ms: int) -> Work[int]:
    """Delete what lies below a floor that is old enough; return how many objects.

    ``now_ms`` is the store's time, asked for before this.
    """
    seen = yield from look(lane)
    below = seen.head.deletable(seen.since_ms, now_ms, lane.rules.grace_ms)
    count, after, more = 0, "", below > 0
    while more:
        page = yield from ask(ListPage(lane_prefix(lane.number), after))
        seqs = [(info.key, seq_of(info.key)) for info in page.objects]
        gone = [key for key, seq in seqs if seq is not None and seq < below]  # None: not ours.
        yield from delete_many(gone)
        count += len(gone)
        more = page.more and not any(seq is not None and seq >= below for _, seq in seqs)
        after = page.objects[-1].key if page.objects else after
    return count


def append_topic_tombstones(lane: Lane, topics: list[Topic]) -> Work[None]:
    """Tell a lane of deleted topics, if whoever deleted them did not live to do it."""
    yield from refresh(lane)
    known = {topic_partition[0] for topic_partition in lane.known.fold.ends}
    gone = [
        DeleteTopic(topic=one.id)
        for topic in topics
        for one in topic.incarnations()
        if one.deleted and one.id in known
    ]
    if gone:
        yield from append(lane, gone)

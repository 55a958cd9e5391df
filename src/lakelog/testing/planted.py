"""Planted bugs: each breaks one rule, and the simulator must find it.

A simulator that finds nothing proves nothing until it has found what is known to be there. Each bug
here is one that somebody has made, in this design or in one like it. They are put in from outside,
by replacing a small function for the time of a run: the product has no switch for them.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from lakelog.errors import UnavailableError
from lakelog.formats.lanes import decode_bundle, encode_bundle
from lakelog.journal import Append, Fold, KnownBundle, Lane, Outcome, Request, Stored
from lakelog.journal import Head as LaneHead
from lakelog.journal import follow as real_follow
from lakelog.journal import read_bundle as real_read_bundle
from lakelog.log import Bounds, refresh
from lakelog.maintenance import HistoryObject
from lakelog.manifests import Intent, Manifest, SegmentRow, changes, read_manifest
from lakelog.names import bundle_key, head_key
from lakelog.store import (
    Body,
    Created,
    PutIfAbsent,
    Read,
    Wait,
    Work,
    delete,
    join_body,
    put_if_absent,
    put_if_match,
)
from lakelog.testing.process import Process
from lakelog.testing.repaired import REPAIRED, Bug
from lakelog.testing.scale import patched
from lakelog.testing.world import EPOCH_MS, Faults

__all__ = ["BUGS", "Bug", "planted"]

_APPEND = "lakelog.journal.append"
_TRIM = "lakelog.maintenance.trim"
_READ = "lakelog.log.read"
_CHANGES = "lakelog.manifests.changes"
_STAGED = "lakelog.maintenance.bulk_writes"
_COMPACTING = "lakelog.pipeline.compacting"


def planted(name: str) -> AbstractContextManager[None]:
    """Plant a bug while this lasts; the empty name plants none."""
    return patched(BUGS[name].patches if name else ())


# ---------------------------------------------------------------------------- append


def _of(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _fate(name: str) -> Any:
    return _of(_APPEND, "_Fate")[name]


def _skip_w4(lane: Lane, held: KnownBundle) -> Work[Any]:
    yield from ()
    lane.take(held)
    return _fate("STORED")


def _other_bytes(key: str, body: Body) -> Work[Any]:
    """Put, and when there is no answer, put the same requests under another nonce."""
    try:
        return (yield from put_if_absent(key, body))
    except UnavailableError:
        bundle, payload = decode_bundle(join_body(body))
        other = bytes(byte ^ 0xFF for byte in bundle.nonce)
        return (
            yield from put_if_absent(key, encode_bundle(replace(bundle, nonce=other), [payload]))
        )


def _offsets_only(lane: Lane, used: int, found: KnownBundle | None = None) -> Work[bool]:
    """Take the winner's offsets, and not what its producers have sent."""
    producers = lane.known.fold.producers
    held = yield from real_follow(lane, used, found)
    known = lane.known
    lane.snapshot = replace(known, fold=replace(known.fold, producers=producers))
    return held


def _store_and_leave(lane: Lane, made: Any) -> Work[Any]:
    """Put, and when there is no answer and nothing to be seen, believe that nothing was stored."""
    seq, answer = lane.next_seq, None
    bundle, body = made.finish(writer=lane.writer, nonce=lane.ids(), checkpoint=lane.checkpoint)
    with suppress(UnavailableError):
        answer = yield from put_if_absent(bundle_key(lane.number, seq), body)
    if isinstance(answer, Created):
        return (
            yield from _of(_APPEND, "_confirm")(
                lane, KnownBundle(bundle, answer.etag, sum(map(len, body)))
            )
        )
    found = yield from real_read_bundle(lane, seq)
    if found is None:
        lane.forget()
        return _fate("GONE")
    if found.bundle.nonce == bundle.nonce:
        return (yield from _of(_APPEND, "_confirm")(lane, found))
    return (yield from _of(_APPEND, "_follow")(lane, seq, found))


def _believing_store(lane: Lane, made: Any) -> Work[Any]:
    """Believe "exists" whenever the library has answered: then the key is somebody else's."""
    seq = lane.next_seq
    bundle, body = made.finish(writer=lane.writer, nonce=lane.ids(), checkpoint=lane.checkpoint)
    unanswered = False
    while True:
        try:
            answer = yield from put_if_absent(bundle_key(lane.number, seq), body)
            if isinstance(answer, Created):
                held = KnownBundle(bundle, answer.etag, sum(map(len, body)))
                return (yield from _of(_APPEND, "_confirm")(lane, held))
            found = yield from real_read_bundle(lane, seq)
        except UnavailableError:
            unanswered = True
            yield Wait(100)
            continue
        if found is None:
            lane.forget()
            return _fate("UNKNOWN" if unanswered else "GONE")
        if unanswered and found.bundle.nonce == bundle.nonce:
            return (yield from _of(_APPEND, "_confirm")(lane, found))
        return (yield from _of(_APPEND, "_follow")(lane, seq, found))


def _acked(requests: Sequence[Request]) -> tuple[Outcome, ...]:
    return tuple(Stored(base_offset=0, seq=0, epoch=0, created_ms=0) for _ in requests)


def _clock_epoch(fold: Fold, writer: bytes, *, bulk: bool) -> int:
    return (fold.created_ms // 1000) % 1_000_000 + (not bulk and writer[-1] % 3)


def _awake_ms(process: Process) -> int:
    return process.world.now - process.asleep_ms


def _awake_wall_ms(process: Process) -> int:
    return EPOCH_MS + _awake_ms(process) + process.skew_ms


def _confirm_at_once(_lane: Lane, _made: Any) -> Work[Any]:
    yield from ()
    return _fate("STORED")


# ---------------------------------------------------------------------------- keeping


def _delete_first(lane: Lane, seen: Any, floor: int, checkpoint: int) -> Work[bool]:
    for seq in range(seen.head.floor, floor):
        yield from delete(bundle_key(lane.number, seq))
    body = import_module("lakelog.journal").encode_head(
        seen.head.raised(floor, checkpoint, seen.since_ms)
    )
    answer = yield from put_if_match(head_key(lane.number), body, seen.etag)
    return type(answer).__name__ == "Replaced"


def _everything_sealed(_lane: Lane, backlog: Any, _catalog: Any) -> Work[int]:
    yield from ()
    found: int = backlog.floor + len(backlog.bundles)
    return found


def _end_of_rows(now: Manifest, write: str, paged: dict[str, tuple[str, ...]]) -> Manifest | None:
    after = _real_drop(now, write, paged)
    if after is None or after.segments:
        return after
    return replace(after, sealed_end=0, log_start=0)


_real_drop = changes.drop


def _manifest_first(lane: Lane, where: Any, *_: object) -> Work[tuple[Manifest, Bounds]]:
    manifest = yield from read_manifest(where)
    yield from refresh(lane)
    end = max(lane.known.fold.end(where.topic_partition), manifest.sealed_end)
    return manifest, Bounds(min(manifest.log_start, end), end)


def _uncancelled(now: Manifest, write: str, *others: Any, **named: Any) -> Manifest | None:
    """Rewrite, though the intent may have been cancelled, and what was written swept."""
    intent = Intent(write, "rewrite", 0, 0, 0)
    return _real_rewrite(replace(now, intents=(*now.intents, intent)), write, *others, **named)


def _whatever_is_there(
    now: Manifest, write: str, old: tuple[SegmentRow, ...], *others: Any, **named: Any
) -> Manifest | None:
    """Rewrite rows that lie where the old ones lay, though they are others."""
    base, end = old[0].base_offset, old[-1].next_offset
    there = tuple(row for row in now.segments if base <= row.base_offset < end)
    return _real_rewrite(now, write, there, *others, **named) if there else None


def _long_ago(now: Manifest, write: str, *others: Any, **named: Any) -> Manifest | None:
    """Rewrite, and say that what is replaced was dropped when it was begun."""
    after = _real_rewrite(now, write, *others, **named)
    since_ms = min(one.since_ms for one in now.intents if one.write == write) if after else 0
    return after and replace(
        after, dropped=tuple(one._replace(since_ms=since_ms) for one in after.dropped)
    )


_real_rewrite = changes.rewrite


def _but_the_first(where: Any, rows: tuple[SegmentRow, ...], *others: Any) -> Work[Any]:
    """Leave what was cleaned before as it is."""
    if len(rows) < 2:
        return rows
    return (rows[0], *(yield from _real_cleaned(where, rows[1:], *others)))


_real_cleaned = _of(_COMPACTING, "_cleaned")


def _all_passed(write: bytes, attempt: Any, passed: Any, **named: Any) -> Work[Any]:
    """Let what was staged go as soon as every lane has it."""
    return (yield from _real_sweepable(write, attempt, dict.fromkeys(passed, 1 << 62), **named))


_real_sweepable = _of(_STAGED, "_sweepable")


def _cells_alone(cells: Any, lanes: Any, _staged: Any, *others: Any, **named: Any) -> Work[Any]:
    """Forget the cells of earlier batches, whatever of them is still staged."""
    return (yield from _real_finish_decided(cells, lanes, frozenset(), *others, **named))


_real_finish_decided = _of(_STAGED, "_finish_decided")


def _nothing(*_: object) -> None:
    return None


def _no(*_: object) -> bool:
    return False


BUGS: dict[str, Bug] = {
    "skip-w4": Bug(
        "the head is not looked at after the put",
        ((_APPEND, "_confirm", _skip_w4),),
    ),
    "no-nonce": Bug(
        "a key that exists is taken for somebody else's",
        ((_APPEND, "_is_mine", _no),),
    ),
    "other-bytes": Bug(
        "a put without an answer is repeated with another nonce",
        ((_APPEND, "put_if_absent", _other_bytes),),
    ),
    "library-retries": Bug(
        "the store's library repeats puts by itself, and what it says of them is believed",
        (
            ("lakelog.testing.process", "Retried", Read | PutIfAbsent),
            (_APPEND, "_store", _believing_store),
        ),
        # Where bundles may be too slow it would be found for another reason: it never gives up.
        lambda world: world.bundle_bytes_slow == 1 << 62,
    ),
    "no-fold": Bug(
        "the loser of a race takes the winner's offsets and not its producers",
        ((_APPEND, "follow", _offsets_only),),
    ),
    "delete-first": Bug(
        "bundles are deleted before the floor is raised",
        ((_TRIM, "_raise", _delete_first),),
    ),
    "past-checkpoint": Bug(
        "the floor is raised over the checkpoint that it stands on",
        ((_TRIM, "_target", lambda sealed, _: sealed), (LaneHead, "__post_init__", _nothing)),
    ),
    "sweep-intent": Bug(
        "objects are swept whose writer has announced them",
        ((HistoryObject, "is_of", _no), (_CHANGES, "cancel", _nothing)),
    ),
    "ack-failed": Bug(
        "a request of a failed flush is acknowledged",
        (("lakelog.journal.flush", "_failed", _acked),),
    ),
    "leave-key": Bug(
        "a put without an answer is given up when its key is absent",
        ((_APPEND, "_store", _store_and_leave),),
    ),
    "clock-epoch": Bug(
        "the leader epoch is taken from the clock",
        ((Fold, "epoch_after", _clock_epoch), (Fold, "flaw", lambda *_: "")),
    ),
    "end-lost": Bug(
        "the end of a partition is that of its last segment",
        ((_CHANGES, "drop", _end_of_rows),),
    ),
    "floor-first": Bug(
        "the floor is raised over what is not sealed",
        ((_TRIM, "_sealed_to", _everything_sealed),),
    ),
    "manifest-first": Bug(
        "a reader takes the manifest before the journal",
        ((_READ, "current", _manifest_first),),
    ),
    "sleepless-clock": Bug(
        "the clock does not count the time a process was suspended",
        ((Process, "boot_ms", _awake_ms), (Process, "now_ms", _awake_wall_ms)),
    ),
    "stale-refusal": Bug(
        "a request is refused by a fold that may be behind",
        ((_APPEND, "_confirm_refusals", _confirm_at_once),),
    ),
    "rewrite-cancelled": Bug(
        "segments are rewritten by somebody whose intent was cancelled",
        ((_CHANGES, "rewrite", _uncancelled),),
        faults=Faults(pause=100),
    ),
    "rewrite-others": Bug(
        "rows are replaced that are not those that were read",
        ((_CHANGES, "rewrite", _whatever_is_there),),
    ),
    "dropped-early": Bug(
        "the grace of what a rewriting replaces begins when it began",
        ((_CHANGES, "rewrite", _long_ago),),
    ),
    "half-compacted": Bug(
        "what was cleaned before is not cleaned again, and tombstones go",
        ((_COMPACTING, "_cleaned", _but_the_first),),
    ),
    "bulk-twice": Bug(
        "a lane does not ask whether it has a bulk write already",
        ((Fold, "judge_write", _nothing),),
    ),
    "bulk-swept": Bug(
        "what was staged goes when it is committed, and not when it is sealed",
        ((_STAGED, "_sweepable", _all_passed),),
    ),
    "bulk-cell": Bug(
        "the cell of a batch is forgotten while bundles point at what it staged",
        ((_STAGED, "_finish_decided", _cells_alone),),
    ),
    "plain-again": Bug(
        "a plain batch of unknown outcome is appended again",
        ((Append, "is_plain", False),),
    ),
    **REPAIRED,
}
"""Every bug by name."""

"""Bulk writes, afterwards: what was decided is finished, what was staged goes when it may.

    finish     a write that was decided for, and that somebody did not live to append everywhere
    bar, go    an attempt that nobody has decided for in a grace: first it is barred, then it goes
    go         what was staged for a lane, when the lane's floor has passed the write for a grace:
               then it is sealed, and no reader points at it any more
    forget     the cells of earlier batches of a query; of batch jobs, the only one, after a day;
               but none whose staged objects are there: without its cell nobody would know of them

Of an attempt the identity goes last, so that what is left of it can always be told from what is on
its way.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from lakelog.errors import LakelogError
from lakelog.journal import Lane, look
from lakelog.log import (
    Identity,
    abandon_write,
    finish_write,
    read_decision,
    read_identity,
)
from lakelog.names import (
    COMMITS_PREFIX,
    STAGED_PREFIX,
    commit_of,
    identity_key,
    plan_key,
    staged_of,
)
from lakelog.store import (
    ObjectInfo,
    Work,
    delete,
    delete_many,
    isolated,
    list_objects,
    together,
    tried,
)

__all__ = ["BulkWriteReport", "finish_writes"]

PATIENCE_MS = 30_000
"""So long whoever has decided for a write is left to finish it."""

FORGET_GRACES = 24
"""The cell of a batch job is kept for so many graces: its driver may ask again."""


@dataclass(slots=True, kw_only=True)
class BulkWriteReport:
    """What a pass has done."""

    finished: int = 0
    swept: int = 0
    """Objects that were deleted."""
    failures: dict[str, LakelogError] = field(default_factory=dict)


@dataclass(slots=True)
class _Attempt:
    """What is staged of one attempt."""

    newest_ms: int = 0
    lanes: dict[int, list[str]] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    """Of its plan, but for the first."""


def finish_writes(
    lanes: Mapping[int, Lane], *, now_ms: int, grace_ms: int
) -> Work[BulkWriteReport]:
    """Finish, sweep and forget; ``now_ms`` is the store's time.

    Raises:
        LakelogError: the writes cannot be listed. One that fails is in the report, and is left.
    """
    report = BulkWriteReport()
    staged = yield from list_objects(STAGED_PREFIX)
    cells = yield from list_objects(COMMITS_PREFIX)
    attempts = _attempts(staged)
    void = yield from _finish_decided(
        cells, lanes, attempts.keys(), report, now_ms=now_ms, grace_ms=grace_ms
    )
    old = {write: one for write, one in attempts.items() if now_ms - one.newest_ms >= grace_ms}
    passed: dict[int, int] = {}
    if old:
        looks = (
            isolated(look(lane), f"lane {number}", report.failures)
            for number, lane in lanes.items()
        )
        # Of a lane that is damaged, nothing was passed long ago.
        passed = {
            number: seen.head.deletable(seen.since_ms, now_ms, grace_ms)
            for number, seen in zip(lanes, (yield from together(looks)), strict=True)
            if seen is not None
        }
    sweeps = (
        isolated(
            _sweep(write, attempt, passed, report, is_void=write in void),
            f"staged write {write.hex()}",
            report.failures,
        )
        for write, attempt in old.items()
    )
    yield from together(sweeps)
    return report


def _sweep(
    write: bytes,
    attempt: _Attempt,
    passed: Mapping[int, int],
    report: BulkWriteReport,
    *,
    is_void: bool,
) -> Work[None]:
    gone = yield from _sweepable(write, attempt, passed, is_void=is_void)
    rest = {plan_key(write), identity_key(write)}
    yield from delete_many([key for key in gone if key not in rest])
    for key in gone:
        if key in rest:
            yield from delete(key)
    report.swept += len(gone)


def _finish_decided(
    cells: list[ObjectInfo],
    lanes: Mapping[int, Lane],
    staged: Set[bytes],
    report: BulkWriteReport,
    *,
    now_ms: int,
    grace_ms: int,
) -> Work[set[bytes]]:
    """Finish the last write of each query, and forget what is over; return attempts that are void.

    ``staged`` are attempts of which something was there, before the cells were listed.
    """
    void: set[bytes] = set()
    last: dict[bytes, int] = {}
    known = [(info, found) for info in cells if (found := commit_of(info.key)) is not None]
    for _, (query, number) in known:
        last[query] = max(number, last.get(query, 0))
    old = [one for one in known if now_ms - one[0].modified_ms >= min(PATIENCE_MS, grace_ms)]
    reads = (tried(read_decision(Identity(*name, is_stream=False))) for _, name in old)
    decisions = yield from together(reads)
    # What follows is done one after the other: it appends to lanes, which have one owner.
    for (info, (query, number)), decision in zip(old, decisions, strict=True):
        age_ms = now_ms - info.modified_ms
        try:
            if isinstance(decision, LakelogError):
                raise decision
            if decision is None:
                continue
            is_last = number == last[query]
            over_ms = FORGET_GRACES * grace_ms if is_last else grace_ms
            if decision.write and not decision.is_finished:
                if not is_last:
                    void.add(decision.write)  # Decided when there was a later one already.
                elif age_ms >= PATIENCE_MS:
                    identity = Identity(query, number, decision.is_stream)
                    yield from finish_write(lanes, identity, decision)
                    report.finished += 1
                    continue
            forget = not (is_last and decision.is_stream) and decision.write not in staged
            if forget and age_ms >= over_ms:
                yield from delete(info.key)
                report.swept += 1
        except LakelogError as error:
            report.failures[f"bulk write {query.hex()}/{number}"] = error
    return void


def _attempts(objects: list[ObjectInfo]) -> dict[bytes, _Attempt]:
    found: dict[bytes, _Attempt] = {}
    for info in objects:
        of = staged_of(info.key)
        if of is None:
            continue  # Not ours.
        write, lane = of
        attempt = found.setdefault(write, _Attempt())
        attempt.newest_ms = max(attempt.newest_ms, info.modified_ms)
        if lane is not None:
            attempt.lanes.setdefault(lane, []).append(info.key)
        elif info.key not in (plan_key(write), identity_key(write)):
            attempt.pages.append(info.key)
    return found


def _sweepable(
    write: bytes, attempt: _Attempt, passed: Mapping[int, int], *, is_void: bool
) -> Work[list[str]]:
    """Return what may go of an attempt, in the order in which it goes."""
    rest = [*attempt.pages, plan_key(write), identity_key(write)]
    identity = yield from read_identity(write)
    if identity is None or is_void:
        return [*(key for keys in attempt.lanes.values() for key in keys), *rest]
    decision = yield from read_decision(identity)
    if decision is None or decision.write != write:
        if not (yield from abandon_write(identity, write)):
            return []  # Somebody has just decided for it.
        return [*(key for keys in attempt.lanes.values() for key in keys), *rest]
    if not decision.is_finished:
        return []
    seqs = dict(decision.lanes)
    gone = [lane for lane in attempt.lanes if lane not in seqs or seqs[lane] < passed.get(lane, 0)]
    objects = [key for lane in gone for key in attempt.lanes[lane]]
    return [*objects, *(rest if len(gone) == len(attempt.lanes) else ())]

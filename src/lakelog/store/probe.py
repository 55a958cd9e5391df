"""Whether a store keeps its word: races with one winner, and reads that see what was written.

The log stands on one promise, that of two writers of a key one wins and both learn who. Stores have
broken it in silence: some ignore If-None-Match, some look first and write later. No document tells,
so a process that is about to trust a store races itself there first, and tries the other promises
of ``promises`` as well. It finds a row for each, one for the rules of the bucket, and one for other
machines that may use the same folder:

    findings = [
        *probe_store(store, prefix),
        expiry_finding(find_expiry(spec, prefix)),
        machine_finding(spec, file_system_of(spec)),
    ]
    warnings = admit(store.url, findings)

Whatever can go side by side does, keys and checks alike: where losers of a race are kept waiting
for seconds, all wait for the same ones. ``probe_store`` performs by threads, since only they race
where ``perform`` waits; ``probe_store_async`` performs on the running loop.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidInputError, LakelogError, UnavailableError
from lakelog.flows import run, run_async
from lakelog.store.lifecycle import Expiry
from lakelog.store.local import LocalStore
from lakelog.store.mounts import SHARED, is_unknown
from lakelog.store.opening import ONE_MACHINE, Store, StoreSpec, open_store
from lakelog.store.operations import Delete, Op
from lakelog.store.promises import (
    AT_ONCE_MAX,
    GOOD,
    PROBE_AT_START,
    ROUNDS,
    Asking,
    Check,
    ProbeKeys,
    ProbeSize,
    Seen,
    Verdict,
)
from lakelog.store.retry import RetryPolicy, retrying, retrying_async

__all__ = [
    "Finding",
    "admit",
    "expiry_finding",
    "machine_finding",
    "probe_store",
    "probe_store_async",
]

_READS = RetryPolicy(attempts_max=3, delay_ms_base=100, delay_ms_max=500)
_START_S_MAX = 30.0
_NEXT = {
    Verdict.GOOD: "",
    Verdict.BAD: (
        "records would be lost here: upgrade the store, or what stands between here and it, "
        "or use another"
    ),
    Verdict.UNANSWERED: "probe again when it answers",
}
_RULES = "take the rule away, or limit it to other prefixes"
_ALONE = f"if no other machine uses this folder, say so with the option {ONE_MACHINE}=true"
_SHARED = f"use a local disk or an object store; {_ALONE}"
_MAYBE = f"make sure that no other machine uses it; {_ALONE}"


# ---------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check has found."""

    check: str
    verdict: Verdict
    seen: str
    next_step: str = ""
    took_s: float = 0.0

    @property
    def is_fine(self) -> bool:
        """Whether the store may be used as far as this check is concerned."""
        return self.verdict in (Verdict.GOOD, Verdict.UNCHECKED)

    @property
    def is_told(self) -> bool:
        """Whether it is about the store's word. If not, the next check would end like this one."""
        return self.verdict not in (Verdict.REFUSED, Verdict.UNANSWERED)


def admit(url: str, findings: Sequence[Finding]) -> list[str]:
    """Return what to warn of, if the store at ``url`` may be trusted.

    Raises:
        InvalidInputError: it may not.
        UnavailableError: it did not answer enough to tell.
    """
    for verdict, error in (
        (Verdict.BAD, InvalidInputError),
        (Verdict.REFUSED, InvalidInputError),
        (Verdict.UNANSWERED, UnavailableError),
    ):
        for found in findings:
            if found.verdict is verdict:
                raise error(_told(url, found))
    return [_told(url, found) for found in findings if found.next_step]


def _told(url: str, found: Finding) -> str:
    return ": ".join(filter(None, [url, found.check, found.seen, found.next_step]))


def expiry_finding(expiry: Expiry, took_s: float = 0.0) -> Finding:
    """Return what the rules of a bucket mean for us."""
    if expiry.rules is None:
        verdict, next_step = Verdict.UNCHECKED, ""
    elif expiry.rules:
        verdict, next_step = Verdict.BAD, _RULES
    else:
        verdict, next_step = Verdict.GOOD, ""
    return Finding(
        check="expiry", verdict=verdict, seen=expiry.said, next_step=next_step, took_s=took_s
    )


def machine_finding(spec: StoreSpec, kind: str) -> Finding:
    """Return what the kind of file system that a folder is on means for us."""
    verdict, next_step = Verdict.GOOD, ""
    if not isinstance(open_store(spec.url, spec.options), LocalStore):
        seen = "no folder"
    elif spec.options.get(ONE_MACHINE) == "true":
        seen = f"{kind or 'not known'}; {ONE_MACHINE}=true says that no other machine uses it"
    elif kind in SHARED:
        seen = f"{kind}, which several machines can mount: writers of two could both win a key"
        verdict, next_step = Verdict.BAD, _SHARED
    elif is_unknown(kind):
        seen = f"{kind or 'not known'}: whether several machines can mount it is not known"
        verdict, next_step = Verdict.UNCHECKED, _MAYBE
    else:
        seen = f"{kind}, of this machine"
    return Finding(check="machine", verdict=verdict, seen=seen, next_step=next_step)


# ---------------------------------------------------------------------------- running it


def probe_store(
    store: Store,
    prefix: str,
    size: ProbeSize = PROBE_AT_START,
    *,
    unique: Callable[[int], bytes] = secrets.token_bytes,
    now_s: Callable[[], float] = time.monotonic,
) -> tuple[Finding, ...]:
    """Try the store below ``prefix``, take away what that made, and return what was found.

    Args:
        store: whose ``perform`` may be called by many threads.
        prefix: empty, or a folder; only ``lakelog-probe/`` in it is touched.
        size: how many writers race for how many keys.
        unique: returns as many bytes as it is asked for, never the same twice.
        now_s: any clock that only goes forward.
    """
    place = ProbeKeys.new(prefix, size, unique)
    perform = retrying(store.perform, _READS)

    def together(ops: Sequence[Op]) -> list[Any]:
        start = threading.Barrier(len(ops))

        def one(op: Op) -> Any:
            start.wait(_START_S_MAX)
            try:
                return perform(op)
            except LakelogError as error:
                return error

        with ThreadPoolExecutor(len(ops)) as pool:
            return list(pool.map(one, ops))

    findings: list[Finding] = []
    try:
        for checks in ROUNDS:
            with ThreadPoolExecutor(len(checks)) as pool:
                flows = [_look(check, place, now_s) for check in checks]
                findings += pool.map(lambda flow: run(flow, together), flows)
            if not all(one.is_told for one in findings):
                break
        return tuple(findings)
    finally:
        for some in _groups(place.everything(), AT_ONCE_MAX):
            together([Delete(key) for key in some])


async def probe_store_async(
    store: Store,
    prefix: str,
    size: ProbeSize = PROBE_AT_START,
    *,
    unique: Callable[[int], bytes] = secrets.token_bytes,
    now_s: Callable[[], float] = time.monotonic,
) -> tuple[Finding, ...]:
    """Do the same on the running loop, by ``perform_async``."""
    place = ProbeKeys.new(prefix, size, unique)
    perform = retrying_async(store.perform_async, _READS)

    async def one(op: Op) -> Any:
        try:
            return await perform(op)
        except LakelogError as error:
            return error

    async def together(ops: Sequence[Op]) -> list[Any]:
        return await asyncio.gather(*map(one, ops))

    findings: list[Finding] = []
    try:
        for checks in ROUNDS:
            flows = [_look(check, place, now_s) for check in checks]
            findings += await asyncio.gather(*(run_async(flow, together) for flow in flows))
            if not all(one.is_told for one in findings):
                break
        return tuple(findings)
    finally:
        for some in _groups(place.everything(), AT_ONCE_MAX):
            await together([Delete(key) for key in some])


# ---------------------------------------------------------------------------- one check


def _look(check: Check, place: ProbeKeys, now_s: Callable[[], float]) -> Asking[Finding]:
    begun_s = now_s()
    try:
        verdict, seen = yield from _on_all_keys(check, place)
        next_step = _NEXT[verdict]
    except LakelogError as error:
        # Access denied, no such bucket: the text says what to do next.
        verdict, seen, next_step = Verdict.REFUSED, str(error), ""
    took_s = now_s() - begun_s
    return Finding(check=check.name, verdict=verdict, seen=seen, next_step=next_step, took_s=took_s)


def _on_all_keys(check: Check, place: ProbeKeys) -> Asking[Seen]:
    at_once = max(1, AT_ONCE_MAX // place.size.writers)
    seen: list[Seen] = []
    for keys in _groups(place.keys(check.kind), at_once):
        seen += yield from _side_by_side([check.flow(place, key) for key in keys])
    bad = [text for verdict, text in seen if verdict is Verdict.BAD]
    if bad:
        return Verdict.BAD, f"{len(bad)} of {len(seen)} keys: {bad[0]}"
    silent = [text for verdict, text in seen if verdict is Verdict.UNANSWERED]
    if 2 * len(silent) > len(seen):
        return Verdict.UNANSWERED, f"{len(silent)} of {len(seen)} keys: {silent[0]}"
    unknown = f"; {len(silent)} without an answer" if silent else ""
    return Verdict.GOOD, check.good.format(writers=place.size.writers, keys=len(seen)) + unknown


def _side_by_side(flows: Sequence[Asking[Seen]]) -> Asking[list[Seen]]:
    """Run flows in step: what all of them ask for next is performed at the same moment.

    Raises:
        LakelogError: by a flow, and not for want of an answer: it is about the call.
    """
    seen: list[Seen] = [GOOD] * len(flows)
    answers: dict[int, list[Any] | None] = dict.fromkeys(range(len(flows)))
    while answers:
        wishes: dict[int, Sequence[Op]] = {}
        for number, answer in answers.items():
            try:
                wishes[number] = flows[number].send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                seen[number] = done.value
            except UnavailableError as error:
                seen[number] = Verdict.UNANSWERED, str(error)
        outcomes = iter((yield [op for ops in wishes.values() for op in ops]) if wishes else ())
        answers = {number: [next(outcomes) for _ in ops] for number, ops in wishes.items()}
    return seen


def _groups(keys: Sequence[str], count: int) -> list[Sequence[str]]:
    return [keys[at : at + count] for at in range(0, len(keys), count)]

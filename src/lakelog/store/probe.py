"""Whether a store keeps its promises: races with one winner, and reads that see what was written.

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

Keys and checks are tried side by side: where losers of a race are kept waiting for seconds, all
wait for the same ones. Operations are performed by threads, since only they race where ``perform``
waits.
"""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidInputError, LakelogError, UnavailableError
from lakelog.flows import run
from lakelog.store.drive import working
from lakelog.store.lifecycle import Expiry
from lakelog.store.local import LocalStore
from lakelog.store.mounts import SHARED, is_unknown
from lakelog.store.opening import ONE_MACHINE, Store, StoreSpec, open_store
from lakelog.store.operations import Delete, Many, Op, Work
from lakelog.store.promises import (
    AT_ONCE_MAX,
    PROBE_AT_START,
    ROUNDS,
    Check,
    ProbeKeys,
    ProbeSize,
    Seen,
    Verdict,
)
from lakelog.store.retry import RetryPolicy, retrying
from lakelog.store.together import together, tried

__all__ = [
    "Finding",
    "admit",
    "expiry_finding",
    "machine_finding",
    "probe_store",
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
        """Whether it is about a promise. If not, the next check would end like this one."""
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
    keys = ProbeKeys.new(prefix, size, unique)
    work = working(retrying(store.perform, _READS), many=_race)
    try:
        return run(_probe(keys, now_s), work)
    finally:
        names = keys.everything()
        for at in range(0, len(names), AT_ONCE_MAX):
            work(Many(tuple(Delete(name) for name in names[at : at + AT_ONCE_MAX])))


def _race(attempt: Callable[[Op], Any], ops: Sequence[Op]) -> list[Any]:
    """Perform operations at the same moment, each by a thread of its own."""
    start = threading.Barrier(len(ops))

    def one(op: Op) -> Any:
        start.wait(_START_S_MAX)
        return attempt(op)

    with ThreadPoolExecutor(len(ops)) as pool:
        return list(pool.map(one, ops))


def _probe(keys: ProbeKeys, now_s: Callable[[], float]) -> Work[tuple[Finding, ...]]:
    findings: list[Finding] = []
    for checks in ROUNDS:
        findings += yield from together(_look(check, keys, now_s) for check in checks)
        if not all(one.is_told for one in findings):
            break
    return tuple(findings)


# ---------------------------------------------------------------------------- one check


def _look(check: Check, keys: ProbeKeys, now_s: Callable[[], float]) -> Work[Finding]:
    begun_s = now_s()
    try:
        verdict, seen = yield from _on_all_keys(check, keys)
        next_step = _NEXT[verdict]
    except LakelogError as error:
        # Access denied, no such bucket: the text says what to do next.
        verdict, seen, next_step = Verdict.REFUSED, str(error), ""
    took_s = now_s() - begun_s
    return Finding(check=check.name, verdict=verdict, seen=seen, next_step=next_step, took_s=took_s)


def _on_all_keys(check: Check, keys: ProbeKeys) -> Work[Seen]:
    """Try a promise on all keys side by side, and say what that comes to.

    Raises:
        LakelogError: of a key, and not for want of an answer: it is about the call.
    """
    at_once = max(1, AT_ONCE_MAX // keys.size.writers)
    flows = (tried(check.flow(keys, key)) for key in keys.keys(check.kind))
    seen: list[Seen] = []
    for one in (yield from together(flows, at_once)):
        if isinstance(one, UnavailableError):
            seen.append((Verdict.UNANSWERED, str(one)))
        elif isinstance(one, LakelogError):
            raise one
        else:
            seen.append(one)
    bad = [text for verdict, text in seen if verdict is Verdict.BAD]
    if bad:
        return Verdict.BAD, f"{len(bad)} of {len(seen)} keys: {bad[0]}"
    silent = [text for verdict, text in seen if verdict is Verdict.UNANSWERED]
    if 2 * len(silent) > len(seen):
        return Verdict.UNANSWERED, f"{len(silent)} of {len(seen)} keys: {silent[0]}"
    unknown = f"; {len(silent)} without an answer" if silent else ""
    return Verdict.GOOD, check.good.format(writers=keys.size.writers, keys=len(seen)) + unknown

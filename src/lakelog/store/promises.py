"""What a log needs a store to keep, each promise as a flow that tries it on one key.

    create     N writers for one fresh key: one is told Created, and its bytes are there
    taken      another PutIfAbsent: Exists, and the bytes stay
    replace    N writers with the right etag: one is told Replaced, and its bytes are there
    stale      an etag replaces once; the second time it says Changed, and the bytes stay
    read       what was looked for in vain is written: get, range, suffix, head and list see it
    delete     it is gone from get and list

A flow returns what it has seen. UnavailableError may leave it: then nothing is known of this key.
Any other error is about the call and not about what the store promises.

A lost answer is neither a win nor a loss. Every body is different, so reading the key tells whose
it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError, UnavailableError
from lakelog.store.asking import ask, ask_all
from lakelog.store.keys import check_prefix
from lakelog.store.operations import (
    LIST_LIMIT_MAX,
    Changed,
    Created,
    Delete,
    Exists,
    Fetched,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    ObjectInfo,
    Operation,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    Work,
)

__all__ = [
    "AT_ONCE_MAX",
    "GOOD",
    "PROBE_AT_START",
    "PROBE_THOROUGH",
    "ROUNDS",
    "Check",
    "ProbeKeys",
    "ProbeSize",
    "Seen",
    "Verdict",
]

FOLDER = "lakelog-probe/"
"""Where the keys of a probe are, below the prefix. One folder for all: local files keep folders."""

AT_ONCE_MAX = 256
"""Operations of a check that are under way at the same moment, each with a thread and a socket.

Two checks race at a time, and a process often may open no more than 1,024 files.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSize:
    """How hard to look."""

    writers: int
    keys: int

    def __post_init__(self) -> None:
        if not (2 <= self.writers <= AT_ONCE_MAX and 1 <= self.keys <= LIST_LIMIT_MAX):
            raise InvalidInputError(
                f"{self.writers} writers on {self.keys} keys: use 2 to {AT_ONCE_MAX} writers, "
                f"1 to {LIST_LIMIT_MAX} keys"
            )


PROBE_AT_START = ProbeSize(writers=3, keys=5)
"""Enough to find a store that does not try, in the time a process may take to start."""

PROBE_THOROUGH = ProbeSize(writers=32, keys=20)
"""Enough to find one that tries and has a race."""


class Verdict(StrEnum):
    """What a check comes to."""

    GOOD = "good"
    BAD = "bad"
    UNANSWERED = "no answer"
    """It must be known, and is not: probe again."""
    REFUSED = "refused"
    """The store does not let us try: fix the call."""
    UNCHECKED = "not known"
    """It would be good to know, and is not."""


Seen = tuple[Verdict, str]
GOOD: Seen = (Verdict.GOOD, "")
_NOTHING: Seen = (Verdict.UNANSWERED, "there is nothing to try it on")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeKeys:
    """The keys and bodies of one probe."""

    folder: str
    run: str
    size: ProbeSize
    unique: Callable[[int], bytes]

    @classmethod
    def new(cls, prefix: str, size: ProbeSize, unique: Callable[[int], bytes]) -> "ProbeKeys":
        check_prefix(prefix)
        return cls(folder=prefix + FOLDER, run=unique(16).hex(), size=size, unique=unique)

    def keys(self, kind: str) -> list[str]:
        return [f"{self.folder}{self.run}-{kind}-{n:04}" for n in range(self.size.keys)]

    def everything(self) -> list[str]:
        return [key for kind in KINDS for key in self.keys(kind)]

    def body(self) -> bytes:
        # Whoever finds it some day should know what it is.
        return b"made by a probe of lakelog, may be deleted: " + self.unique(16).hex().encode()


# ---------------------------------------------------------------------------- flows


def _stored(key: str) -> Work[Fetched | None]:
    """Return what is there now, if anything is."""
    try:
        return (yield from ask(Get(key)))
    except NotFoundError:
        return None


def _create(probe: ProbeKeys, key: str) -> Work[Seen]:
    # As many steps as replacing takes before its race: so both races are at the same moment. A
    # store that locks keys lets whoever comes second wait, SeaweedFS for a second.
    for _ in range(2):
        if (yield from _stored(key)) is not None:
            return Verdict.BAD, "an object is there that nobody has written"
    ops = [PutIfAbsent(key, probe.body()) for _ in range(probe.size.writers)]
    outcomes = yield from ask_all(ops)
    return _judge(ops, outcomes, None, (yield from _stored(key)))


def _replace(probe: ProbeKeys, key: str) -> Work[Seen]:
    yield from ask(PutIfAbsent(key, probe.body()))
    old = yield from _stored(key)
    if old is None:
        return Verdict.BAD, "an object that was created is not there"
    if not old.info.etag:
        return Verdict.BAD, "an object has no etag"
    ops = [PutIfMatch(key, probe.body(), old.info.etag) for _ in range(probe.size.writers)]
    outcomes = yield from ask_all(ops)
    return _judge(ops, outcomes, old, (yield from _stored(key)))


def _judge(
    ops: Sequence[PutIfAbsent | PutIfMatch],
    outcomes: Sequence[Any],
    old: Fetched | None,
    now: Fetched | None,
) -> Seen:
    """Say what came of a race: ``old`` was there before it, ``now`` is there after it.

    Raises:
        LakelogError: a write was refused for another reason than the race.
    """
    for outcome in outcomes:
        if isinstance(outcome, LakelogError) and not isinstance(outcome, UnavailableError):
            raise outcome
    told = list(zip([op.body for op in ops], outcomes, strict=True))
    won = [body for body, outcome in told if isinstance(outcome, Created | Replaced)]
    lost = [body for body, outcome in told if isinstance(outcome, Exists | Changed)]
    body = now.body if now else None
    if len(won) > 1:
        return Verdict.BAD, f"{len(won)} of {len(ops)} racing writers were told that they won"
    if body == (old.body if old else None):
        if won or lost:
            which = "won" if won else "came too late"
            return Verdict.BAD, f"a writer was told that it {which}, and nobody's bytes are there"
        return Verdict.UNANSWERED, f"none of {len(ops)} racing writers got an answer"
    if won and body != won[0]:
        return Verdict.BAD, "a writer was told that it won, and the bytes are not its own"
    if body in lost:
        return Verdict.BAD, "a writer was told that it came too late, and its bytes are there"
    if body not in [op.body for op in ops]:
        return Verdict.BAD, "the bytes are those of none of the writers"
    return GOOD


def _taken(probe: ProbeKeys, key: str) -> Work[Seen]:
    old = yield from _stored(key)
    if old is None:
        return _NOTHING
    outcome = yield from ask(PutIfAbsent(key, probe.body()))
    now = yield from _stored(key)
    if outcome != Exists() or now is None or now.body != old.body:
        return Verdict.BAD, "an object was overwritten by a write for absent keys only"
    return GOOD


def _stale(probe: ProbeKeys, key: str) -> Work[Seen]:
    bodies = [probe.body() for _ in range(3)]
    created = yield from ask(PutIfAbsent(key, bodies[0]))
    if not (isinstance(created, Created) and created.etag):
        return Verdict.BAD, f"the first write of a key is answered {created}"
    replaced = yield from ask(PutIfMatch(key, bodies[1], created.etag))
    if not isinstance(replaced, Replaced):
        return Verdict.BAD, "the right etag was refused"
    outcome = yield from ask(PutIfMatch(key, bodies[2], created.etag))
    now = yield from _stored(key)
    if outcome != Changed() or now is None or now.body != bodies[1]:
        return Verdict.BAD, "an object was overwritten by a write with a stale etag"
    return GOOD


def _read(probe: ProbeKeys, key: str) -> Work[Seen]:
    if (yield from _stored(key)) is not None:
        return Verdict.BAD, "a key that nobody wrote is there"
    body = probe.body()
    yield from ask(PutIfAbsent(key, body))
    reads: dict[str, Operation[Any]] = {
        "get": Get(key),
        "range": GetRange(key, 3, 17),
        "suffix": GetSuffix(key, 9),
        "head": Head(key),
        "list": ListPage(probe.folder, key[:-1]),
        "list behind it": ListPage(probe.folder, key),
    }
    right = {"get": body, "range": body[3:17], "suffix": body[-9:], "list behind it": None}
    outcomes = yield from ask_all(list(reads.values()))
    for name, outcome in zip(reads, outcomes, strict=True):
        if isinstance(outcome, LakelogError) and not isinstance(outcome, NotFoundError):
            raise outcome
        if _told(outcome, key) != right.get(name, len(body)):
            return Verdict.BAD, f"{name} does not show what was written before it"
    return GOOD


def _told(outcome: Any, key: str) -> bytes | int | None:
    """Return the bytes, or else the size, that a read says a key has."""
    match outcome:
        case Fetched():
            return outcome.body
        case ObjectInfo():
            return outcome.size
        case Page():
            return next((info.size for info in outcome.objects if info.key == key), None)
        case _:
            return None


def _delete(probe: ProbeKeys, key: str) -> Work[Seen]:
    yield from ask(Delete(key))
    page = yield from ask(ListPage(probe.folder, key[:-1]))
    if (yield from _stored(key)) is not None or _told(page, key) is not None:
        return Verdict.BAD, "an object that was deleted is still there"
    return GOOD


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: how it is tried, and what is said of it if it is kept."""

    name: str
    kind: str
    """Which keys it is about."""
    flow: Callable[[ProbeKeys, str], Work[Seen]]
    good: str


_ONE = "{writers} writers on each of {keys} keys: one winner"
KINDS = ("create", "replace", "stale", "read")

ROUNDS = (
    (
        Check("create", "create", _create, _ONE),
        Check("replace", "replace", _replace, _ONE),
    ),
    (
        Check("taken", "create", _taken, "{keys} keys that are taken: refused"),
        Check("stale", "stale", _stale, "{keys} etags: good once, then refused"),
        Check("read", "read", _read, "{keys} keys: get, range, suffix, head and list see a write"),
    ),
    (Check("delete", "create", _delete, "{keys} keys: gone from get and list"),),
)
"""The checks of a round are about different keys, and go side by side."""

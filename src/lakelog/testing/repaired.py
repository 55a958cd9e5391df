"""Planted bugs that were in the product once, and are repaired."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.log import Staged
from lakelog.ports import Clock
from lakelog.store import Body, Exists, Head, LocalStore, PutIfAbsent, Wait, Work, put_if_absent
from lakelog.testing.scale import MEMORY_MS, Patches, patched
from lakelog.testing.world import Faults, World

__all__ = ["REPAIRED", "Bug"]

_APPEND = "lakelog.journal.append"
_FOLD = "lakelog.journal.fold"
_STAGING = "lakelog.log.staging"
_FOLDERS = "lakelog.store.folders"


@dataclass(frozen=True, slots=True)
class Bug:
    """What is broken: a sentence, and what is replaced by what."""

    what: str
    patches: Patches
    shows_in: Callable[[World], bool] = lambda _: True
    """In which towns it can be found at all: who looks for it need not try the others."""
    faults: Faults = field(default_factory=Faults)
    """In a world where these go wrong its seed finds it: a rare one needs a rougher world."""


@contextmanager
def _open_not_durable(store: LocalStore, key: str) -> Iterator[Any]:
    """Open an object, whether or not its name will be there after a power cut."""
    folders = import_module(_FOLDERS).Folders
    with patched(((folders, "make_durable", lambda *_: None),)), _real_open(store, key) as found:
        yield found


_real_open = LocalStore._open  # noqa: SLF001


def _put_unsynced(store: LocalStore, op: PutIfAbsent) -> Any:
    """Say that a key exists, and do not see to it that it will exist after a power cut."""
    try:
        store.perform(Head(op.key))
    except NotFoundError:
        return _real_put(store, op)
    return Exists()


_real_put = LocalStore._put_if_absent  # noqa: SLF001


def _sync_twice(system: Any, handle: int, _path: str) -> None:
    """Sync, and when that fails, sync again, which succeeds."""
    with suppress(OSError):
        system.fsync(handle)
        return
    system.fsync(handle)


def _put_for_ever(key: str, body: Body) -> Work[Any]:
    """Put, and when the store refuses it, put again."""
    while True:
        try:
            return (yield from put_if_absent(key, body))
        except InvalidInputError:
            yield Wait(1_000)


def _wall_stamp(_time: Any, clock: Clock, _ids: Any) -> Work[int]:
    yield from ()
    return clock.now_ms()


def _newest_of_all(producers: list[tuple[Any, Any]], most: int) -> list[tuple[Any, Any]]:
    """Keep those that were seen last, whichever partition they are of."""
    return sorted(producers, key=lambda one: (one[1].seen_ms, one[0]))[-most:]


def _plan_of_one_page(staged: Sequence[Staged]) -> list[bytes]:
    """Write a plan of as many runs as there are, though readers take fewer."""
    with patched(((_STAGING, "RUNS_MAX", 1 << 16),)):
        pages: list[bytes] = _encode_plan(staged)
        return pages


_encode_plan = import_module(_STAGING).encode_plan


REPAIRED: dict[str, Bug] = {
    "ack-unsynced": Bug(
        "a name that another process has made is believed, and its folder not synced",
        (
            (LocalStore, "_open", _open_not_durable),
            (LocalStore, "_put_if_absent", _put_unsynced),
        ),
        lambda world: world.machine is not None,
    ),
    "fsync-again": Bug(
        "an fsync that failed is tried again, and believed",
        ((_FOLDERS, "sync", _sync_twice), ("lakelog.store.drafts", "sync", _sync_twice)),
        lambda world: world.machine is not None,
    ),
    "limit-of-readers": Bug(
        "a bulk write is decided whose plan is larger than readers take",
        (("lakelog.log.writes", "encode_plan", _plan_of_one_page),),
    ),
    "put-for-ever": Bug(
        "what the store refuses is put again, for ever",
        ((_APPEND, "put_if_absent", _put_for_ever),),
        lambda world: world.bundle_bytes_max < 1 << 62,
    ),
    "wall-stamp": Bug(
        "bundles are stamped by the clock of the machine that writes them",
        ((_APPEND, "stamp", _wall_stamp),),
    ),
    "evict-strangers": Bug(
        "a lane that has too many producers forgets the longest idle ones, of whatever partition",
        ((_FOLD, "_within_quota", _newest_of_all),),
        lambda world: world.is_greedy,
    ),
    "judged-late": Bug(
        "a request is judged by a lane that may have forgotten its producer meanwhile",
        (("lakelog.testing.scale", "FORGETFUL", ((_FOLD, "MEMORY_MS", MEMORY_MS),)),),
        lambda world: world.is_forgetful,
    ),
}
"""Every one by its name."""

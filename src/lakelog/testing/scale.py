"""The product's limits, made as small as the town.

A town lives for a minute and its bundles have some hundred bytes, so that limits of hours and of
megabytes would never be met. They are replaced while a seed runs; nothing else is.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

__all__ = ["Patches", "patched", "scaled"]

Patches = Iterable[tuple[Any, str, Any]]
"""A module's name or a class, an attribute of it, and what stands there instead."""

_APPEND = "lakelog.journal.append"
_FOLD = "lakelog.journal.fold"

MEMORY_MS = 30_000
PRODUCERS = 40

RUNS = 2

ALWAYS: Patches = (
    (_APPEND, "PATIENCE_MS", 5_000),
    (_APPEND, "SMALL_BYTES", 100),
    ("lakelog.log.staging", "RUNS_MAX", RUNS),
)
FORGETFUL: Patches = ((_FOLD, "MEMORY_MS", MEMORY_MS), (_APPEND, "JUDGED_MS_MAX", MEMORY_MS // 2))
GREEDY: Patches = ((_FOLD, "PRODUCERS_MAX", PRODUCERS),)


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Replace attributes while this lasts."""
    kept: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, value in patches:
            target = import_module(owner) if isinstance(owner, str) else owner
            kept.append((target, attribute, getattr(target, attribute)))
            setattr(target, attribute, value)
        yield
    finally:
        for target, attribute, value in reversed(kept):
            setattr(target, attribute, value)


def scaled(*, forgetful: bool, greedy: bool) -> AbstractContextManager[None]:
    """Let limits be those of a town while this lasts."""
    return patched((*ALWAYS, *(FORGETFUL if forgetful else ()), *(GREEDY if greedy else ())))

"""Which members live, by what my own lists have shown. No two clocks are compared.

    list        0 s     3 s     6 s     9 s          mine, one every interval
    etag        a       a       a       a            of its beat
    unchanged   0       1       2       3 -> dead

**Dead** is a member whose beat was the same in three lists, each begun an interval or more after
the one before it. A list that was made for another reason in between does not count. After a pause
of my own that was longer than two intervals I know nothing of how long the others were silent, and
count anew; but whoever was dead stays so until its beat changes: it would otherwise be given lanes
back each time that somebody else slept.

A list that does not show a member at all may be a late one: the member is as silent as if its beat
had not changed.

This is about who should do what, and never about who may: a member that lives and is thought dead
loses nothing that was acknowledged.
"""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["DEAD_AFTER", "Liveness"]

DEAD_AFTER = 3
"""Lists in which a beat did not change."""

_EARLY_MS = 50
"""Timers may fire a little early: a list that was begun so much before its time counts."""


class _Seen(NamedTuple):
    etag: str
    unchanged: int
    """Lists that counted and showed this same etag again."""
    counted_ms: int
    """When the last list that counted was begun."""


class Liveness:
    """What one broker knows of the beats of the others."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._seen: dict[int, _Seen] = {}
        self._counted_ms: int | None = None

    def listed(self, begun_ms: int, beats: Mapping[int, str]) -> frozenset[int]:
        """Note the etags of a list that was begun at this time, and return the dead among them."""
        enough_ms = self._interval_ms - _EARLY_MS
        last_ms = self._counted_ms
        paused = last_ms is not None and begun_ms - last_ms > 2 * self._interval_ms
        if last_ms is None or begun_ms - last_ms >= enough_ms:
            self._counted_ms = begun_ms
        silent = {node: seen.etag for node, seen in self._seen.items() if node not in beats}
        for node, etag in (silent | dict(beats)).items():
            seen = self._seen.get(node)
            if seen is None or seen.etag != etag:
                self._seen[node] = _Seen(etag, 0, begun_ms)
            elif paused:
                left = seen.unchanged if seen.unchanged >= DEAD_AFTER else 0
                self._seen[node] = _Seen(etag, left, begun_ms)
            elif begun_ms - seen.counted_ms >= enough_ms:
                self._seen[node] = _Seen(etag, seen.unchanged + 1, begun_ms)
        dead = frozenset(n for n, seen in self._seen.items() if seen.unchanged >= DEAD_AFTER)
        for node in dead & silent.keys():
            del self._seen[node]
        return dead

    def alive(self, node: int) -> None:
        """Note another sign of life: a claim or a bundle that its run has just written."""
        seen = self._seen.get(node)
        if seen is not None and seen.unchanged < DEAD_AFTER:
            self._seen[node] = seen._replace(unchanged=0)

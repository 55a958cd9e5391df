"""Flushing: which requests go into the next bundle, and an answer for each of them.

A lane has one put in flight. While it is, requests queue up; ``pace`` says when the next flush
begins. Bundles are capped, and so is the queue: what does not fit is refused before it costs
memory, and the client comes again later. Clients have equal parts of each bundle, as far as they
want them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heapreplace
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from lakelog.errors import LakelogError
from lakelog.formats.lanes import DIRECTORY_BYTES_MAX, directory_bytes
from lakelog.journal.append import append
from lakelog.journal.lane import Lane
from lakelog.journal.pace import FlushSettings, Pace
from lakelog.journal.requests import Append, Outcome, Request, Unknown, request_bytes
from lakelog.store import Work

__all__ = ["Flushed", "Queue", "flush"]

W = TypeVar("W")
"""Who waits for a request: only the caller knows."""


class _Entry(NamedTuple, Generic[W]):
    since_ms: int
    request: Request
    waiter: W


class Queue(Generic[W]):
    """Requests of a lane that wait for a flush. Time comes in, nothing waits here.

    Each client has a line of its own, and the order within it is kept. A bundle takes from the line
    that has had least of it; who got nothing is first in the next one. So whoever sends much delays
    the others by a bundle at most, and none of them can be passed over for ever.
    """

    def __init__(self, settings: FlushSettings) -> None:
        self._settings = settings
        self._cost_min = settings.size_bytes_max // settings.requests_max
        """What a small request counts for: a bundle has so many places, too."""
        self._lines: dict[str, deque[_Entry[W]]] = {}
        """By client, in the order of their turns; none is empty."""
        self._count = 0
        self._since_ms = 0
        """When the oldest came."""
        self.size_bytes = 0
        self._pace = Pace(settings)
        self._is_full = False
        """Whether the last that was taken did not wait, or left something behind."""

    def __len__(self) -> int:
        return self._count

    def has_room(self, request: Request) -> bool:
        """Say whether a request fits; a single one always does."""
        size = self.size_bytes + request_bytes(request)
        return not self._count or size <= self._settings.queue_bytes_max

    def push(self, request: Request, now_ms: int, waiter: W, client: str = "") -> None:
        """Let a request wait, also when there is no room: somebody else counts."""
        if not self._count:
            self._since_ms = now_ms
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = deque()
        line.append(_Entry(now_ms, request, waiter))
        self._count += 1
        self.size_bytes += request_bytes(request)

    def drop(self, is_late: Callable[[W], bool]) -> list[tuple[Request, W]]:
        """Let those go who do not wait any more, and return them; the others wait on."""
        late = [
            (one.request, one.waiter)
            for line in self._lines.values()
            for one in line
            if is_late(one.waiter)
        ]
        if late:
            kept = {
                client: deque([one for one in line if not is_late(one.waiter)])
                for client, line in self._lines.items()
            }
            self._lines = {client: line for client, line in kept.items() if line}
            entries = [one for line in self._lines.values() for one in line]
            self._count = len(entries)
            self.size_bytes = sum(request_bytes(one.request) for one in entries)
            self._find_oldest()
        return late

    def clear(self) -> list[W]:
        """Let nobody wait, and return who did."""
        return [waiter for _, waiter in self.drop(lambda _: True)]

    def due_ms(self, put_ms: int = 0) -> int | None:
        """Return when the next flush should begin, by the clock of ``push``, where a put takes so
        long; None: no need.
        """
        if not self._count:
            return None
        return self._since_ms if self._has_enough() else self._pace.due_ms(self._since_ms, put_ms)

    def _has_enough(self) -> bool:
        full = self._count >= self._settings.requests_max
        return full or self.size_bytes >= self._settings.size_bytes_goal

    def flush_begins(self, now_ms: int, requests: int) -> None:
        """Take note that so many of what was taken last are put now."""
        self._pace.begins(now_ms, requests, is_full=self._is_full)

    def flush_ends(self, now_ms: int) -> None:
        """Take note that they are stored, or not."""
        self._pace.ends(now_ms)

    def take(self) -> list[tuple[Request, W]]:
        """Return what goes into the next bundle, and who waits for it."""
        taken: list[tuple[Request, W]] = []
        self._is_full = self._has_enough()
        size = rows_size = 0
        most = self._settings.requests_max
        # What each has had of this bundle, and since when it has waited for its turn: a heap.
        turns = [(0, number, client) for number, client in enumerate(islice(self._lines, most))]
        number, served = len(turns), dict[str, None]()
        while turns and len(taken) < most:
            had, _, client = turns[0]
            line = self._lines[client]
            _, request, waiter = line[0]
            more, more_rows = request_bytes(request), _rows_size(request)
            if taken and (
                size + more > self._settings.size_bytes_max
                or rows_size + more_rows > DIRECTORY_BYTES_MAX
            ):
                heappop(turns)  # What is behind it must not pass it.
                continue
            line.popleft()
            taken.append((request, waiter))
            served[client] = None
            size += more
            rows_size += more_rows
            if line:
                number += 1
                heapreplace(turns, (had + max(more, self._cost_min), number, client))
            else:
                heappop(turns)
        for client in served:
            line = self._lines.pop(client)
            if line:
                self._lines[client] = line  # Behind those who got nothing.
        self._count -= len(taken)
        self.size_bytes -= size
        self._is_full |= bool(self._count)
        self._find_oldest()
        return taken

    def _find_oldest(self) -> None:
        self._since_ms = min([line[0].since_ms for line in self._lines.values()], default=0)


def _rows_size(request: Request) -> int:
    """Return what a request adds to the directory of its bundle, at most."""
    if type(request) is Append:
        return directory_bytes(slices=1, batches=len(request.rows))
    return directory_bytes(events=1)


@dataclass(frozen=True, slots=True)
class Flushed:
    """How a flush ended, for every request that it took."""

    outcomes: tuple[Outcome, ...]
    error: LakelogError | None = None
    """What kept it from ending well. It is for the log: the outcomes say all to the clients."""


def flush(lane: Lane, requests: Sequence[Request]) -> Work[Flushed]:
    """Append requests. If that fails, the outcome of every one of them is unknown."""
    try:
        return Flushed((yield from append(lane, requests)))
    except LakelogError as error:
        lane.counters["flush failed"] += 1
        return Flushed(_failed(requests), error)


def _failed(requests: Sequence[Request]) -> tuple[Outcome, ...]:
    return tuple(Unknown() for _ in requests)

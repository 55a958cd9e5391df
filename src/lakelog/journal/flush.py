"""Flushing: which requests go into the next bundle, when, and an answer for each of them.

A lane has one put in flight. While it is, requests queue up; the next flush begins when there is
none in flight, and either enough bytes are waiting or the oldest request has waited long enough.
Bundles are capped, and so is the queue: what does not fit is refused at the door, before it costs
memory, and the client comes again later.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.errors import InvalidInputError, LakelogError
from lakelog.formats.lanes import DIRECTORY_BYTES_MAX, PAYLOAD_BYTES_MAX, directory_bytes
from lakelog.journal.append import append
from lakelog.journal.lane import Lane
from lakelog.journal.requests import Append, Outcome, Request, Unknown, request_bytes
from lakelog.store import Work

__all__ = ["FlushSettings", "Flushed", "Queue", "flush"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettings:
    """When what is queued becomes a bundle."""

    interval_ms: int = 250
    """The longest that a request waits for company; on average half of it. 1 on local files, where
    a put is cheap. Flushes begin at multiples of it, by the clock, so that all lanes flush at the
    same time: answers on a connection keep their order, and wait for the slowest lane."""

    size_bytes_goal: int = 8 << 20
    """So much is not kept waiting. Larger bundles cost fewer requests."""

    size_bytes_max: int = 16 << 20
    """No bundle has a larger payload, unless a single request is. Readers take up to 192 MiB."""

    requests_max: int = 200
    """Nor more requests: making a bundle takes the processor for as long as there are requests in
    it, and nothing else runs meanwhile."""

    queue_bytes_max: int = 64 << 20
    """What waits in memory. Raise it for many producers on a slow store."""

    def __post_init__(self) -> None:
        sizes = (1, self.size_bytes_goal, self.size_bytes_max, self.queue_bytes_max)
        if sorted(sizes) != list(sizes) or self.interval_ms < 0 or self.requests_max < 1:
            raise InvalidInputError(
                f"{self}: use goal <= max <= queue, an interval from 0, requests from 1"
            )
        if self.size_bytes_max > PAYLOAD_BYTES_MAX:
            raise InvalidInputError(
                f"{self}: readers take bundles of up to {PAYLOAD_BYTES_MAX} bytes: size_bytes_max "
                "is at most that"
            )


class Queue:
    """Requests of a lane that wait for a flush. Time comes in, nothing waits here."""

    def __init__(self, settings: FlushSettings) -> None:
        self._settings = settings
        self._waiting: deque[tuple[int, Request]] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, request: Request) -> bool:
        """Say whether a request fits; a single one always does."""
        size = self.size_bytes + request_bytes(request)
        return not self._waiting or size <= self._settings.queue_bytes_max

    def push(self, request: Request, now_ms: int) -> None:
        """Let a request wait, also when there is no room: somebody else counts."""
        self._waiting.append((now_ms, request))
        self.size_bytes += request_bytes(request)

    def keep(self, wanted: Sequence[bool]) -> None:
        """Let only some wait on, each since it came; ``wanted`` says of each request whether."""
        kept = [one for one, is_wanted in zip(self._waiting, wanted, strict=True) if is_wanted]
        self._waiting = deque(kept)
        self.size_bytes = sum(request_bytes(request) for _, request in kept)

    def clear(self) -> None:
        """Let nobody wait."""
        self._waiting.clear()
        self.size_bytes = 0

    def due_ms(self) -> int | None:
        """Return when the next flush should begin, by the clock of ``push``; None: no need."""
        if not self._waiting:
            return None
        since = self._waiting[0][0]
        full = len(self._waiting) >= self._settings.requests_max
        if full or self.size_bytes >= self._settings.size_bytes_goal:
            return since
        interval_ms = self._settings.interval_ms
        return since + interval_ms - since % interval_ms if interval_ms else since

    def take(self) -> list[Request]:
        """Return what goes into the next bundle, in the order in which it came."""
        taken: list[Request] = []
        size = rows_size = 0
        while self._waiting and len(taken) < self._settings.requests_max:
            request = self._waiting[0][1]
            more, more_rows = request_bytes(request), _rows_size(request)
            if taken and (
                size + more > self._settings.size_bytes_max
                or rows_size + more_rows > DIRECTORY_BYTES_MAX
            ):
                break
            self._waiting.popleft()
            taken.append(request)
            size += more
            rows_size += more_rows
        self.size_bytes -= size
        return taken


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
        lane.notes["flush failed"] += 1
        return Flushed(_failed(requests), error)


def _failed(requests: Sequence[Request]) -> tuple[Outcome, ...]:
    return tuple(Unknown() for _ in requests)

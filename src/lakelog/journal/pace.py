"""When a flush begins: at once, after a pause, or when the lane may spend another put.

    nothing in flight, nobody about       at once
    a put has ended that took company     a quarter of a put's time later: they come back together
    a put has a price                     a lane spends what its policy allows, and no more: time is
                                          cut in cells, as long as one put's worth of the budget.

        cells      |       |       |       |       |       |       |
        requests      x        x xx x x        x         (a put for each cell, at once while
        flushes       ^        ^   ^   ^       ^          cells are saved, then where cells begin)

    A lane that was quiet has saved the cells in which it put nothing, up to ``SAVED_MAX``, and
    spends them at once. After that a flush begins where a cell does, by the clock, so that all
    lanes flush at the same time: answers on a connection keep their order, and wait for the slowest
    lane.

    enough has come                       at once: large bundles cost little, for what they carry
    the oldest has waited for the bound   at once, whatever it costs (``flush.interval.ms``)

And always one put in flight: what comes meanwhile waits for its end.

``PutTimes`` is what a lane knows of its puts.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from statistics import median_low

from lakelog.errors import InvalidInputError
from lakelog.formats.lanes import PAYLOAD_BYTES_MAX

__all__ = ["SAVED_MAX", "FlushPolicy", "FlushSettings", "Pace", "PutTimes"]

DAY_MS = 86_400_000
SAVED_MAX = 8
"""Cells that a quiet lane has saved at most: a producer that resends what it had in flight, one
batch after the other, is not kept waiting for each of them."""

BOUND_MS = 250
"""The longest that a request waits for a flush to begin, unless a cell of the budget is longer."""

PAUSE_PART = 4
"""The pause is this part of a put's time, and a millisecond at least."""

TIMES = 31
"""Puts of which the median is taken."""


class FlushPolicy(StrEnum):
    """What a lane spends on its puts."""

    LATENCY = "latency"
    """As much as it takes; the default where requests are free."""
    BALANCED = "balanced"
    """By S3's prices, four puts a second; the default where they are not."""
    COST = "cost"
    """By S3's prices, a put every five seconds."""


BUDGETS_NANO_USD: dict[FlushPolicy, int] = {
    FlushPolicy.BALANCED: 1_728_000_000,
    FlushPolicy.COST: 86_400_000,
}
"""Of a lane and a day. Lanes and not brokers have a budget, because a lane is written to by one
broker at a time, however many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettings:
    """When what is queued becomes a bundle, and how much of it."""

    policy: FlushPolicy | None = None
    """None: by the price."""

    put_nano_usd: int = 0
    """What a put costs, in billionths of a dollar."""

    interval_ms: int | None = None
    """The longest that a request waits for a flush to begin, when none is in flight; 0: it never
    waits. None: 250, or as long as a cell of the budget is, if that is longer."""

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
        numbers = (self.interval_ms or 0, self.put_nano_usd, self.requests_max - 1)
        if sorted(sizes) != list(sizes) or min(numbers) < 0:
            raise InvalidInputError(
                f"{self}: use goal <= max <= queue, an interval and a price from 0, requests from 1"
            )
        if self.size_bytes_max > PAYLOAD_BYTES_MAX:
            raise InvalidInputError(
                f"{self}: readers take bundles of up to {PAYLOAD_BYTES_MAX} bytes: size_bytes_max "
                "is at most that"
            )

    @property
    def policy_in_force(self) -> FlushPolicy:
        """The policy, or the one that follows from the price."""
        by_price = FlushPolicy.BALANCED if self.put_nano_usd else FlushPolicy.LATENCY
        return self.policy or by_price

    @property
    def cell_ms(self) -> int:
        """For how long one put is all that the budget has; 0: there is no limit."""
        budget = BUDGETS_NANO_USD.get(self.policy_in_force)
        return 0 if budget is None else self.put_nano_usd * DAY_MS // budget

    @property
    def bound_ms(self) -> int:
        """The longest that a request waits for a flush to begin, when none is in flight."""
        return max(BOUND_MS, self.cell_ms) if self.interval_ms is None else self.interval_ms


class PutTimes:
    """How long the last puts took, each with all that it was repeated."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=TIMES)
        self.median_ms = 0

    def note(self, took_ms: int) -> None:
        """Take note of a put that ended."""
        self._times.append(took_ms)
        self.median_ms = median_low(self._times)


class Pace:
    """When a lane flushes. Time comes in, nothing waits here."""

    __slots__ = ("_ended_ms", "_had_company", "_settings", "_spent")

    def __init__(self, settings: FlushSettings) -> None:
        self._settings = settings
        self._ended_ms: int | None = None
        """When the last flush ended; None: none has."""
        self._had_company = False
        """Whether it took several requests."""
        self._spent: int | None = None
        """The last cell that is spent; those before it are as well."""

    def due_ms(self, since_ms: int, put_ms: int) -> int:
        """Return when a flush should begin for a request that came then, where puts take so long.

        A flush that is in flight then is waited for.
        """
        due_ms = since_ms
        if self._ended_ms is not None and self._had_company:
            due_ms = max(due_ms, self._ended_ms + max(1, put_ms // PAUSE_PART))
        if self._spent is not None:
            due_ms = max(due_ms, (self._spent + 1) * self._settings.cell_ms)
        return min(due_ms, since_ms + self._settings.bound_ms)

    def begins(self, now_ms: int, requests: int, *, is_full: bool) -> None:
        """Take note that a flush begins. One that is full is not counted against the budget."""
        self._had_company = requests > 1
        cell_ms = self._settings.cell_ms
        if cell_ms and not is_full:
            saved_from = now_ms // cell_ms - SAVED_MAX + 1
            spent = saved_from if self._spent is None else max(self._spent + 1, saved_from)
            self._spent = spent

    def ends(self, now_ms: int) -> None:
        """Take note that it has ended."""
        self._ended_ms = now_ms

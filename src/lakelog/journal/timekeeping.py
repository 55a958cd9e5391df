"""What time it is, by the store's clock: the one by which everything in the log is stamped.

    store_now     asks the store: an object is made, and the store says when
    StoreTime     remembers what it said, and what this machine's clocks showed then
        stamp_ms    the store's time then, and what has passed since by the clock that cannot be set
        is_due      whether to compare again: after ten minutes, or when the wall clock has jumped
        problem     a sentence while the wall clock is too far from the store's; else empty
    stamp         a flow: compare if it is due, and return the time; or raise the problem

Times in a lane never go back, so that a single process with a clock in 2100 would stamp everything
that anybody appends later with 2100, and nothing of it would ever be old enough to be deleted. So
whoever appends asks the store first, and with a wall clock that is minutes off appends nothing. The
stamps would be right even so; but signatures, certificates and logs go by that clock, and somebody
should look.

Deleters wait by the store's clock and by no other, too: the age of a floor is the difference of two
times that the same store has written.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from lakelog.errors import UnavailableError
from lakelog.names import time_key
from lakelog.ports import Clock, Ids
from lakelog.store import SOON, Work, delete, head, put_named

__all__ = [
    "SKEW_MS_MAX",
    "SKEW_MS_MIN",
    "StampedClock",
    "StoreTime",
    "compare",
    "stamp",
    "store_now",
]

SKEW_MS_MAX = 300_000
"""How far a wall clock may be from the store's, unless a broker is told otherwise."""
SKEW_MS_MIN = 2_000
"""A store tells whole seconds, and its answer takes a while: less cannot be told from nothing."""
EVERY_MS = 600_000
AGAIN_MS = 5_000
"""While there is a problem, a comparison is due so soon after the last one."""
RESOLUTION_MS = 1_000
"""Stores tell times in whole seconds, rounded down."""


def store_now(ids: Ids) -> Work[int]:
    """Return the store's time, in milliseconds since 1970: three small requests.

    Raises:
        UnavailableError: it does not answer, time and again.
    """
    key = time_key(ids())
    yield from put_named(key, b"", SOON)
    info = yield from head(key)
    with suppress(UnavailableError):  # Maintenance sweeps what is left.
        yield from delete(key)
    return info.modified_ms


@dataclass(frozen=True, slots=True)
class _Compared:
    """Three clocks at one moment."""

    store_ms: int
    wall_ms: int
    boot_ms: int


class StoreTime:
    """What one process knows of the store's clock. Lanes of a process share one."""

    def __init__(self, skew_ms_max: int = SKEW_MS_MAX) -> None:
        self.skew_ms_max = skew_ms_max
        self.problem = ""
        """Why nothing may be appended; empty: nothing is wrong, or nothing is known yet."""
        self._seen: _Compared | None = None

    def stamp_ms(self, clock: Clock) -> int:
        """Return what the store's clock shows; before a comparison, what the wall clock does."""
        seen = self._seen
        return clock.now_ms() if seen is None else seen.store_ms + clock.boot_ms() - seen.boot_ms

    def has_jumped(self, clock: Clock) -> bool:
        """Say whether the two clocks of this machine disagree about how much time has passed."""
        seen = self._seen
        if seen is None:
            return True
        passed_ms = clock.boot_ms() - seen.boot_ms
        return abs(clock.now_ms() - seen.wall_ms - passed_ms) > self.skew_ms_max

    def is_due(self, clock: Clock, every_ms: int = EVERY_MS) -> bool:
        """Say whether to ask the store again."""
        if self._seen is None:
            return True
        passed_ms = clock.boot_ms() - self._seen.boot_ms
        if self.problem:
            return passed_ms >= min(AGAIN_MS, every_ms)
        return passed_ms >= every_ms or self.has_jumped(clock)

    def take(self, store_ms: int, wall_ms: int, boot_ms: int, now_boot_ms: int) -> None:
        """Take in what the store said to a question; the clocks of this machine stood so before
        it, and the one that cannot be set stands so now.
        """
        took_ms = now_boot_ms - boot_ms
        # The store's clock stood somewhere within its second, at some moment of the question.
        least, most = store_ms - wall_ms - took_ms, store_ms + RESOLUTION_MS - 1 - wall_ms
        ahead_ms = min(max(0, least), most)
        wall_ms += took_ms
        self._seen = _Compared(wall_ms + ahead_ms, wall_ms, now_boot_ms)
        self.problem = ""
        if abs(ahead_ms) > self.skew_ms_max:
            self.problem = (
                f"the clock of this machine says {_said(wall_ms)} and the clock of the store "
                f"{_said(wall_ms + ahead_ms)}, which is more than {self.skew_ms_max // 1000} "
                "seconds apart. Nothing is appended, because times in the log never go back. Set "
                "the clock of this machine (NTP)"
            )


class StampedClock:
    """A clock whose wall is the store's."""

    def __init__(self, time: StoreTime, clock: Clock) -> None:
        self._time, self._clock = time, clock

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the store's clock."""
        return self._time.stamp_ms(self._clock)

    def boot_ms(self) -> int:
        """Milliseconds since some moment."""
        return self._clock.boot_ms()


def compare(time: StoreTime, clock: Clock, ids: Ids) -> Work[None]:
    """Ask the store what time it is.

    Raises:
        UnavailableError: it does not answer.
    """
    wall_ms, boot_ms = clock.now_ms(), clock.boot_ms()
    time.take((yield from store_now(ids)), wall_ms, boot_ms, clock.boot_ms())


def stamp(time: StoreTime | None, clock: Clock, ids: Ids) -> Work[int]:
    """Return the time by which to append now; compare the clocks before, if that is due.

    Raises:
        UnavailableError: this machine's clock is wrong, or nothing is known of the store's.
    """
    if time is None:
        return clock.now_ms()
    if time.is_due(clock):
        try:
            yield from compare(time, clock, ids)
        except UnavailableError:
            if time.has_jumped(clock):
                raise
            # What is known is old and no worse for it: a store that is away for a while is waited
            # for where something is put.
    if time.problem:
        raise UnavailableError(time.problem)
    return time.stamp_ms(clock)


def _said(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms after 1970"

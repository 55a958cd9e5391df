"""How a lane fares: what its last flush ended with, and for how long a put has waited."""

from lakelog.errors import LakelogError
from lakelog.journal import Lane

__all__ = ["UNANSWERED_MS_MAX", "LaneHealth"]

UNANSWERED_MS_MAX = 15_000
"""Clients should go elsewhere when the store has not answered one put for longer."""


class LaneHealth:
    """The health of one lane. Its writer tells what happens; whoever asks is told what is wrong."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._name = f"lane {lane.number}"
        self._failing = ""
        """What ended the last flush; nothing if it ended well."""

    def flushed(self, error: LakelogError | None) -> None:
        """Take note of how a flush has ended."""
        self._failing = "" if error is None else f"cannot store anything: {error}"[:512]

    def died(self, error: BaseException) -> None:
        """Take note that the writer has died; it begins again."""
        self._failing = f"stopped, and begins again: its writer died of {error!r}"[:512]

    @property
    def is_failing(self) -> bool:
        """Whether the last flush did not end well."""
        return bool(self._failing)

    @property
    def refused_puts(self) -> int:
        """How often the store has answered a put of a bundle with a failure, so far."""
        return self._lane.counters["W3 unknown"]

    @property
    def unanswered_s(self) -> float:
        """For how long the bundle that is being stored has not been answered."""
        since_ms = self._lane.putting_since_ms
        return 0.0 if since_ms is None else max(self._lane.clock.boot_ms() - since_ms, 0) / 1000

    def trouble(self, *, is_closing: bool) -> str:
        """Say what keeps the lane from storing anything; nothing if all is well."""
        if is_closing and not self._failing:
            return f"{self._name} is closed: nothing is appended to it any more"
        if self.unanswered_s * 1000 > UNANSWERED_MS_MAX:
            return (
                f"{self._name} has waited {self.unanswered_s:.0f} s for the store to take a "
                "bundle: check the store and the network"
            )
        return f"{self._name} {self._failing}" if self._failing else ""

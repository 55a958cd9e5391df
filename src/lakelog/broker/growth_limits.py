"""How much a namespace may grow by what clients ask for.

    topics and partitions   so many in all, as far as this broker knows
    made by being named     so many in a second, and in one Metadata request

A topic costs every broker memory and the store a listing, for as long as it is there, and naming it
in a request is enough to make it. What is refused is told in the answer, and in the log.
"""

from kio.schema.errors import ErrorCode

from lakelog.broker.catalog import Catalog
from lakelog.broker.limits import Limits
from lakelog.broker.rates import Rate
from lakelog.broker.refusals import Refusals
from lakelog.ports import Clock

__all__ = ["GrowthLimiter"]

Flaw = tuple[ErrorCode, str]


class GrowthLimiter:
    """Says whether there may be more topics and partitions."""

    def __init__(self, catalog: Catalog, limits: Limits, refusals: Refusals, clock: Clock) -> None:
        self._catalog, self._limits, self._refusals, self._clock = catalog, limits, refusals, clock
        self._rate = Rate(limits.auto_created_per_s, clock.boot_ms() / 1000)

    def flaw(self, *, topics: int, partitions: int) -> Flaw | None:
        """Say why there may not be so many more; None: there may."""
        there, have = self._catalog.count()
        most = self._limits
        flaw: Flaw | None = None
        if topics and there + topics > most.topics:
            what = f"there are {there} topics, and a broker makes no more than {most.topics}"
            flaw = ErrorCode.policy_violation, f"{what}: delete some, or raise lakelog.topics.max"
        elif have + partitions > most.partitions:
            what = f"all topics have {have} partitions, and {partitions} more would be too many"
            rest = f"use fewer, or raise lakelog.partitions.max, which is {most.partitions}"
            flaw = ErrorCode.invalid_partitions, f"{what}: {rest}"
        if flaw is not None:
            self._refusals.note_topic(*flaw)
        return flaw

    def is_early(self) -> bool:
        """Say whether so many topics were made just now, by being named, that one must wait."""
        if self._rate.allows(self._clock.boot_ms() / 1000):
            return False
        most = self._limits.auto_created_per_s
        self._refusals.note_topic(
            ErrorCode.leader_not_available,
            f"{most} topics were made in a second because clients named them",
        )
        return True

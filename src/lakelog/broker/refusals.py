"""What clients were refused, batches, topics and groups: a line for each cause, now and then.

A client that is refused is told so; whoever operates the broker must be able to read it as well.
When a store is away thousands are refused in a second, so they are counted, and logged every ten
seconds.
"""

from collections import Counter

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.broker.group_memory import GroupMemoryFull
from lakelog.broker.metrics.counters import Metrics
from lakelog.groups import Code
from lakelog.wire import Produced

__all__ = ["Refusals"]

EVERY_MS = 10_000
CAUSES_MAX = 20
CAUSE_CHARS_MAX = 256
OTHERS = "other causes"
BATCHES = "batches were not stored"
TOPICS = "topics were not made"
GROUPS = "there was no room for consumer groups"


class Refusals:
    """Counts what was refused, and tells it."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or Metrics()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        """By what happened, Kafka's name of the error, and the cause."""
        self._told_ms: int | None = None

    def note(self, produced: Produced) -> str:
        """Count one partition of a request, and return Kafka's name of the error."""
        name = ErrorCode(produced.error).name.upper()
        self._count(BATCHES, name, produced.message or "")
        return name

    def note_topic(self, code: ErrorCode, cause: str) -> None:
        """Count one topic that was not made, or did not grow."""
        self._count(TOPICS, code.name.upper(), cause)

    def no_room(self, code: Code, why: GroupMemoryFull) -> None:
        """Count a group that was not taken, or could not grow."""
        self._metrics.group_refusals[why.limit] += 1
        self._count(GROUPS, code.name, why.message)

    def _count(self, what: str, name: str, cause: str) -> None:
        cause = cause[:CAUSE_CHARS_MAX]
        if (what, name, cause) not in self._counts and len(self._counts) >= CAUSES_MAX:
            cause = OTHERS
        self._counts[what, name, cause] += 1

    def tell(self, now_ms: int, log: FilteringBoundLogger) -> None:
        """Write down what has been refused since the last time, if that is long ago."""
        if not self._counts or (self._told_ms is not None and now_ms < self._told_ms + EVERY_MS):
            return
        for (what, error, cause), count in self._counts.items():
            log.warning(what, told=error, count=count, cause=cause)
        self._counts.clear()
        self._told_ms = now_ms

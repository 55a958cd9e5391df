"""What clients were told when their batches were not stored: a line for each cause, now and then.

A producer that is refused knows it; whoever runs the broker must be able to read it as well. When
a store is away thousands are refused in a second, so they are counted, and told every ten seconds.
"""

from collections import Counter

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.wire import Produced

__all__ = ["Refusals"]

EVERY_MS = 10_000
CAUSES_MAX = 20
CAUSE_CHARS_MAX = 256
OTHERS = "other causes"


class Refusals:
    """Counts what was refused, and tells it."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._told_ms: int | None = None

    def note(self, produced: Produced) -> str:
        """Count one partition of a request, and return Kafka's name of the error."""
        name = ErrorCode(produced.error).name.upper()
        cause = (produced.message or "")[:CAUSE_CHARS_MAX]
        if (name, cause) not in self._counts and len(self._counts) >= CAUSES_MAX:
            cause = OTHERS
        self._counts[name, cause] += 1
        return name

    def tell(self, now_ms: int, log: FilteringBoundLogger) -> None:
        """Write down what has been refused since the last time, if that is long ago."""
        if not self._counts or (self._told_ms is not None and now_ms < self._told_ms + EVERY_MS):
            return
        for (error, cause), count in self._counts.items():
            log.warning("batches were not stored", told=error, count=count, cause=cause)
        self._counts.clear()
        self._told_ms = now_ms

"""What clients were refused, batches and new topics: a line for each cause, now and then.

A client that is refused knows it; whoever runs the broker must be able to read it as well. When
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
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._told_ms: int | None = None

    def note(self, produced: Produced) -> str:
        """Count one partition of a request, and return Kafka's name of the error."""
        return self._count("batches were not stored", produced.error, produced.message or "")

    def note_topic(self, code: ErrorCode, cause: str) -> None:
        """Count one topic that was not made, or did not grow."""
        self._count("topics were not made", code, cause)

    def _count(self, event: str, code: int, cause: str) -> str:
        key = event, ErrorCode(code).name.upper(), cause[:CAUSE_CHARS_MAX]
        if key not in self._counts and len(self._counts) >= CAUSES_MAX:
            key = *key[:2], OTHERS
        self._counts[key] += 1
        return key[1]

    def tell(self, now_ms: int, log: FilteringBoundLogger) -> None:
        """Write down what has been refused since the last time, if that is long ago."""
        if not self._counts or (self._told_ms is not None and now_ms < self._told_ms + EVERY_MS):
            return
        for (event, error, cause), count in self._counts.items():
            log.warning(event, told=error, count=count, cause=cause)
        self._counts.clear()
        self._told_ms = now_ms

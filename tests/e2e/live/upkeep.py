"""Upkeep: what goes on in a namespace while somebody reads it.

    seal, trim, reap    again and again, beside the keeper that the broker has
    log_start           rises behind a reader: what it has read, less a lag, is deleted

So a reader always has a right to what it has not read yet, and to nothing else.
"""

from collections import Counter
from collections.abc import Callable

from tests.e2e.live.repeating import Repeating
from tests.e2e.live.twins import Namespace

__all__ = ["Upkeep"]

PAUSE_S = 0.5
LAG = 20
"""Records that stay although they have been read."""


class Upkeep(Repeating):
    """A thread that keeps a namespace; leaving the context ends it, and raises what it raised."""

    def __init__(
        self,
        namespace: Namespace,
        topic: str = "",
        read_to: Callable[[], dict[int, int]] = dict,
        *,
        segment_bytes: int = 20_000,
    ) -> None:
        super().__init__("upkeep", PAUSE_S)
        self.done: Counter[str] = Counter()
        self.starts: dict[int, int] = {}
        """Where partitions begin by now."""
        self._namespace, self._topic, self._read_to = namespace, topic, read_to
        self._segment_bytes = segment_bytes

    def one_pass(self) -> None:
        """Delete what was read, and keep the namespace."""
        for partition, offset in self._read_to().items():
            if offset - LAG > self.starts.get(partition, 0):
                self._namespace.delete_records(self._topic, offset - LAG, partition)
                self.starts[partition] = offset - LAG
        # Every other time as if nobody wrote: then the floor passes all there is.
        idle = self.done["passes"] % 2 == 1
        kept = self._namespace.keep(segment_bytes=self._segment_bytes, idle=idle)
        self.done["passes"] += 1
        self.done["segments"] += kept.sealed.segments
        self.done["trimmed"] += kept.trimmed
        self.done["reaped"] += kept.reaped
        self.done["swept"] += kept.swept

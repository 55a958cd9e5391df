"""What a broker counts: plain numbers in slotted objects.

    metrics.bytes_in += n     metrics.topic("t").messages_in += 1     metrics.flush(seconds, bytes)

Libraries of metrics take a lock and build objects at every increment, which would cost more than a
small request. Here counting is an addition. What Prometheus wants is made of it at a scrape, by
``prometheus``.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from lakelog.broker.allowance import spend
from lakelog.errors import LakelogError, NotFoundError, UnavailableError
from lakelog.store import (
    Changed,
    Delete,
    Exists,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Op,
    PerformAsync,
    PutIfAbsent,
    PutIfMatch,
    Usage,
)

__all__ = [
    "ApiCounters",
    "Gauge",
    "Histogram",
    "Labelled",
    "LogRow",
    "Metrics",
    "TopicCounters",
    "counted",
]

TOPICS_MAX = 10_000
"""Topics that have counters of their own; what is beyond is counted together."""

OTHER_TOPICS = "~others"
"""Their name, which no topic can have."""

STALL_S_MIN = 0.05

_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
_BYTES = (1e3, 1e4, 1e5, 1e6, 2e6, 4e6, 8e6, 16e6, 32e6, 64e6)


class Histogram:
    """How many values fell below each bound."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many values were at most each bound, as Prometheus wants them."""
        rows: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            below += count
            rows.append(("+Inf" if bound is None else str(bound), below))
        return rows

    def quantile(self, part: float) -> float:
        """Return about the value below which ``part`` of all values lie; 0 without any."""
        rank, below, low = part * self.count, 0, 0.0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            if count and below + count >= rank:
                return low + (bound - low) * (rank - below) / count
            below, low = below + count, bound
        return low if below < self.count else 0.0


class TopicCounters:
    """What is counted for each topic."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0


class ApiCounters:
    """What is counted for each API."""

    __slots__ = ("errors", "seconds")

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        """Requests by how they ended, the good ones included."""
        self.seconds = Histogram(_SECONDS)

    def count(self, seconds: float, error: str = "NONE") -> None:
        """Count a request that was answered; ``error`` is Kafka's name of it."""
        self.errors[error] = self.errors.get(error, 0) + 1
        self.seconds.observe(seconds)


class LogRow(NamedTuple):
    """A partition, as Kafka's metrics of logs show it."""

    topic: str
    partition: int
    end: int
    start: int | None = None
    """None: a broker does not know it as long as nobody reads there."""
    size_bytes: int | None = None
    """Of what is sealed, which is all but the newest; None, likewise."""


Labelled = Iterable[tuple[tuple[str, ...], float]]
"""Values of a gauge with labels: the values of the labels, and the value."""


class Gauge(NamedTuple):
    """A value that is asked for at every scrape."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], float | Labelled]


class Metrics:
    """Everything that one broker counts. Attributes are added to; gauges are asked."""

    __slots__ = (
        "apis",
        "bytes_in",
        "bytes_out",
        "cache_hits",
        "cache_misses",
        "callback_failures",
        "connections",
        "connections_opened",
        "connections_refused",
        "flush_bytes",
        "flush_seconds",
        "gauge_failures",
        "gauges",
        "group_refusals",
        "keep_failures",
        "keep_passes",
        "keep_restarts",
        "logs",
        "sealed_bytes",
        "sealed_records",
        "stall_seconds",
        "stalls",
        "store_requests",
        "store_seconds",
        "task_deaths",
        "topics",
        "usage",
    )

    def __init__(self) -> None:
        self.apis: dict[str, ApiCounters] = {}
        self.topics: dict[str, TopicCounters] = {}
        self.gauges: list[Gauge] = []
        self.logs: Callable[[], Iterable[LogRow]] = list
        self.store_seconds: dict[str, Histogram] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections = 0
        """That are open now."""
        self.connections_opened = 0
        self.connections_refused = 0
        self.cache_hits = 0
        self.cache_misses = 0
        self.flush_seconds = Histogram(_SECONDS)
        self.flush_bytes = Histogram(_BYTES)
        self.stalls = 0
        self.stall_seconds = 0.0
        self.store_requests: Counter[tuple[str, str]] = Counter()
        """By kind of operation and outcome."""
        self.keep_passes = 0
        self.keep_failures = 0
        self.keep_restarts = 0
        self.sealed_records = 0
        self.sealed_bytes = 0
        self.usage = Usage()
        """What other processes of this broker asked of the store."""
        self.gauge_failures = 0
        self.group_refusals: Counter[str] = Counter()
        """By the name of the limit."""
        self.task_deaths: Counter[str] = Counter()
        """By the name of the task."""
        self.callback_failures: Counter[str] = Counter()
        """By whose it was."""

    # ------------------------------------------------------------------------ counting

    def request(self, api: str, seconds: float, error: str = "") -> None:
        """Count a request that was answered; ``error`` is Kafka's name of it, in either case."""
        self.api(api).count(seconds, error or "NONE")

    def api(self, name: str) -> ApiCounters:
        """Return what is counted for an API: whoever counts often keeps it."""
        row = self.apis.get(name)
        if row is None:
            row = self.apis[name] = ApiCounters()
        return row

    def topic(self, name: str) -> TopicCounters:
        """Return the counters of a topic, which must be one that exists."""
        found = self.topics.get(name)
        if found is None:
            name = name if len(self.topics) < TOPICS_MAX else OTHER_TOPICS
            found = self.topics.setdefault(name, TopicCounters())
        return found

    def forget_topic(self, name: str) -> None:
        """Drop the counters of a topic that was deleted."""
        self.topics.pop(name, None)

    def flush(self, seconds: float, size_bytes: int) -> None:
        """Count a flush that ended."""
        self.flush_seconds.observe(seconds)
        self.flush_bytes.observe(size_bytes)

    def stall(self, seconds: float) -> None:
        """Count the time that the loop was late, if it was long."""
        if seconds > STALL_S_MIN:
            self.stalls += 1
            self.stall_seconds += seconds

    def store(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a request to the object store."""
        self.store_requests[kind, outcome] += 1
        row = self.store_seconds.get(kind)
        if row is None:
            row = self.store_seconds[kind] = Histogram(_SECONDS)
        row.observe(seconds)

    def gauge(
        self,
        name: str,
        help_: str,
        read: Callable[[], float | Labelled],
        labels: tuple[str, ...] = (),
    ) -> None:
        """Ask ``read`` at every scrape, on the loop: it should take less than 10 ms.

        With labels it returns pairs: a value for each label, and the value.
        """
        self.gauges.append(Gauge(name, help_, labels, read))

    def kafka_logs(self, read: Callable[[], Iterable[LogRow]]) -> None:
        """Show partitions under Kafka's names: where they begin and end. Asked like a gauge."""
        self.logs = read

    def kafka_partitions(self, count: Callable[[], int]) -> None:
        """Show the number of partitions under Kafka's names; this broker leads all of them."""
        name = "kafka_server_replicamanager_"
        self.gauge(name + "partitioncount", "Partitions.", count)
        self.gauge(name + "leadercount", "Partitions that this broker leads.", count)


# ---------------------------------------------------------------------------- the store

_KINDS: dict[type[Op], str] = {
    ListPage: "list",
    Head: "head",
    Get: "get",
    GetRange: "get",
    GetSuffix: "get",
    PutIfAbsent: "put",
    PutIfMatch: "put",
    Delete: "delete",
}


def counted(
    perform: PerformAsync, metrics: Metrics, *, now_s: Callable[[], float] = time.perf_counter
) -> PerformAsync:
    """Return ``perform``, whose requests are counted. Put it inside the retries."""

    async def one(op: Op) -> Any:
        spend()
        kind, begun_s = _KINDS[type(op)], now_s()
        outcome = "cancelled"
        try:
            answer = await perform(op)
            outcome = "taken" if isinstance(answer, Exists | Changed) else "ok"
        except LakelogError as error:
            outcome = _outcome(error)
            raise
        finally:
            metrics.store(kind, outcome, now_s() - begun_s)
        return answer

    return one


def _outcome(error: LakelogError) -> str:
    match error:
        case NotFoundError():
            return "missing"
        case UnavailableError():
            return "unavailable"
        case _:
            return "refused"

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
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from lakelog.broker.allowance import spend
from lakelog.broker.metrics.purposes import lane_of_request, purpose_of
from lakelog.broker.metrics.quotas import QuotaCounters
from lakelog.broker.metrics.security import SecurityCounters
from lakelog.errors import LakelogError, NotFoundError, UnavailableError
from lakelog.store import FREE, OPERATION_KINDS, Changed, Exists, Op, Prices, Usage

__all__ = [
    "ApiCounters",
    "EtcdRequests",
    "Gauge",
    "Histogram",
    "Labelled",
    "LogRow",
    "Metrics",
    "TopicCounters",
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


@dataclass(slots=True)
class TopicCounters:
    """What is counted for each topic."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0


@dataclass(slots=True)
class ApiCounters:
    """What is counted for each API."""

    errors: dict[str, int] = field(default_factory=dict)
    """Requests by how they ended, the good ones included."""
    seconds: Histogram = field(default_factory=partial(Histogram, _SECONDS))

    def count(self, seconds: float, error: str = "") -> None:
        """Count a request that was answered; ``error`` is Kafka's name of it, in either case."""
        error = error or "NONE"
        self.errors[error] = self.errors.get(error, 0) + 1
        self.seconds.observe(seconds)


class LogRow(NamedTuple):
    """A partition, as Kafka's metrics of logs show it."""

    topic: str
    partition: int
    end: int
    start: int | None = None
    """None: a broker does not know it until the partition is read."""
    size_bytes: int | None = None
    """Of what is sealed, which is all but the newest; None, likewise."""


Labelled = Iterable[tuple[tuple[str, ...], float]]
"""Values of a gauge with labels: the values of the labels, and the value."""


class Gauge(NamedTuple):
    """A value that is asked for at every scrape."""

    name: str
    help: str
    read: Callable[[], float | Labelled]
    """Called on the loop: it should take less than 10 ms. With labels it returns pairs: a value for
    each label, and the value."""
    labels: tuple[str, ...] = ()
    only_rises: bool = False
    """Whether it is a counter, which somebody else keeps."""


class EtcdRequests:
    """Counts requests to etcd, which have no price."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """By kind of operation and outcome."""

    def begin(self, op: Op) -> Callable[[Any], None]:
        """Take note of a request; return what counts it when it has ended."""
        kind = OPERATION_KINDS[type(op)]

        def ended(answer: Any) -> None:
            self.counts[kind, _outcome(answer)] += 1

        return ended


@dataclass(slots=True)
class Metrics:
    """Everything that one broker counts. Attributes are added to; gauges are asked."""

    apis: dict[str, ApiCounters] = field(default_factory=dict)
    topics: dict[str, TopicCounters] = field(default_factory=dict)
    gauges: list[Gauge] = field(default_factory=list)
    logs: Callable[[], Iterable[LogRow]] = list
    """Partitions that are shown under Kafka's names: where they begin and end. Asked like a gauge.
    """
    store_seconds: dict[str, Histogram] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    """That are open now."""
    connections_opened: int = 0
    connections_refused: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    flush_seconds: Histogram = field(default_factory=partial(Histogram, _SECONDS))
    flush_bytes: Histogram = field(default_factory=partial(Histogram, _BYTES))
    redirects: int = 0
    """How often a client was told who leads a partition that is not led here."""
    peers_told: int = 0
    """How often another broker was told to look at the members."""
    peers_missed: int = 0
    """How often one could not be reached."""
    stalls: int = 0
    stall_seconds: float = 0.0
    store_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind of operation and outcome."""
    etcd: EtcdRequests = field(default_factory=EtcdRequests)
    prices: Prices = field(default_factory=lambda: FREE)
    """What requests to the object store cost."""
    purposes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests to the object store by what they are for, and by kind."""
    lane_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those that are about a lane, by its number and by kind."""
    keep_passes: int = 0
    keep_failures: int = 0
    keep_restarts: int = 0
    sealed_records: int = 0
    sealed_bytes: int = 0
    usage: Usage = field(default_factory=Usage)
    """What other processes of this broker asked of the store."""
    gauge_failures: int = 0
    group_refusals: Counter[str] = field(default_factory=Counter)
    """By the name of the limit."""
    task_deaths: Counter[str] = field(default_factory=Counter)
    """By the name of the task."""
    callback_failures: Counter[str] = field(default_factory=Counter)
    """By the name of the callback."""
    security: SecurityCounters = field(default_factory=SecurityCounters)
    quotas: QuotaCounters = field(default_factory=QuotaCounters)

    # ------------------------------------------------------------------------ counting

    def api(self, name: str) -> ApiCounters:
        """Return the counters of an API."""
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

    def flush(self, seconds: float, size_bytes: int) -> None:
        """Count a flush that ended."""
        self.flush_seconds.observe(seconds)
        self.flush_bytes.observe(size_bytes)

    def stall(self, seconds: float) -> None:
        """Count the time that the loop was late, if it was long."""
        if seconds > STALL_S_MIN:
            self.stalls += 1
            self.stall_seconds += seconds

    def begin(self, op: Op) -> Callable[[Any], None]:
        """Take note of a request to the object store; return what counts it when it has ended."""
        spend()
        kind, begun_s = OPERATION_KINDS[type(op)], time.perf_counter()

        def ended(answer: Any) -> None:
            self.store_requests[kind, _outcome(answer)] += 1
            self.purposes[purpose_of(op), kind] += 1
            lane = lane_of_request(op)
            if lane:
                self.lane_requests[lane, kind] += 1
            seconds = self.store_seconds.get(kind)
            if seconds is None:
                seconds = self.store_seconds[kind] = Histogram(_SECONDS)
            seconds.observe(time.perf_counter() - begun_s)

        return ended


def _outcome(answer: Any) -> str:
    """Return how a request to the object store is counted, by its answer or its error."""
    match answer:
        case NotFoundError():
            return "missing"
        case UnavailableError():
            return "unavailable"
        case LakelogError():
            return "refused"
        case BaseException():
            return "cancelled"
        case Exists() | Changed():
            return "taken"
        case _:
            return "ok"

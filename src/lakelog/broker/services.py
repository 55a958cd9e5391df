"""What a handler is given: the broker's parts, and which client calls."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakelog.broker.budget import Budget
from lakelog.broker.catalog import Catalog
from lakelog.broker.cluster import Cluster
from lakelog.broker.growth_limits import GrowthLimiter
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.namespace_watch import NamespaceWatch
from lakelog.broker.refusals import Refusals
from lakelog.broker.scans import Scans
from lakelog.broker.sessions import Sessions
from lakelog.broker.settings import BrokerSettings
from lakelog.broker.supervision import Supervisor
from lakelog.journal import StoreTime
from lakelog.ports import Clock, Ids
from lakelog.wire import Fields

if TYPE_CHECKING:
    from lakelog.broker.coordinator import Coordinator
    from lakelog.broker.metrics.lags import Lags
    from lakelog.broker.mirror import Mirror

__all__ = ["Call", "Services", "then"]

A = TypeVar("A")


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of one broker."""

    settings: BrokerSettings
    clock: Clock
    ids: Ids
    cluster: Cluster
    catalog: Catalog
    lanes: Mapping[int, LaneWriter]
    coordinator: "Coordinator"
    sessions: Sessions
    budget: Budget
    """For requests."""
    answers: Budget
    metrics: Metrics
    watch: NamespaceWatch
    mirror: "Mirror | None" = None
    """Of groups that are in etcd."""
    time: StoreTime = field(default_factory=StoreTime)
    tasks: Supervisor = field(default_factory=Supervisor)
    refusals: Refusals = field(default_factory=Refusals)
    growth: GrowthLimiter = field(init=False)
    lags: "Lags" = field(init=False)
    scans: Scans = field(init=False)

    def __post_init__(self) -> None:
        self.scans = Scans(self.answers)
        self.growth = GrowthLimiter(self.catalog, self.settings.limits, self.refusals, self.clock)


async def then(asked: Awaitable[A], fields: Callable[[A], Fields]) -> Fields:
    """Wait for what was asked for, and make an answer of it.

    A handler that *returns* this, and does not wait for it, has done what it changes: the next
    request of the connection may begin.
    """
    return fields(await asked)


class Call(NamedTuple):
    """Which client asks, and in which version."""

    version: int
    client_id: str
    client_host: str
    listener: str

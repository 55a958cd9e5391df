"""What a handler is given: the broker's parts, and who calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lakelog.broker.budget import Budget
from lakelog.broker.catalog import Catalog
from lakelog.broker.cluster import Cluster
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.metrics import Metrics
from lakelog.broker.sessions import Sessions
from lakelog.broker.settings import BrokerSettings
from lakelog.journal import StoreTime
from lakelog.ports import Clock, Ids

if TYPE_CHECKING:
    from lakelog.broker.coordinator import Coordinator
    from lakelog.broker.lags import Lags

__all__ = ["Call", "Services"]


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
    metrics: Metrics
    time: StoreTime = field(default_factory=StoreTime)
    lags: "Lags" = field(init=False)


class Call(NamedTuple):
    """Who asks, and in which version."""

    api_key: int
    version: int
    client_id: str
    client_host: str
    listener: str
    principal: str
    """Who it is, as the listener has found out; everybody is anonymous on a plain one."""

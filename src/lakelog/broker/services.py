"""What a handler is given: the broker's parts, and which client calls."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakelog.broker.budget import Budget
from lakelog.broker.catalog import Catalog
from lakelog.broker.client_quotas import ClientQuotas
from lakelog.broker.cluster import Cluster
from lakelog.broker.growth_limits import GrowthLimiter
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.namespace_watch import NamespaceWatch
from lakelog.broker.refusals import Refusals
from lakelog.broker.scans import Scans
from lakelog.broker.security.audit_trail import AuditTrail
from lakelog.broker.security.authorizer import Authorizer
from lakelog.broker.sessions import Sessions
from lakelog.broker.settings import BrokerSettings
from lakelog.broker.supervision import Supervisor
from lakelog.broker.tls import ListenerTls
from lakelog.broker.user_directory import UserDirectory
from lakelog.journal import StoreTime
from lakelog.ports import Clock, Ids
from lakelog.security import (
    ANONYMOUS,
    CLUSTER_NAME,
    IMPLYING_DESCRIBE,
    SUPPORTED_OPERATIONS,
    AclRules,
    Operation,
    Principal,
    ResourceType,
)
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
    quotas: ClientQuotas
    users: UserDirectory
    audit: AuditTrail
    authorizer: Authorizer | None = None
    """None: everybody may do everything."""
    secured: Mapping[str, ListenerTls] = field(default_factory=dict)
    """Listeners that have TLS, by name."""
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
    principal: Principal = ANONYMOUS
    rules: AclRules | None = None
    """By which it is judged, from its beginning to its end; None: everybody may do everything."""
    api: str = ""
    """What it asks for."""
    audit: AuditTrail | None = None
    """What takes note of denials."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Say whether the client may do this. If not, that is a denial, of which note is taken."""
        rules = self.rules
        if rules is None or rules.allows(
            self.principal, self.client_host, operation, resource_type, name
        ):
            return True
        if self.audit is not None:
            self.audit.denied(self, operation, resource_type, name)
        return False

    @property
    def quietly(self) -> "Call":
        """The same call, of which no denials are noted: to find what may be listed, or whether one
        permission is enough where another would do as well.
        """
        return self._replace(audit=None)

    def may_topic(self, operation: Operation, name: str) -> bool:
        """Say whether the client may do this with a topic."""
        return self.may(operation, ResourceType.TOPIC, name)

    def may_group(self, operation: Operation, group_id: str) -> bool:
        """Say whether the client may do this with a group."""
        return self.may(operation, ResourceType.GROUP, group_id)

    def may_cluster(self, operation: Operation) -> bool:
        """Say whether the client may do this with all of it."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_any_topic(self, operation: Operation) -> bool:
        """Say whether there may be a topic with which the client may do this."""
        rules = self.rules
        return rules is None or rules.allows_any(
            self.principal, self.client_host, operation, ResourceType.TOPIC
        )

    def may_know_any(self, resource_type: ResourceType) -> bool:
        """Say whether there may be a resource of this type that the client may know of."""
        rules, who = self.rules, (self.principal, self.client_host)
        return rules is None or any(
            rules.allows_any(*who, one, resource_type) for one in IMPLYING_DESCRIBE
        )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return all that the client may do with a resource: a bit for each, by its number."""
        who, rules = (self.principal, self.client_host), self.rules
        if rules is None:
            found = list(SUPPORTED_OPERATIONS[resource_type])
        else:
            found = rules.operations(*who, resource_type, name)
        return sum(1 << one for one in found)

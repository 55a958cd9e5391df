"""A group of the newer protocol, as a value: what is stored of it, and when members are late.

    ConsumerMember   who it is, what it wants, and three sets of partitions:
                       target     what it is to have in the end
                       assigned   what it was told to use
                       revoking   what it was told to let go, and has not said that it did
    ConsumerRoster   all members, the topics they mean, and two epochs: of the group, which rises
                     when a member comes, goes or subscribes anew, and of the target
    ConsumerGroup    the roster, the offsets, and deadlines that only its coordinator knows

The roster is stored whenever it changes, and every step leaves one that is true. A partition is in
``assigned`` or ``revoking`` of one member at most: this is the law of these groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakelog.groups.events import Now, TopicShape
from lakelog.groups.group import CONSUMERS, GROUP_BYTES, Kind, Listing, State
from lakelog.groups.members import NAME_BYTES, stored_bytes
from lakelog.groups.offsets import Offsets, TopicIdPartition
from lakelog.groups.rules import GroupRules

__all__ = [
    "ConsumerDurable",
    "ConsumerGroup",
    "ConsumerMember",
    "ConsumerRoster",
    "restore_consumer",
]

AWAY = -2
"""The epoch of a static member that has left for a while."""

PARTITION_BYTES = 12
"""What a stored partition takes in a set of a member; a bound."""

TOPIC_BYTES = 48
"""What a stored topic takes besides its partitions, or its name; a bound."""

TEXT_BYTES = 8
"""What a stored text takes besides its characters; a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member."""

    id: str
    instance_id: str | None = None
    """The name of a static member, which outlives its ids."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    names: tuple[str, ...] = ()
    """Of topics it subscribes to, sorted."""
    regex: str | None = None
    """It subscribes to topics that fit, as well."""
    assignor: str | None = None
    """The one it prefers."""
    epoch: int = 0
    previous_epoch: int = 0
    target: frozenset[TopicIdPartition] = frozenset()
    assigned: frozenset[TopicIdPartition] = frozenset()
    revoking: frozenset[TopicIdPartition] = frozenset()

    def is_settled(self, target_epoch: int) -> bool:
        """Say whether it has all it is to have, nothing else, and knows it."""
        return self.epoch == target_epoch and not self.revoking and self.assigned == self.target

    @property
    def texts(self) -> list[str]:
        """All that it says of itself."""
        given = (self.instance_id, self.rack_id, self.regex, self.assignor)
        return [self.id, self.client_id, self.client_host, *filter(None, given), *self.names]

    @property
    def said(self) -> int:
        """How much that is, in characters; each text counts for a few more."""
        texts = self.texts
        return sum(map(len, texts)) + TEXT_BYTES * len(texts)

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored."""
        texts = self.texts
        size = stored_bytes(texts, 0) + TEXT_BYTES * len(texts)
        for partitions in (self.target, self.assigned, self.revoking):
            topics = {topic_id for topic_id, _ in partitions}
            size += PARTITION_BYTES * len(partitions) + TOPIC_BYTES * len(topics)
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRoster:
    """Members, and what they are to do."""

    epoch: int = 0
    target_epoch: int = 0
    """The epoch that targets were made for; behind ``epoch``, they are to be made anew."""
    topics: Mapping[str, TopicShape] = field(default_factory=dict)
    """That members subscribe to, as they were when ``epoch`` last rose for them."""
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    since_ms: int = 0
    """By the wall clock: when the last member went; offsets of an empty group expire after it."""

    @property
    def names(self) -> frozenset[str]:
        """Every topic that a member names."""
        return frozenset(name for one in self.members.values() for name in one.names)

    @property
    def patterns(self) -> frozenset[str]:
        """Every expression of a member."""
        return frozenset(one.regex for one in self.members.values() if one.regex)

    def holder(self, instance_id: str) -> ConsumerMember | None:
        """Return the static member of a name."""
        found = (one for one in self.members.values() if one.instance_id == instance_id)
        return next(found, None)

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored."""
        topics = sum(TOPIC_BYTES + NAME_BYTES * len(name) for name in self.topics)
        return topics + sum(one.size_bytes for one in self.members.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDurable:
    """What is stored of a group."""

    id: str
    roster: ConsumerRoster
    offsets: Offsets
    made_by: str = ""
    """As of a classic group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group. Mappings are never changed once they are in one."""

    id: str
    roster: ConsumerRoster = field(default_factory=ConsumerRoster)
    offsets: Offsets = field(default_factory=Offsets)
    sessions: Mapping[str, int] = field(default_factory=dict)
    """When each member is taken for dead, by the clock that never goes back."""
    revocations: Mapping[str, int] = field(default_factory=dict)
    """When a member that is to let go of partitions must have done it."""
    names: frozenset[str] = frozenset()
    """Those of the roster. They are asked for with every heartbeat."""
    patterns: frozenset[str] = frozenset()
    made_by: str = ""
    is_absent = False
    """As of a classic group."""

    def enrolled(self, roster: ConsumerRoster) -> "ConsumerGroup":
        """Return the group with another roster."""
        return replace(self, roster=roster, names=roster.names, patterns=roster.patterns)

    @property
    def state(self) -> State:
        """Where it is, by Kafka's names."""
        roster = self.roster
        if not roster.members:
            return State.EMPTY
        if roster.epoch > roster.target_epoch:
            return State.ASSIGNING
        settled = all(one.is_settled(roster.target_epoch) for one in roster.members.values())
        return State.STABLE if settled else State.RECONCILING

    @property
    def listing(self) -> Listing:
        """The line of a listing."""
        return Listing(self.id, CONSUMERS, self.state, Kind.CONSUMER)

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants a Tick, by the clock that never goes back."""
        return min((*self.sessions.values(), *self.revocations.values()), default=None)

    @property
    def durable(self) -> ConsumerDurable:
        """What is to be stored."""
        return ConsumerDurable(
            id=self.id, roster=self.roster, offsets=self.offsets, made_by=self.made_by
        )

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored."""
        name = NAME_BYTES * len(self.id)
        return GROUP_BYTES + name + self.roster.size_bytes + self.offsets.size_bytes

    def is_subscribed(self, name: str) -> bool:
        """Say whether a member wants a topic."""
        return name in self.names or (bool(self.roster.members) and name in self.roster.topics)


def restore_consumer(durable: ConsumerDurable, now: Now, rules: GroupRules) -> ConsumerGroup:
    """Return a group as another coordinator left it: the sessions of all members begin anew."""
    members = durable.roster.members
    session_ms = now.boot_ms + rules.consumer_session_timeout_ms
    group = ConsumerGroup(
        id=durable.id,
        offsets=durable.offsets,
        made_by=durable.made_by,
        sessions=dict.fromkeys(members, session_ms),
        revocations={
            one.id: now.boot_ms + one.rebalance_timeout_ms
            for one in members.values()
            if one.revoking
        },
    )
    return group.enrolled(durable.roster)

"""A classic group, as a value: what is stored of it, and what is only known to its coordinator.

    Durable   id, roster, offsets        stored; what another coordinator begins with
    Roster    the last generation that members were told of: members, protocol, assignments
    Group     all of it, and which members wait, until when

A group that is not there is a group in state Dead. The roster changes only where a step says
``Persist``: while a rebalance is being prepared, members come and go, and the roster is still the
generation before. So whatever is stored in between, for a commit, is a state that was once true.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from lakelog.groups.events import JoinedMember, Now
from lakelog.groups.members import NAME_BYTES, Member, Offer, Offers, stored_bytes
from lakelog.groups.offsets import Offsets

__all__ = [
    "CONSUMERS",
    "Delay",
    "DescribedMember",
    "Description",
    "Durable",
    "Group",
    "Kind",
    "Listing",
    "Roster",
    "RosterMember",
    "State",
    "absent",
    "describe",
    "restore",
]

CONSUMERS = "consumer"
"""The protocol type of groups whose members read topics. Others have their own use for a group."""

GROUP_BYTES = 512
"""What a stored group takes besides its members and offsets; a bound."""


class State(Enum):
    """Where a group is, by Kafka's names. Some are of one kind of groups alone."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Kind(Enum):
    """Which protocol a group speaks, by Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterMember:
    """A member of a generation."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored."""
        names = (self.id, self.instance_id or "", self.client_id, self.client_host)
        return stored_bytes(names, len(self.metadata) + len(self.assignment))


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """A generation."""

    generation: int = 0
    protocol_type: str | None = None
    """None: no member ever joined."""
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = 0
    """By the wall clock: when the group became so; offsets of an empty one expire after it."""
    is_decided: bool = False
    """Whether the leader has decided the assignments."""
    members: tuple[RosterMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """What is stored of a group."""

    id: str
    roster: Roster
    offsets: Offsets
    made_by: str = ""
    """The address of the client that made it, so that one cannot make all; nothing: not known."""


class Listing(NamedTuple):
    """A line about a group."""

    group_id: str
    protocol_type: str
    state: State
    kind: Kind = Kind.CLASSIC


class Delay(NamedTuple):
    """How an empty group waits for more members than the first."""

    delay_ms: int
    remaining_ms: int
    grew: bool = False
    """A member came since the delay began: wait once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group. Mappings are never changed once they are in one."""

    id: str
    state: State = State.DEAD
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    """In the order in which they came."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """Ids that were given out and have not come back, and until when they may."""
    awaited: frozenset[str] = frozenset()
    """Members of this generation that have not sent SyncGroup."""
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    delay: Delay | None = None
    """Only while the first rebalance of an empty group is prepared."""
    roster: Roster = Roster()
    offsets: Offsets = field(default_factory=Offsets)
    made_by: str = ""

    @property
    def durable(self) -> Durable | None:
        """What is to be stored; None: nothing."""
        if self.state is State.DEAD:
            return None
        return Durable(id=self.id, roster=self.roster, offsets=self.offsets, made_by=self.made_by)

    @property
    def is_absent(self) -> bool:
        """Whether there is no such group."""
        return self.state is State.DEAD

    @property
    def listing(self) -> Listing:
        """The line of a listing."""
        return Listing(self.id, self.protocol_type or "", self.state)

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants a Tick, by the clock that never goes back."""
        sessions = (one.deadline_ms for one in self.members.values() if not one.is_excused)
        others = (self.join_deadline_ms, self.sync_deadline_ms)
        set_ = (one for one in others if one is not None)
        return min((*sessions, *self.pending.values(), *set_), default=None)

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored, now or after the next rebalance."""
        members = sum(member.size_bytes for member in self.members.values())
        before = sum(member.size_bytes for member in self.roster.members)
        name = NAME_BYTES * len(self.id)
        return GROUP_BYTES + name + max(members, before) + self.offsets.size_bytes

    @property
    def waiting(self) -> int:
        """How many members wait for the rebalance to complete."""
        return sum(member.join is not None for member in self.members.values())

    @property
    def is_complete(self) -> bool:
        """Whether all members that are expected have joined."""
        return not self.pending and self.waiting == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def holder(self, instance_id: str) -> str | None:
        """Return the id that a static member has now."""
        found = (one.id for one in self.members.values() if one.instance_id == instance_id)
        return next(found, None)

    def joined(self) -> tuple[JoinedMember, ...]:
        """Return what a leader is told of all members."""
        return tuple(
            JoinedMember(member.id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )


def absent(group_id: str, made_by: str = "") -> Group:
    """Return a group that is not there; ``made_by`` is the address that would make it."""
    return Group(id=group_id, made_by=made_by)


def restore(durable: Durable, now: Now) -> Group:
    """Return a group as another coordinator left it: the sessions of all members begin anew."""
    roster = durable.roster
    members = {
        one.id: Member(
            id=one.id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            session_timeout_ms=one.session_timeout_ms,
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            offers=Offers.of((Offer(roster.protocol or "", one.metadata),)),
            assignment=one.assignment,
            deadline_ms=now.boot_ms + one.session_timeout_ms,
        )
        for one in roster.members
    }
    state = State.EMPTY
    if members:
        state = State.STABLE if roster.is_decided else State.COMPLETING
    group = Group(
        id=durable.id,
        state=state,
        generation=roster.generation,
        protocol_type=roster.protocol_type,
        protocol=roster.protocol,
        leader=roster.leader,
        members=members,
        awaited=frozenset(members) if state is State.COMPLETING else frozenset(),
        roster=roster,
        offsets=durable.offsets,
        made_by=durable.made_by,
    )
    if state is not State.COMPLETING:
        return group
    # Members have been told of this generation and may still bring their SyncGroup.
    return replace(group, sync_deadline_ms=now.boot_ms + group.rebalance_timeout_ms)


# ---------------------------------------------------------------------------- for people


class DescribedMember(NamedTuple):
    """A member, as an operator sees it. Bytes only while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A group, as an operator sees it."""

    group_id: str
    state: State
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


def describe(group: Group) -> Description:
    """Return what an operator may know."""
    is_stable = group.state is State.STABLE
    return Description(
        group_id=group.id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                one.id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.metadata(group.protocol) if is_stable else b"",
                one.assignment if is_stable else b"",
            )
            for one in group.members.values()
        ),
    )

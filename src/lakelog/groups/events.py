"""What happens to a group, and what it wants done.

    event               from                          answer
    Join                JoinGroup                     JoinAnswer, when the generation begins
    Sync                SyncGroup                     SyncAnswer, when the leader has decided
    Heartbeat           Heartbeat                     Code
    Leave               LeaveGroup                    LeaveAnswer
    ConsumerHeartbeat   ConsumerGroupHeartbeat        ConsumerAnswer
    Commit              OffsetCommit                  CommitAnswer
    DeleteOffsets       OffsetDelete                  DeleteOffsetsAnswer
    Delete              DeleteGroups                  Code
    Tick                a deadline that has passed    none
    Sweep               every few minutes             none
    TopicsGone          DeleteTopics                  none

    effect    do
    Persist   store the durable part of the group
    Reply     answer the request with this ticket; if it waits for a part, only when every Persist
              of that part that came before it is stored

The first four are of the classic protocol, the fifth is all of the newer one: see ``consumer``.

A ticket is a number that the caller chose; it comes back in a Reply, at once or much later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from lakelog.groups.codes import Code
from lakelog.groups.members import Offer
from lakelog.groups.offsets import NewOffset, TopicIdPartition

__all__ = [
    "Answer",
    "Commit",
    "CommitAnswer",
    "ConsumerAnswer",
    "ConsumerHeartbeat",
    "Delete",
    "DeleteOffsets",
    "DeleteOffsetsAnswer",
    "Effect",
    "Event",
    "Heartbeat",
    "Identity",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Leave",
    "LeaveAnswer",
    "Now",
    "Persist",
    "Reply",
    "Request",
    "StoredPart",
    "Sweep",
    "Sync",
    "SyncAnswer",
    "Tick",
    "TopicShape",
    "TopicsGone",
    "refusal",
]


class Now(NamedTuple):
    """Two clocks: a wall clock that is set forward must not end every session."""

    boot_ms: int
    """Never goes back. Deadlines are of this clock."""
    wall_ms: int
    """Since 1970. What is stored is of this clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is answered by a Reply."""

    ticket: int = 0


class Identity(NamedTuple):
    """A member that leaves: by id, or a static one by its instance."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_Asked):
    """A member wants to be in the next generation."""

    member_id: str = ""
    new_member_id: str = ""
    """The id it gets if it has none: one that no member has had."""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """-1: the session timeout, as in version 0."""
    protocol_type: str
    offers: tuple[Offer, ...]
    needs_id: bool = True
    """A dynamic member without id gets one and must come again: from version 4 on."""
    may_skip: bool = True
    """It understands that a leader may have nothing to assign: from version 9 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(_Asked):
    """A member wants its assignment; the leader brings those of all."""

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(_Asked):
    """A member is alive."""

    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(_Asked):
    """Members go, or an operator removes them."""

    members: tuple[Identity, ...]


class TopicShape(NamedTuple):
    """What a group must know of a topic."""

    id: bytes
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(_Asked):
    """A member joins, lives, lets go or leaves, by the newer protocol. None: as it was before."""

    member_id: str
    new_member_id: str = ""
    """The id it gets if it has none and needs none: one that no member has had."""
    needs_id: bool = True
    """It makes its id itself: from version 1 on."""
    epoch: int
    """0: it joins. -1: it leaves. -2: it leaves for a while, and is static. Else the one it has."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] | None = None
    regex: str | None = None
    """Empty: none any more."""
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    topics: Mapping[str, TopicShape] = field(default_factory=dict, repr=False)
    """Those that are there now, of all that the group and this request name or match."""
    matches: Mapping[str, frozenset[str] | None] = field(default_factory=dict, repr=False)
    """Names that fit each expression of the group and this request. None: it is no expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(_Asked):
    """A client commits offsets. Generation -1 and no member id: from outside of the group."""

    member_id: str = ""
    instance_id: str | None = None
    client_host: str = ""
    generation: int = -1
    """Or the epoch of a member, in a group of the newer protocol."""
    offsets: tuple[NewOffset, ...]
    knows_missing: bool = True
    """It understands GROUP_ID_NOT_FOUND, and has epochs of members: from version 9 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets(_Asked):
    """An operator wants the group to forget how far it has come in some partitions."""

    partitions: tuple[TopicIdPartition, ...]
    names: Mapping[bytes, str]
    """Of their topics, by id: members subscribe to names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_Asked):
    """An operator wants the group gone, with its offsets."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Time to look for offsets that have expired."""


@dataclass(frozen=True, slots=True)
class TopicsGone:
    """Topics were deleted."""

    topic_ids: frozenset[bytes]


Request = Join | Sync | Heartbeat | Leave | ConsumerHeartbeat | Commit | DeleteOffsets | Delete
Event = Request | Tick | Sweep | TopicsGone


# ---------------------------------------------------------------------------- answers


class JoinedMember(NamedTuple):
    """What a leader learns of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The generation that a member is in."""

    code: Code = Code.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """For the leader alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """What a member is to do."""

    code: Code = Code.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """Which members have gone."""

    code: Code = Code.NONE
    members: tuple[tuple[Identity, Code], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAnswer:
    """What became of each offset, in the order of the request."""

    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAnswer:
    """Which epoch a member is in, and what it may use."""

    code: Code = Code.NONE
    message: str = ""
    """What to do, if the code does not say it."""
    member_id: str = ""
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[TopicIdPartition] | None = None
    """None: as it was told before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsAnswer:
    """What became of each partition, in the order of the request; or why of none."""

    code: Code = Code.NONE
    codes: tuple[Code, ...] = ()


Answer = (
    JoinAnswer
    | SyncAnswer
    | LeaveAnswer
    | CommitAnswer
    | ConsumerAnswer
    | DeleteOffsetsAnswer
    | Code
)


def refusal(request: Request, code: Code) -> Answer:
    """Return the answer that says no to all of a request."""
    match request:
        case Join():
            return JoinAnswer(code=code, member_id=request.member_id)
        case Sync():
            return SyncAnswer(code=code)
        case Leave():
            return LeaveAnswer(code=code)
        case Commit():
            return CommitAnswer(codes=(code,) * len(request.offsets))
        case ConsumerHeartbeat():
            return ConsumerAnswer(code=code)
        case DeleteOffsets():
            return DeleteOffsetsAnswer(code=code)
        case Heartbeat() | Delete():
            return code


# ---------------------------------------------------------------------------- effects


class StoredPart(Enum):
    """The two parts of what is stored of a group."""

    ROSTER = "roster"
    """Members wait for it and cannot go on: it is stored at once."""
    OFFSETS = "offsets"
    """These may wait for company."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Store the group as it is after this step, because a part of it has changed."""

    part: StoredPart


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request."""

    ticket: int
    answer: Answer
    waits_for: StoredPart | None = None
    """It speaks of this part: it goes out when that is stored as it is now, and not before."""


Effect = Persist | Reply

"""Consumer groups as pure state machines.

kinds      ``advance``: a group of any kind and an event in, a group and effects out
events     what happens, and what is to be done
machine    ``step``, of classic groups; joining, rebalance, turn: the parts of a step
group      a classic group; what is stored of it; what operators see
members, subscriptions
           its members, and what they subscribe to
consumer   groups of the newer protocol
offsets, committing
           how far a group of any kind has come, and what changes that
rules      limits, by Kafka's names
codes      Kafka's error codes
"""

from lakelog.groups.codes import Code
from lakelog.groups.consumer import (
    ASSIGNORS,
    EXPRESSIONS_MAX,
    REGEX_MAX,
    ConsumerDurable,
    ConsumerGroup,
    ConsumerMember,
    ConsumerRoster,
    Subscriber,
    assign_range,
    assign_uniform,
    check_member,
    preferred_assignor,
    restore_consumer,
    step_consumer,
)
from lakelog.groups.events import (
    Answer,
    Commit,
    CommitAnswer,
    ConsumerAnswer,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Effect,
    Event,
    Heartbeat,
    Identity,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeaveAnswer,
    Now,
    Persist,
    Reply,
    Request,
    StoredPart,
    Sweep,
    Sync,
    SyncAnswer,
    Tick,
    TopicsGone,
    TopicShape,
    refusal,
)
from lakelog.groups.group import (
    DescribedMember,
    Description,
    Durable,
    Group,
    Kind,
    Listing,
    Roster,
    RosterMember,
    State,
    absent,
    describe,
    restore,
)
from lakelog.groups.kinds import (
    AnyDurable,
    AnyGroup,
    advance,
    revive,
)
from lakelog.groups.machine import step
from lakelog.groups.members import Member, Offer
from lakelog.groups.offsets import Committed, NewOffset, Offsets, TopicIdPartition, by_topic
from lakelog.groups.rules import GroupRules

__all__ = [
    "ASSIGNORS",
    "EXPRESSIONS_MAX",
    "REGEX_MAX",
    "Answer",
    "AnyDurable",
    "AnyGroup",
    "Code",
    "Commit",
    "CommitAnswer",
    "Committed",
    "ConsumerAnswer",
    "ConsumerDurable",
    "ConsumerGroup",
    "ConsumerHeartbeat",
    "ConsumerMember",
    "ConsumerRoster",
    "Delete",
    "DeleteOffsets",
    "DeleteOffsetsAnswer",
    "DescribedMember",
    "Description",
    "Durable",
    "Effect",
    "Event",
    "Group",
    "GroupRules",
    "Heartbeat",
    "Identity",
    "Join",
    "JoinAnswer",
    "JoinedMember",
    "Kind",
    "Leave",
    "LeaveAnswer",
    "Listing",
    "Member",
    "NewOffset",
    "Now",
    "Offer",
    "Offsets",
    "Persist",
    "Reply",
    "Request",
    "Roster",
    "RosterMember",
    "State",
    "StoredPart",
    "Subscriber",
    "Sweep",
    "Sync",
    "SyncAnswer",
    "Tick",
    "TopicIdPartition",
    "TopicShape",
    "TopicsGone",
    "absent",
    "advance",
    "assign_range",
    "assign_uniform",
    "by_topic",
    "check_member",
    "describe",
    "preferred_assignor",
    "refusal",
    "restore",
    "restore_consumer",
    "revive",
    "step",
    "step_consumer",
]

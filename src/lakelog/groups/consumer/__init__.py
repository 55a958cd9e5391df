"""Groups of the newer protocol (KIP-848): the coordinator assigns, and members do not wait.

step        ``step_consumer``: a group and an event in, a group and effects out
machine     the heartbeat: members join, live, let go and leave
reconcile   from what a member has to what it is to have
targets     what members are to have; assignors: by which rule
group       the value, and what is stored of it
"""

from lakelog.groups.consumer.assignors import (
    ASSIGNORS,
    Subscriber,
    assign_range,
    assign_uniform,
)
from lakelog.groups.consumer.group import (
    ConsumerDurable,
    ConsumerGroup,
    ConsumerMember,
    ConsumerRoster,
    restore_consumer,
)
from lakelog.groups.consumer.machine import EXPRESSIONS_MAX, REGEX_MAX, find_fault
from lakelog.groups.consumer.step import check_member, step_consumer
from lakelog.groups.consumer.targets import preferred_assignor

__all__ = [
    "ASSIGNORS",
    "EXPRESSIONS_MAX",
    "REGEX_MAX",
    "ConsumerDurable",
    "ConsumerGroup",
    "ConsumerMember",
    "ConsumerRoster",
    "Subscriber",
    "assign_range",
    "assign_uniform",
    "check_member",
    "find_fault",
    "preferred_assignor",
    "restore_consumer",
    "step_consumer",
]

"""Groups of both kinds: what a coordinator holds, and how a group changes its kind.

    classic    members decide among themselves, in generations
    consumer   the coordinator decides, in epochs

A name belongs to one kind at a time. A group without members becomes of the other kind when
a member joins it so; its offsets stay, and its generation or epoch goes on from where it was, so
that nothing said in the name of an old one counts. While a group has members, clients of the
other protocol are refused:

    ConsumerGroupHeartbeat in a classic group   GROUP_ID_NOT_FOUND
    JoinGroup in a consumer group               INCONSISTENT_GROUP_PROTOCOL
    SyncGroup, Heartbeat, LeaveGroup            UNKNOWN_MEMBER_ID
"""

from lakelog.groups.codes import Code
from lakelog.groups.consumer import (
    ConsumerDurable,
    ConsumerGroup,
    ConsumerRoster,
    find_fault,
    restore_consumer,
    step_consumer,
)
from lakelog.groups.events import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    Effect,
    Event,
    Heartbeat,
    Join,
    Leave,
    LeaveAnswer,
    Now,
    Reply,
    Sync,
    refusal,
)
from lakelog.groups.group import Durable, Group, Roster, State, absent, restore
from lakelog.groups.machine import step
from lakelog.groups.rules import GroupRules

__all__ = ["AnyDurable", "AnyGroup", "advance", "revive"]

AnyGroup = Group | ConsumerGroup
AnyDurable = Durable | ConsumerDurable


def advance(
    group: AnyGroup, event: Event, now: Now, rules: GroupRules
) -> tuple[AnyGroup, tuple[Effect, ...]]:
    """Return a group of any kind after an event, and what the caller must now do."""
    if isinstance(group, ConsumerGroup):
        if isinstance(event, Join | Sync | Heartbeat | Leave):
            return _classic_event(group, event, now, rules)
        after, effects = step_consumer(group, event, now, rules)
        return absent(group.id) if after is None else after, effects
    if isinstance(event, ConsumerHeartbeat):
        return _consumer_event(group, event, now, rules)
    return step(group, event, now, rules)


def _classic_event(
    group: ConsumerGroup, event: Join | Sync | Heartbeat | Leave, now: Now, rules: GroupRules
) -> tuple[AnyGroup, tuple[Effect, ...]]:
    if isinstance(event, Leave):
        gone = tuple((one, Code.UNKNOWN_MEMBER_ID) for one in event.members)
        return group, (Reply(event.ticket, LeaveAnswer(members=gone)),)
    if not isinstance(event, Join) or event.member_id:
        return group, (Reply(event.ticket, refusal(event, Code.UNKNOWN_MEMBER_ID)),)
    if group.roster.members:
        return group, (Reply(event.ticket, refusal(event, Code.INCONSISTENT_GROUP_PROTOCOL)),)
    roster = Roster(generation=group.roster.epoch, since_ms=group.roster.since_ms)
    empty = Group(
        id=group.id,
        state=State.EMPTY,
        generation=roster.generation,
        roster=roster,
        offsets=group.offsets,
        made_by=group.made_by,
    )
    after, effects = step(empty, event, now, rules)
    is_in = after.members or after.pending
    return after if is_in else group, effects


def _consumer_event(
    group: Group, event: ConsumerHeartbeat, now: Now, rules: GroupRules
) -> tuple[AnyGroup, tuple[Effect, ...]]:
    is_empty = group.state in (State.EMPTY, State.DEAD)
    if not is_empty or event.epoch != 0:
        what = "is not there" if group.state is State.DEAD else "is not a consumer group"
        missing = ConsumerAnswer(code=Code.GROUP_ID_NOT_FOUND, message=f"The group {what}.")
        return group, (Reply(event.ticket, find_fault(event) or missing),)
    roster = ConsumerRoster(
        epoch=group.generation, target_epoch=group.generation, since_ms=group.roster.since_ms
    )
    empty = ConsumerGroup(id=group.id, roster=roster, offsets=group.offsets, made_by=group.made_by)
    after, effects = step_consumer(empty, event, now, rules)
    return group if after is None or not after.roster.members else after, effects


def revive(durable: AnyDurable, now: Now, rules: GroupRules) -> AnyGroup:
    """Return a group as another coordinator left it."""
    if isinstance(durable, ConsumerDurable):
        return restore_consumer(durable, now, rules)
    return restore(durable, now)

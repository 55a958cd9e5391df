"""``step`` of the newer groups: heartbeats, offsets, operators and time.

Offsets are committed and fetched by members in the epoch they are in: a member that was fenced and
does not know it cannot move the others back. From outside a group takes commits while it has no
members.
"""

from lakelog.groups.codes import Code
from lakelog.groups.committing import commit, delete_offsets, expire_offsets, forget_topics
from lakelog.groups.consumer.group import ConsumerGroup, ConsumerRoster
from lakelog.groups.consumer.machine import beat, expire
from lakelog.groups.events import (
    Commit,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    Effect,
    Event,
    Now,
    Persist,
    Reply,
    StoredPart,
    Sweep,
    Tick,
    TopicsGone,
)
from lakelog.groups.rules import GroupRules

__all__ = ["check_member", "step_consumer"]

Stepped = tuple[ConsumerGroup | None, tuple[Effect, ...]]


def step_consumer(group: ConsumerGroup, event: Event, now: Now, rules: GroupRules) -> Stepped:
    """Return the group after an event, None if it is gone, and what the caller must now do."""
    match event:
        case ConsumerHeartbeat():
            return beat(group, event, now, rules)
        case Commit():
            return commit(group, event, _check_commit(group, event), now, rules)
        case DeleteOffsets():
            return delete_offsets(group, event, group.is_subscribed)
        case Delete():
            return _delete(group, event)
        case Tick():
            return expire(group, now)
        case Sweep():
            return _sweep(group, now, rules)
        case TopicsGone():
            return forget_topics(group, event)
        case _:
            return group, ()  # Of the classic protocol: ``kinds`` answers.


def _check_commit(group: ConsumerGroup, event: Commit) -> Code:
    if not group.roster.members and event.generation < 0:
        return Code.NONE
    code = check_member(group.roster, event.member_id, event.generation)
    if code is not Code.UNKNOWN_MEMBER_ID and not event.knows_missing:
        return Code.UNSUPPORTED_VERSION
    return code


def check_member(roster: ConsumerRoster, member_id: str | None, epoch: int) -> Code:
    """Say whether there is a member of this id, in this epoch."""
    member = roster.members.get(member_id or "")
    if member is None:
        return Code.UNKNOWN_MEMBER_ID
    return Code.NONE if member.epoch == epoch else Code.STALE_MEMBER_EPOCH


def _delete(group: ConsumerGroup, event: Delete) -> Stepped:
    if group.roster.members:
        return group, (Reply(event.ticket, Code.NON_EMPTY_GROUP),)
    return None, (Persist(StoredPart.ROSTER), Reply(event.ticket, Code.NONE, StoredPart.ROSTER))


def _sweep(group: ConsumerGroup, now: Now, rules: GroupRules) -> Stepped:
    """Offsets of a group without members expire; and so does a group without offsets."""
    if group.roster.members:
        return group, ()
    after, effects = expire_offsets(group, group.roster.since_ms, now, rules)
    if not after.offsets.rows:
        return None, (Persist(StoredPart.OFFSETS),)
    return after, effects

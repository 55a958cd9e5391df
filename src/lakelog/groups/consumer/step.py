"""``step`` of the newer groups: heartbeats, offsets, operators and time.

Offsets are committed and fetched by members in the epoch they are in: whoever was fenced and does
not know it cannot move the others back. From outside a group takes commits while it has no members.
"""

from dataclasses import replace

from lakelog.groups.codes import Code
from lakelog.groups.committing import expire_offsets, forget_places, take_commit
from lakelog.groups.consumer.group import ConsumerGroup, ConsumerRoster
from lakelog.groups.consumer.machine import beat, expire
from lakelog.groups.events import (
    Commit,
    CommitAnswer,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    DeleteOffsetsAnswer,
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
from lakelog.groups.offsets import Offsets
from lakelog.groups.rules import GroupRules

__all__ = ["check_member", "step_consumer"]

Stepped = tuple[ConsumerGroup | None, tuple[Effect, ...]]


def step_consumer(group: ConsumerGroup, event: Event, now: Now, rules: GroupRules) -> Stepped:
    """Return the group after an event, None if it is gone, and what the caller must now do."""
    match event:
        case ConsumerHeartbeat():
            return beat(group, event, now, rules)
        case Commit():
            return _commit(group, event, now, rules)
        case DeleteOffsets():
            left, codes = forget_places(group.offsets, event, group.is_subscribed)
            after, effects = _forget(group, left)
            answer = DeleteOffsetsAnswer(codes=codes)
            return after, (*effects, Reply(event.ticket, answer, StoredPart.OFFSETS))
        case Delete():
            return _delete(group, event)
        case Tick():
            return expire(group, now)
        case Sweep():
            return _sweep(group, now, rules)
        case TopicsGone():
            gone = event.topic_ids
            return _forget(group, group.offsets.without(lambda at, _: at.topic_id in gone))
        case _:
            return group, ()  # Of the classic protocol: ``kinds`` answers.


def _commit(group: ConsumerGroup, event: Commit, now: Now, rules: GroupRules) -> Stepped:
    code = Code.NONE
    if group.roster.members or event.generation >= 0:
        code = check_member(group.roster, event.member_id, event.generation)
        if code is not Code.UNKNOWN_MEMBER_ID and not event.knows_missing:
            code = Code.UNSUPPORTED_VERSION
    if code is not Code.NONE:
        answer = CommitAnswer(codes=(code,) * len(event.offsets))
        return group, (Reply(event.ticket, answer),)
    offsets, codes = take_commit(group.offsets, event, now, rules)
    answer = CommitAnswer(codes=codes)
    if offsets is group.offsets:
        return group, (Reply(event.ticket, answer),)
    reply = Reply(event.ticket, answer, StoredPart.OFFSETS)
    return replace(group, offsets=offsets), (Persist(StoredPart.OFFSETS), reply)


def check_member(roster: ConsumerRoster, member_id: str | None, epoch: int) -> Code:
    """Say whether somebody is a member, in the epoch it says."""
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
    left = expire_offsets(group.offsets, group.roster.since_ms, now, rules)
    if not left.rows:
        return None, (Persist(StoredPart.OFFSETS),)
    return _forget(group, left)


def _forget(group: ConsumerGroup, left: Offsets) -> Stepped:
    if left is group.offsets:
        return group, ()
    return replace(group, offsets=left), (Persist(StoredPart.OFFSETS),)

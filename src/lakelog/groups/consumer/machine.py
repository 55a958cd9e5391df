"""The state machine of the newer groups, in which the coordinator assigns (KIP-848).

    Empty --join--> Assigning --next heartbeat--> Reconciling --all members are done--> Stable
                        ^   a member comes, goes or subscribes to others    |
                        +---------------------------------------------------+

There is one request. A member says who it is, which epoch it is in, and what has changed; it is
told its epoch and, if that has changed, what it may use. Members do not wait for others: what one
does not have yet it gets with a later answer.

The rules of the classic machine hold here too: nothing waits or reads a clock, effects come in
order, every request is answered once. All that an answer says is in the roster, so an answer waits
until the roster is stored, which it mostly is: a heartbeat that changes nothing stores nothing.
"""

from dataclasses import dataclass, replace

from lakelog.groups.codes import Code
from lakelog.groups.consumer.assignors import ASSIGNORS
from lakelog.groups.consumer.group import AWAY, ConsumerGroup, ConsumerMember, ConsumerRoster
from lakelog.groups.consumer.reconcile import reconcile
from lakelog.groups.consumer.targets import find_topics, retarget
from lakelog.groups.events import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    Effect,
    Now,
    Persist,
    Reply,
    StoredPart,
)
from lakelog.groups.rules import GroupRules

__all__ = ["EXPRESSIONS_MAX", "REGEX_MAX", "beat", "expire", "find_fault"]

LEAVES = -1
ID_MAX = 249
"""Characters of an id that a client makes, of a rack, or of the name of a static member."""

REGEX_MAX = 1024
"""Characters of an expression."""

EXPRESSIONS_MAX = 32
"""Different expressions that the members of a group may have: each is tried on every topic."""


@dataclass(frozen=True, slots=True)
class _Beat:
    """What does not change in a step."""

    event: ConsumerHeartbeat
    now: Now
    rules: GroupRules


def beat(
    group: ConsumerGroup, event: ConsumerHeartbeat, now: Now, rules: GroupRules
) -> tuple[ConsumerGroup, tuple[Effect, ...]]:
    """Return the group after a heartbeat, and what the caller must now do."""
    done: tuple[ConsumerGroup, ConsumerAnswer] | ConsumerAnswer | None = find_fault(event)
    if done is None:
        leaves = event.epoch in (LEAVES, AWAY)
        done = _leave(group, event, now) if leaves else _live(group, _Beat(event, now, rules))
    if isinstance(done, ConsumerAnswer):
        return group, (Reply(event.ticket, done),)
    after, answer = done
    stored = () if after.roster is group.roster else (Persist(StoredPart.ROSTER),)
    return after, (*stored, Reply(event.ticket, answer, StoredPart.ROSTER))


# ---------------------------------------------------------------------------- checks


def find_fault(event: ConsumerHeartbeat) -> ConsumerAnswer | None:
    """Say what is wrong with a request, whatever the group."""
    wrong = ""
    texts = {"MemberId": event.member_id, "InstanceId": event.instance_id, "RackId": event.rack_id}
    may_lack = event.epoch == 0 and not event.needs_id
    for name, text in texts.items():
        if text is None or (name == "MemberId" and may_lack and not text):
            continue
        if not text.strip() or len(text) > ID_MAX:
            wrong = f"{name} has {len(text)} characters: use 1 to {ID_MAX}, not only spaces."
    if event.epoch < AWAY:
        wrong = f"MemberEpoch {event.epoch}: use 0 to join, -1 or -2 to leave, or the one you have."
    elif event.epoch == AWAY and event.instance_id is None:
        wrong = "InstanceId is missing: only a static member leaves for a while."
    elif event.epoch == 0:
        if event.rebalance_timeout_ms < 0:
            wrong = "RebalanceTimeoutMs is missing: give it when joining."
        elif event.owned is None or event.owned:
            wrong = "TopicPartitions must be empty when joining: let go of all first."
        elif event.names is None and event.regex is None:
            wrong = "Give SubscribedTopicNames or SubscribedTopicRegex when joining."
    if wrong:
        return ConsumerAnswer(code=Code.INVALID_REQUEST, message=wrong)
    if event.assignor is not None and event.assignor not in ASSIGNORS:
        known = ", ".join(sorted(ASSIGNORS))
        what = f"ServerAssignor {event.assignor[:64]} is not supported: use one of {known}."
        return ConsumerAnswer(code=Code.UNSUPPORTED_ASSIGNOR, message=what)
    return None


def _check_epoch(member: ConsumerMember, event: ConsumerHeartbeat) -> ConsumerAnswer | None:
    """Say whether a member is where the coordinator believes it to be."""
    if event.epoch in (0, member.epoch):
        return None  # A member that joins again owns nothing, and is told all that it may use.
    ours = member.assigned | member.revoking
    is_behind = event.epoch == member.previous_epoch
    if is_behind and event.owned is not None and event.owned <= ours:
        return None  # It has missed the answer that told it of this epoch.
    what = f"MemberEpoch is {member.epoch} here and {event.epoch} there"
    return ConsumerAnswer(
        code=Code.FENCED_MEMBER_EPOCH, message=f"{what}: let go of all partitions and join again."
    )


# ---------------------------------------------------------------------------- members


def _live(
    group: ConsumerGroup, given: _Beat
) -> tuple[ConsumerGroup, ConsumerAnswer] | ConsumerAnswer:
    """A member joins, or goes on: take in what it says, and bring it nearer to its target."""
    event = given.event
    found = _find(group, event)
    if isinstance(found, ConsumerAnswer):
        return found
    before, replaces = found
    said = _updated(before, given)
    roster = _enrol(group.roster, said, replaces)
    refused = _check_said(roster, before, said, given)
    if refused is not None:
        return refused
    is_new = replaces is None and said.id not in group.roster.members
    wants_other = is_new or (said.names, said.regex) != (before.names, before.regex)
    means = (group.names, group.patterns)
    if roster is not group.roster:
        means = (roster.names, roster.patterns)
    topics = find_topics(*means, event, given.rules)
    if topics is None and wants_other:
        what = f"The group would have over {given.rules.partitions_max} partitions: ask for fewer."
        return ConsumerAnswer(code=Code.GROUP_MAX_SIZE_REACHED, message=what)
    if topics is None:
        topics = roster.topics  # They grew too much meanwhile: it goes on with those it has.
    if wants_other or topics != roster.topics:
        roster = replace(roster, epoch=roster.epoch + 1, topics=topics)
    if roster.epoch > roster.target_epoch:
        roster = retarget(roster, event.matches)
    after = member = roster.members[said.id]
    if event.epoch in (0, before.epoch):  # Else it must first hear what it has missed.
        others = (one for one in roster.members.values() if one is not member)
        after = reconcile(member, others, roster.target_epoch, event.owned)
    if after is not member:
        roster = _put(roster, after)
    answer = ConsumerAnswer(
        member_id=after.id,
        epoch=after.epoch,
        heartbeat_interval_ms=given.rules.consumer_heartbeat_interval_ms,
        assignment=after.assigned if _is_full(event) or after.assigned != before.assigned else None,
    )
    return _timed(group, roster, before, after, given), answer


def _is_full(event: ConsumerHeartbeat) -> bool:
    """Say whether a member tells all of itself: then it wants to be told all, too."""
    subscribes = event.names is not None or event.regex is not None
    is_whole = subscribes and event.rebalance_timeout_ms != -1 and event.owned is not None
    return event.epoch == 0 or is_whole


def _check_said(
    roster: ConsumerRoster, before: ConsumerMember, member: ConsumerMember, given: _Beat
) -> ConsumerAnswer | None:
    """Say whether there is room for what a member says of itself, and whether it makes sense."""
    if member.regex is not None and member.regex != before.regex:
        is_long = len(member.regex) > REGEX_MAX
        if is_long or given.event.matches.get(member.regex) is None:
            what = "SubscribedTopicRegex is no expression of RE2, or too long: use a shorter one."
            return ConsumerAnswer(code=Code.INVALID_REGULAR_EXPRESSION, message=what)
        if len(roster.patterns) > EXPRESSIONS_MAX:
            what = (
                f"The group has {EXPRESSIONS_MAX} different SubscribedTopicRegex: use one of them."
            )
            return ConsumerAnswer(code=Code.GROUP_MAX_SIZE_REACHED, message=what)
    if len(roster.members) > given.rules.members_max and not before.epoch:
        what = f"The group has {given.rules.members_max} members, and takes no more."
        return ConsumerAnswer(code=Code.GROUP_MAX_SIZE_REACHED, message=what)
    if member is not before:
        said = sum(one.said for one in roster.members.values())
        if said > given.rules.protocol_bytes_max:
            what = "The members of the group say too much of themselves: use shorter lists."
            return ConsumerAnswer(code=Code.GROUP_MAX_SIZE_REACHED, message=what)
    return None


def _find(
    group: ConsumerGroup, event: ConsumerHeartbeat
) -> tuple[ConsumerMember, ConsumerMember | None] | ConsumerAnswer:
    """Return the member that a heartbeat is of, a new one if it joins; and whom it replaces."""
    roster = group.roster
    member_id = event.member_id or event.new_member_id
    member = roster.members.get(member_id)
    if event.instance_id is not None:
        holder = roster.holder(event.instance_id)
        if event.epoch == 0 and holder is not None and holder is not member:
            if holder.epoch != AWAY:
                what = f"InstanceId {event.instance_id} is of a member that is here: let it leave."
                return ConsumerAnswer(code=Code.UNRELEASED_INSTANCE_ID, message=what)
            if member is not None:
                what = f"MemberId {member_id} is of another member here: use a new one."
                return ConsumerAnswer(code=Code.INVALID_REQUEST, message=what)
            return replace(holder, id=member_id, epoch=0, previous_epoch=0), holder
        if event.epoch != 0:
            refused = _check_instance(holder, event)
            if refused is not None:
                return refused
    if member is None and event.epoch == 0:
        return ConsumerMember(id=member_id), None
    if member is None:
        return ConsumerAnswer(
            code=Code.UNKNOWN_MEMBER_ID, message=f"Member {member_id} is not in the group."
        )
    if event.epoch == 0 and member.epoch == AWAY:
        return replace(member, epoch=0, previous_epoch=0), None
    refused = _check_epoch(member, event)
    return (member, None) if refused is None else refused


def _check_instance(
    holder: ConsumerMember | None, event: ConsumerHeartbeat
) -> ConsumerAnswer | None:
    if holder is None:
        return ConsumerAnswer(
            code=Code.UNKNOWN_MEMBER_ID, message=f"InstanceId {event.instance_id} is unknown."
        )
    if holder.id != event.member_id:
        what = f"InstanceId {event.instance_id} belongs to another member now."
        return ConsumerAnswer(code=Code.FENCED_INSTANCE_ID, message=what)
    return None


def _updated(member: ConsumerMember, given: _Beat) -> ConsumerMember:
    """Return a member with what it says of itself; the same one, if it says nothing new."""
    event, timeout_ms = given.event, given.event.rebalance_timeout_ms
    if timeout_ms >= 0:
        timeout_ms = min(timeout_ms, given.rules.rebalance_timeout_ms_max)
    after = replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=member.rack_id if event.rack_id is None else event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        names=member.names if event.names is None else tuple(sorted(set(event.names))),
        regex=member.regex if event.regex is None else event.regex or None,
        assignor=member.assignor if event.assignor is None else event.assignor,
    )
    return member if after == member else after


def _enrol(
    roster: ConsumerRoster, member: ConsumerMember, replaces: ConsumerMember | None
) -> ConsumerRoster:
    """Return the roster with a member as it is now, in the place of the one it replaces."""
    if replaces is None:
        return roster if roster.members.get(member.id) is member else _put(roster, member)
    members = {
        (member.id if key == replaces.id else key): (member if key == replaces.id else one)
        for key, one in roster.members.items()
    }
    return replace(roster, members=members)


def _put(roster: ConsumerRoster, member: ConsumerMember) -> ConsumerRoster:
    return replace(roster, members={**roster.members, member.id: member})


def _timed(
    group: ConsumerGroup,
    roster: ConsumerRoster,
    before: ConsumerMember,
    after: ConsumerMember,
    given: _Beat,
) -> ConsumerGroup:
    """Return the group with a roster, and deadlines for a member that was heard of."""
    now_ms = given.now.boot_ms
    sessions = {**group.sessions, after.id: now_ms + given.rules.consumer_session_timeout_ms}
    revocations = group.revocations
    if not after.revoking:
        revocations = {key: one for key, one in revocations.items() if key != after.id}
    elif (after.revoking, after.epoch) != (before.revoking, before.epoch):
        revocations = {**revocations, after.id: now_ms + after.rebalance_timeout_ms}
    if roster is group.roster:
        return replace(group, sessions=sessions, revocations=revocations)
    members = roster.members
    return replace(
        group,
        sessions={key: one for key, one in sessions.items() if key in members},
        revocations={key: one for key, one in revocations.items() if key in members},
    ).enrolled(roster)


# ---------------------------------------------------------------------------- leaving


def _leave(
    group: ConsumerGroup, event: ConsumerHeartbeat, now: Now
) -> tuple[ConsumerGroup, ConsumerAnswer] | ConsumerAnswer:
    roster = group.roster
    if event.instance_id is not None:
        refused = _check_instance(roster.holder(event.instance_id), event)
        if refused is not None:
            return refused
    member = roster.members.get(event.member_id)
    if member is None:
        return ConsumerAnswer(
            code=Code.UNKNOWN_MEMBER_ID, message=f"Member {event.member_id} is not in the group."
        )
    answer = ConsumerAnswer(member_id=member.id, epoch=event.epoch)
    if event.epoch == LEAVES:
        return _without(group, member.id, now), answer
    # It has stopped, so it uses nothing. What it had is kept for its instance id.
    away = replace(member, epoch=AWAY, revoking=frozenset())
    revocations = {key: one for key, one in group.revocations.items() if key != member.id}
    return replace(group, revocations=revocations).enrolled(_put(roster, away)), answer


def _without(group: ConsumerGroup, member_id: str, now: Now) -> ConsumerGroup:
    """Return the group without a member; its partitions are free from now on."""
    roster = group.roster
    members = {key: one for key, one in roster.members.items() if key != member_id}
    after = replace(roster, epoch=roster.epoch + 1, members=members)
    if not members:
        after = replace(after, since_ms=now.wall_ms, topics={})
    return replace(
        group,
        sessions={key: one for key, one in group.sessions.items() if key != member_id},
        revocations={key: one for key, one in group.revocations.items() if key != member_id},
    ).enrolled(after)


def expire(group: ConsumerGroup, now: Now) -> tuple[ConsumerGroup, tuple[Effect, ...]]:
    """Return the group without members that are late, and what the caller must now do."""
    late = {key for key, due_ms in group.sessions.items() if due_ms <= now.boot_ms}
    late |= {key for key, due_ms in group.revocations.items() if due_ms <= now.boot_ms}
    for member_id in sorted(late):
        group = _without(group, member_id, now)
    return group, (Persist(StoredPart.ROSTER),) if late else ()

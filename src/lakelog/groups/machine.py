"""The group state machine: Kafka's classic consumer groups.

    Empty --join--> PreparingRebalance --all have joined-----> CompletingRebalance
      ^                 ^         |                                     | the leader has decided
      |    a member     |         `--none is left--> Empty              v
      |    comes, goes  +---------------------------------------------- Stable
      `-- expired, deleted --> Dead

Rule 1: everything that changes a group is behind ``step``: here, in joining and in rebalance.
Rule 2: nothing here waits, reads a clock, draws a number or sends a byte. Time and ids come in;
what must happen outside goes out as effects, in order: persist before reply.
Rule 3: every request is answered once, by this step or by a later one; a Tick at each deadline is
enough for that.

A cooperative rebalance is two ordinary ones: members keep what they have and say so in their
metadata, which only their leader reads. There is nothing to do for it here.
"""

from collections.abc import Callable
from dataclasses import replace

from lakelog.groups.codes import Code
from lakelog.groups.committing import commit, delete_offsets, expire_offsets, forget_topics
from lakelog.groups.events import (
    Commit,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    Effect,
    Event,
    Heartbeat,
    Identity,
    Join,
    Leave,
    LeaveAnswer,
    Now,
    StoredPart,
    Sweep,
    Sync,
    SyncAnswer,
    Tick,
    TopicsGone,
    refusal,
)
from lakelog.groups.group import CONSUMERS, Group, State, absent
from lakelog.groups.joining import join
from lakelog.groups.offsets import Offsets
from lakelog.groups.rebalance import (
    complete_if_ready,
    decide,
    expire_join,
    expire_sync,
    prepare,
    remove,
)
from lakelog.groups.rules import GroupRules
from lakelog.groups.subscriptions import decode_subscription
from lakelog.groups.turn import Turn

__all__ = ["step"]


def step(
    group: Group, event: Event, now: Now, rules: GroupRules
) -> tuple[Group, tuple[Effect, ...]]:
    """Return the group after an event, and what the caller must now do."""
    turn = Turn(group, now, rules)
    match event:
        case Join():
            join(turn, event)
        case Sync():
            _sync(turn, event)
        case Heartbeat():
            _heartbeat(turn, event)
        case Leave():
            _leave(turn, event)
        case Commit():
            _commit(turn, event)
        case Delete():
            _delete(turn, event)
        case DeleteOffsets():
            _delete_offsets(turn, event)
        case Tick():
            _tick(turn)
        case Sweep():
            _sweep(turn)
        case TopicsGone():
            turn.take(forget_topics(group, event))
        case ConsumerHeartbeat():
            turn.reply(event.ticket, refusal(event, Code.GROUP_ID_NOT_FOUND))
    after = turn.group
    nothing = not (after.members or after.pending or after.generation or after.offsets.rows)
    if after.state is State.DEAD or (after.state is State.EMPTY and nothing):
        after = absent(group.id)  # The second came to nothing, and nothing of it is stored.
    return after, tuple(turn.effects)


# ---------------------------------------------------------------------------- members


def _sync(turn: Turn, event: Sync) -> None:
    group = turn.group
    code = turn.check_member(event.member_id, event.instance_id)
    if code is Code.NONE:
        code = _check_sync(group, event, turn.rules)
    if code is not Code.NONE:
        turn.reply(event.ticket, SyncAnswer(code=code))
        return
    member = group.members[event.member_id]
    turn.reply(member.sync, SyncAnswer(code=Code.REBALANCE_IN_PROGRESS))  # Of a broken connection.
    awaited = group.awaited - {member.id}
    # Once all have asked there is no member left to wait for. Before the leader has, there is.
    turn.change(awaited=awaited, sync_deadline_ms=group.sync_deadline_ms if awaited else None)
    if group.state is State.STABLE:
        turn.reply(event.ticket, turn.decided(member), StoredPart.ROSTER)
        return
    turn.put(replace(member, sync=event.ticket))
    if group.leader == member.id:
        decide(turn, dict(event.assignments))


def _check_sync(group: Group, event: Sync, rules: GroupRules) -> Code:
    if event.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    said = ((event.protocol_type, group.protocol_type), (event.protocol, group.protocol))
    if any(mine is not None and mine != theirs for mine, theirs in said):
        return Code.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING:
        return Code.REBALANCE_IN_PROGRESS
    if sum(len(name) + len(part) for name, part in event.assignments) > rules.assignment_bytes_max:
        return Code.UNKNOWN_SERVER_ERROR  # What Kafka says to a leader that decides too much.
    return Code.NONE


def _heartbeat(turn: Turn, event: Heartbeat) -> None:
    group = turn.group
    code = turn.check_member(event.member_id, event.instance_id)
    if code is Code.NONE and event.generation != group.generation:
        code = Code.ILLEGAL_GENERATION
    if code is Code.NONE:
        turn.heard(group.members[event.member_id])
        if group.state is State.PREPARING:
            code = Code.REBALANCE_IN_PROGRESS
    turn.reply(event.ticket, code)


def _leave(turn: Turn, event: Leave) -> None:
    if turn.group.state is State.DEAD:
        turn.reply(event.ticket, LeaveAnswer(code=Code.UNKNOWN_MEMBER_ID))
        return
    if len(event.members) > turn.rules.members_max:
        turn.reply(event.ticket, LeaveAnswer(code=Code.INVALID_REQUEST))
        return
    before = turn.group
    gone: list[tuple[Identity, Code]] = []
    for identity in event.members:
        member_id, instance_id = identity
        if not member_id and instance_id is not None:
            member_id = turn.group.holder(instance_id) or ""
        is_pending = member_id in turn.group.pending
        code = Code.NONE if is_pending else turn.check_member(member_id, instance_id)
        if code is Code.NONE:
            turn.drop(member_id)
        gone.append((identity, code))
    if turn.group.state is State.PREPARING:
        complete_if_ready(turn)
    elif len(turn.group.members) < len(before.members):
        prepare(turn)
    turn.reply(event.ticket, LeaveAnswer(members=tuple(gone)), StoredPart.ROSTER)


# ---------------------------------------------------------------------------- offsets


def _commit(turn: Turn, event: Commit) -> None:
    group = turn.group
    code = _check_commit(turn, event)
    member = group.members.get(event.member_id)
    if code is Code.NONE and member is not None:
        turn.heard(member)
    turn.take(commit(turn.group, event, code, turn.now, turn.rules))
    if group.state is State.DEAD and turn.group.offsets is not group.offsets:
        turn.change(state=State.EMPTY)


def _check_commit(turn: Turn, event: Commit) -> Code:
    group = turn.group
    if event.generation < 0 and group.state in (State.EMPTY, State.DEAD):
        return Code.NONE  # From outside, and the group has no members.
    if group.state is State.DEAD:
        return Code.GROUP_ID_NOT_FOUND if event.knows_missing else Code.ILLEGAL_GENERATION
    if event.generation < 0 and not event.member_id and event.instance_id is None:
        return Code.UNKNOWN_MEMBER_ID
    code = turn.check_member(event.member_id, event.instance_id)
    if code is not Code.NONE:
        return code
    if event.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    if group.state is State.COMPLETING:
        return Code.REBALANCE_IN_PROGRESS
    return Code.NONE


def _delete(turn: Turn, event: Delete) -> None:
    if turn.group.state is State.DEAD:
        turn.reply(event.ticket, Code.GROUP_ID_NOT_FOUND)
    elif turn.group.state is not State.EMPTY:
        turn.reply(event.ticket, Code.NON_EMPTY_GROUP)
    else:
        turn.change(state=State.DEAD, offsets=Offsets(), pending={})
        turn.persist(StoredPart.ROSTER)
        turn.reply(event.ticket, Code.NONE, StoredPart.ROSTER)


def _delete_offsets(turn: Turn, event: DeleteOffsets) -> None:
    group = turn.group
    is_live = group.state not in (State.EMPTY, State.DEAD)
    if group.state is State.DEAD:
        turn.reply(event.ticket, refusal(event, Code.GROUP_ID_NOT_FOUND))
    elif is_live and group.protocol_type != CONSUMERS:
        turn.reply(event.ticket, refusal(event, Code.NON_EMPTY_GROUP))
    else:
        turn.take(delete_offsets(group, event, _subscriptions(group)))


def _subscriptions(group: Group) -> Callable[[str], bool]:
    """Return what says whether members read a topic; a member whose subscription cannot be decoded
    is taken to read all.
    """
    names: set[str] = set()
    for member in group.members.values():
        for offer in member.offers.rows:
            found = decode_subscription(offer.metadata)
            if found is None:
                return lambda _: True
            names |= found
    return names.__contains__


def _sweep(turn: Turn) -> None:
    """Offsets of a group without members expire; and so does a group without offsets."""
    group = turn.group
    if group.state is not State.EMPTY:
        return
    since_ms = group.roster.since_ms if group.protocol_type is not None else 0
    turn.take(expire_offsets(group, since_ms, turn.now, turn.rules))
    if not turn.group.offsets.rows and not group.pending:
        turn.change(state=State.DEAD)
        turn.persist(StoredPart.OFFSETS)


# ---------------------------------------------------------------------------- time


def _tick(turn: Turn) -> None:
    now_ms = turn.now.boot_ms
    began = turn.group
    for member_id, deadline_ms in began.pending.items():
        if deadline_ms <= now_ms:
            remove(turn, member_id)
    for member_id in began.members:
        # A member that was here when this began may have been dropped, or have got more time.
        member = turn.group.members.get(member_id)
        if member is not None and member.deadline_ms <= now_ms and not member.is_excused:
            remove(turn, member_id)
    # A deadline that was only now set is for the next tick, however soon it is: members that are
    # told of a generation, or asked to join one, must have had the time to answer.
    if _has_passed(began.join_deadline_ms, turn.group.join_deadline_ms, now_ms):
        expire_join(turn)
    elif _has_passed(began.sync_deadline_ms, turn.group.sync_deadline_ms, now_ms):
        expire_sync(turn)


def _has_passed(before_ms: int | None, deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms == before_ms and deadline_ms <= now_ms

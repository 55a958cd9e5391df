"""JoinGroup: which member joins, under which id, and whether the group must rebalance for it.

    no id, dynamic, v4+     gets an id, and comes again with it: a client that loses the answer
                            leaves an id behind and not a member
    no id, dynamic          is a member
    no id, static           takes the place of the member of this instance, if there is one; that
                            one is fenced. A stable group does not rebalance for it when the
                            protocol stays the same
    an id                   rejoins

In a stable group the leader's JoinGroup means that it wants to assign anew; a follower's that says
nothing new is only told again what it missed.
"""

from dataclasses import replace

from lakelog.groups.codes import Code
from lakelog.groups.events import Join, JoinAnswer, StoredPart, SyncAnswer, refusal
from lakelog.groups.group import Group, State
from lakelog.groups.members import Member, Offers, elect_protocol, is_common
from lakelog.groups.rebalance import begin_or_complete, complete_if_ready, prepare
from lakelog.groups.rules import GroupRules
from lakelog.groups.turn import Turn

__all__ = ["join"]

INSTANCE_ID_MAX = 249
"""Kafka's own limit of a ``group.instance.id``, in characters."""


def join(turn: Turn, event: Join) -> None:
    """Let a member in, or tell it why not. The answer may come much later."""
    if turn.group.state is State.DEAD:
        if event.member_id:
            turn.reply(event.ticket, refusal(event, Code.UNKNOWN_MEMBER_ID))
            return
        turn.change(state=State.EMPTY)
    group = turn.group
    code = _check(group, event, turn.rules)
    if code is Code.GROUP_MAX_SIZE_REACHED and event.member_id in group.pending:
        turn.drop(event.member_id)
    if code is not Code.NONE:
        given = "" if code is Code.GROUP_MAX_SIZE_REACHED else event.member_id
        turn.reply(event.ticket, JoinAnswer(code=code, member_id=given))
    elif event.member_id in group.pending:
        _add(turn, event, event.member_id)
    elif event.member_id:
        _rejoin(turn, event)
    elif event.instance_id is not None and (old := group.holder(event.instance_id)) is not None:
        _take_place(turn, event, group.members[old])
    elif event.instance_id is None and event.needs_id:
        deadline_ms = turn.now.boot_ms + event.session_timeout_ms
        turn.change(pending={**group.pending, event.new_member_id: deadline_ms})
        answer = JoinAnswer(code=Code.MEMBER_ID_REQUIRED, member_id=event.new_member_id)
        turn.reply(event.ticket, answer)
    else:
        _add(turn, event, event.new_member_id)


# ---------------------------------------------------------------------------- checks


def _check(group: Group, event: Join, rules: GroupRules) -> Code:
    least, most = rules.session_timeout_ms_min, rules.session_timeout_ms_max
    if not least <= event.session_timeout_ms <= most:
        return Code.INVALID_SESSION_TIMEOUT
    if event.instance_id is not None and (
        not 0 < len(event.instance_id) <= INSTANCE_ID_MAX or event.member_id in group.pending
    ):
        return Code.INVALID_REQUEST
    if not _has_room(group, event, rules):
        return Code.GROUP_MAX_SIZE_REACHED
    if not _is_consistent(group, event, rules):
        return Code.INCONSISTENT_GROUP_PROTOCOL
    return Code.NONE


def _has_room(group: Group, event: Join, rules: GroupRules) -> bool:
    """Count members and bytes. One that is in already is not refused for the number of members."""
    member = group.members.get(event.member_id)
    said = sum(one.offers.size_bytes for one in group.members.values() if one is not member)
    if said + Offers.of(event.offers).size_bytes > rules.protocol_bytes_max:
        return False
    is_replaced = event.instance_id is not None and group.holder(event.instance_id) is not None
    if not event.member_id and not is_replaced and len(group.pending) >= rules.members_max:
        return False
    match group.state:
        case State.PREPARING:
            is_in = member is not None and member.join is not None
            return is_in or is_replaced or group.waiting < rules.members_max
        case State.COMPLETING | State.STABLE:
            is_in = member is not None or is_replaced
            return is_in or len(group.members) < rules.members_max
        case _:
            return True


def _is_consistent(group: Group, event: Join, rules: GroupRules) -> bool:
    if not event.protocol_type or not 0 < len(event.offers) <= rules.protocols_max:
        return False
    if group.state is State.EMPTY or not group.members:
        return True
    same = group.protocol_type == event.protocol_type
    names = {offer.name for offer in event.offers}
    return same and any(is_common(name, group.members.values()) for name in names)


# ---------------------------------------------------------------------------- ways in


def _add(turn: Turn, event: Join, member_id: str) -> None:
    """Take in a new member."""
    group = turn.group
    wait_ms = turn.rules.new_member_join_timeout_ms
    member = Member(
        id=member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(turn, event),
        offers=Offers.of(event.offers),
        # It cannot send heartbeats before it has its first generation.
        deadline_ms=turn.now.boot_ms + wait_ms,
        is_new=True,
        join=event.ticket,
    )
    turn.change(
        pending={key: one for key, one in group.pending.items() if key != member_id},
        protocol_type=group.protocol_type if group.members else event.protocol_type,
        leader=group.leader or member_id,
    )
    turn.put(member)
    if group.delay is not None:
        turn.change(delay=group.delay._replace(grew=True))
    begin_or_complete(turn)


def _rejoin(turn: Turn, event: Join) -> None:
    """A member that has an id joins again."""
    group = turn.group
    code = turn.check_member(event.member_id, event.instance_id)
    if code is not Code.NONE:
        turn.reply(event.ticket, refusal(event, code))
        return
    member = group.members[event.member_id]
    is_same = member.offers.rows == event.offers
    if group.state is State.COMPLETING and is_same:
        # It has missed the answer to its first one.
        turn.reply(event.ticket, turn.joined(member.id), StoredPart.ROSTER)
    elif group.state is State.STABLE and is_same and group.leader != member.id:
        turn.reply(event.ticket, turn.joined(member.id), StoredPart.ROSTER)
    else:
        # While it waits for a rebalance no heartbeats are expected, but an old request of it, on a
        # connection that broke, is still to be answered.
        turn.reply(member.join, JoinAnswer(code=Code.REBALANCE_IN_PROGRESS, member_id=member.id))
        turn.put(_updated(turn, member, event))
        begin_or_complete(turn)


def _take_place(turn: Turn, event: Join, old: Member) -> None:
    """A static member came back without its id: it gets a new one, and the old one is fenced."""
    group = turn.group
    turn.reply(old.join, JoinAnswer(code=Code.FENCED_INSTANCE_ID, member_id=old.id))
    turn.reply(old.sync, SyncAnswer(code=Code.FENCED_INSTANCE_ID))
    new = _updated(turn, replace(old, id=event.new_member_id, is_new=False, sync=None), event)
    new = replace(new, deadline_ms=turn.now.boot_ms + new.session_timeout_ms)
    turn.change(
        members={
            (new.id if key == old.id else key): (new if key == old.id else one)
            for key, one in group.members.items()
        },
        awaited=frozenset(new.id if key == old.id else key for key in group.awaited),
        leader=new.id if group.leader == old.id else group.leader,
    )
    if group.state is State.STABLE:
        if elect_protocol(turn.group.members.values()) == group.protocol:
            _replaced(turn, event, new, old)
        else:
            prepare(turn)
    elif group.state is State.COMPLETING:
        # The leader may have been told of the old id, and would assign nothing to the new one.
        prepare(turn)
    else:
        complete_if_ready(turn)


def _replaced(turn: Turn, event: Join, new: Member, old: Member) -> None:
    """The generation goes on with a new id in it, once that is stored."""
    turn.put(replace(new, join=None))
    turn.enroll(is_decided=True)
    answer = turn.joined(new.id)
    if event.may_skip:
        answer = replace(answer, skip_assignment=turn.group.leader == new.id)
    else:
        # An older client would assign anew if it were told that it leads. It is told the old id.
        leader = old.id if turn.group.leader == new.id else turn.group.leader or ""
        answer = replace(answer, leader=leader, members=())
    turn.reply(event.ticket, answer, StoredPart.ROSTER)


def _updated(turn: Turn, member: Member, event: Join) -> Member:
    return replace(
        member,
        offers=Offers.of(event.offers),
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(turn, event),
        join=event.ticket,
    )


def _rebalance_timeout_ms(turn: Turn, event: Join) -> int:
    wanted = event.rebalance_timeout_ms
    limit = turn.rules.rebalance_timeout_ms_max
    return min(wanted if wanted >= 0 else event.session_timeout_ms, limit)

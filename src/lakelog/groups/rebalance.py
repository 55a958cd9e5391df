"""A rebalance: from one generation to the next.

    Empty, CompletingRebalance, Stable --prepare--> PreparingRebalance      JoinGroups wait
    PreparingRebalance --complete_join--> CompletingRebalance               they are answered
                                          Empty, if none is left
    CompletingRebalance --decide--> Stable                                  SyncGroups are answered

``prepare`` waits until all members have rejoined, for as long as the most patient one allows. One
that has not come then is dropped; a static member is not, its session decides. An empty group waits
a little for others than the first, and a little more each time a member comes.

A member that got its generation and does not ask for its assignment in time is dropped as well, the
leader first of all: the others wait for what it decides.
"""

from dataclasses import replace

from lakelog.groups.codes import Code
from lakelog.groups.events import StoredPart, SyncAnswer
from lakelog.groups.group import Delay, State
from lakelog.groups.members import elect_protocol
from lakelog.groups.turn import Turn

__all__ = [
    "begin_or_complete",
    "complete_if_ready",
    "complete_join",
    "decide",
    "expire_join",
    "expire_sync",
    "prepare",
    "remove",
]


def begin_or_complete(turn: Turn) -> None:
    """Begin a rebalance, or see whether the one that is prepared is complete."""
    if turn.group.state is State.PREPARING:
        complete_if_ready(turn)
    else:
        prepare(turn)


def complete_if_ready(turn: Turn) -> None:
    """Complete the rebalance when all have joined; the first of a group takes its time."""
    group = turn.group
    if group.state is State.PREPARING and group.delay is None and group.is_complete:
        complete_join(turn)


def prepare(turn: Turn) -> None:
    """Ask all members to join again."""
    group = turn.group
    if group.state is State.COMPLETING:
        for member in group.members.values():
            turn.reply(member.sync, SyncAnswer(code=Code.REBALANCE_IN_PROGRESS))
        turn.change(
            members={
                member.id: replace(member, sync=None, assignment=b"")
                for member in group.members.values()
            }
        )
    turn.change(awaited=frozenset(), sync_deadline_ms=None, state=State.PREPARING)
    if group.state is State.EMPTY:
        delay_ms = turn.rules.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        turn.change(
            delay=Delay(delay_ms, remaining_ms), join_deadline_ms=turn.now.boot_ms + delay_ms
        )
    elif turn.group.is_complete:
        complete_join(turn)
    else:
        turn.change(join_deadline_ms=turn.now.boot_ms + group.rebalance_timeout_ms)


def expire_join(turn: Turn) -> None:
    """The time to join is over, unless an empty group has just got one more member."""
    delay = turn.group.delay
    next_ms = 0
    if delay is not None and delay.grew:
        next_ms = min(turn.rules.initial_rebalance_delay_ms, delay.remaining_ms)
    if delay is None or not next_ms:
        complete_join(turn)
        return
    turn.change(
        delay=Delay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0)),
        join_deadline_ms=turn.now.boot_ms + next_ms,
    )


def complete_join(turn: Turn) -> None:
    """Begin the next generation with the members that have joined."""
    for member in list(turn.group.members.values()):
        if member.join is None and member.instance_id is None:
            turn.drop(member.id)
    group = turn.group
    ready = [member.id for member in group.members.values() if member.join is not None]
    if group.members and not ready:
        # Static members only, and none has come: sessions will tell which of them live.
        turn.change(join_deadline_ms=turn.now.boot_ms + group.rebalance_timeout_ms, delay=None)
        return
    turn.change(generation=group.generation + 1, join_deadline_ms=None, delay=None)
    if not group.members:
        turn.change(state=State.EMPTY, protocol=None, leader=None)
        turn.enroll(is_decided=False)
        return
    turn.change(
        state=State.COMPLETING,
        protocol=elect_protocol(group.members.values()),
        leader=group.leader if group.leader in ready else ready[0],
        awaited=frozenset(group.members),
        sync_deadline_ms=turn.now.boot_ms + group.rebalance_timeout_ms,
    )
    turn.enroll(is_decided=False)
    for member in group.members.values():
        turn.reply(member.join, turn.joined(member.id), StoredPart.ROSTER)
    turn.change(
        members={
            member.id: replace(
                member,
                join=None,
                is_new=False,
                deadline_ms=turn.now.boot_ms + member.session_timeout_ms,
            )
            for member in group.members.values()
        }
    )


def decide(turn: Turn, assignments: dict[str, bytes]) -> None:
    """Take in the assignments that the leader has decided."""
    group = turn.group
    members = {
        member.id: replace(
            member,
            assignment=assignments.get(member.id, b""),
            deadline_ms=(
                member.deadline_ms
                if member.sync is None
                else turn.now.boot_ms + member.session_timeout_ms
            ),
        )
        for member in group.members.values()
    }
    turn.change(members=members, state=State.STABLE)
    turn.enroll(is_decided=True)
    for member in members.values():
        turn.reply(member.sync, turn.decided(member), StoredPart.ROSTER)
    turn.change(members={key: replace(member, sync=None) for key, member in members.items()})


def expire_sync(turn: Turn) -> None:
    """Drop members that did not ask for their assignment, and begin again without them."""
    turn.change(sync_deadline_ms=None)
    if not turn.group.awaited:
        return
    for member_id in sorted(turn.group.awaited):
        turn.drop(member_id)
    prepare(turn)


def remove(turn: Turn, member_id: str) -> None:
    """Remove a member whose session is over, and go on without it."""
    is_pending = member_id in turn.group.pending
    turn.drop(member_id)
    group = turn.group
    if group.state is State.PREPARING and group.is_complete:
        complete_join(turn)
    elif group.state in (State.COMPLETING, State.STABLE) and not is_pending:
        prepare(turn)

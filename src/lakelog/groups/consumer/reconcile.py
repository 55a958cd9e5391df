"""From what a member has to what it is to have, one answer after another.

    assigned - target      it must let go: revoking, until a heartbeat says that it owns none of it
    assigned & target      it keeps
    target - assigned      it gets what no other member has; the rest is asked for again each time

A member that must let go stays in its epoch until it has: others cannot have what it still uses,
whatever became of the target meanwhile. Nothing is given to it before, so it is not asked to give
away in one breath what it got in the other.
"""

from collections.abc import Iterable
from dataclasses import replace

from lakelog.groups.consumer.group import ConsumerMember
from lakelog.groups.offsets import TopicIdPartition

__all__ = ["reconcile"]


def reconcile(
    member: ConsumerMember,
    others: Iterable[ConsumerMember],
    target_epoch: int,
    owned: frozenset[TopicIdPartition] | None,
) -> ConsumerMember:
    """Return a member one step nearer to its target; the same one, if there is nothing to do.

    ``owned`` is what it says that it has; None: it does not say, and has what it had.
    """
    epoch = member.epoch
    if member.revoking:
        if owned is None or owned & member.revoking:
            return member
        epoch += 1
    elif member.is_settled(target_epoch):
        return member
    kept = member.assigned & member.target
    revoking = member.assigned - kept
    if revoking and (owned is None or owned & revoking):
        return _moved(member, epoch, kept, revoking)
    wanted = member.target - kept
    if wanted:
        for one in others:
            wanted -= one.assigned
            wanted -= one.revoking
    return _moved(member, target_epoch, kept | wanted, frozenset())


def _moved(
    member: ConsumerMember,
    epoch: int,
    assigned: frozenset[TopicIdPartition],
    revoking: frozenset[TopicIdPartition],
) -> ConsumerMember:
    if (epoch, assigned, revoking) == (member.epoch, member.assigned, member.revoking):
        return member  # It still waits for others.
    previous = member.previous_epoch if epoch == member.epoch else member.epoch
    return replace(
        member, epoch=epoch, previous_epoch=previous, assigned=assigned, revoking=revoking
    )

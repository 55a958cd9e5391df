"""What commits, operators and time do to offsets, whatever the kind of the group."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from lakelog.groups.codes import Code
from lakelog.groups.consumer.group import ConsumerGroup
from lakelog.groups.events import (
    Commit,
    CommitAnswer,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Effect,
    Now,
    Persist,
    Reply,
    StoredPart,
    TopicsGone,
    refusal,
)
from lakelog.groups.group import Group
from lakelog.groups.offsets import Committed, Offsets, TopicIdPartition
from lakelog.groups.rules import GroupRules

__all__ = ["commit", "delete_offsets", "expire_offsets", "forget_topics"]

G = TypeVar("G", Group, ConsumerGroup)


def commit(
    group: G, event: Commit, code: Code, now: Now, rules: GroupRules
) -> tuple[G, tuple[Effect, ...]]:
    """Return a group after a commit, and effects; ``code`` says whether it may be made."""
    if code is not Code.NONE:
        return group, (Reply(event.ticket, refusal(event, code)),)
    most = rules.offset_metadata_bytes_max
    codes = tuple(
        Code.OFFSET_METADATA_TOO_LARGE
        if one.metadata and len(one.metadata.encode(errors="replace")) > most
        else Code.NONE
        for one in event.offsets
    )
    answer = CommitAnswer(codes=codes)
    taken = [one for one, code in zip(event.offsets, codes, strict=True) if code is Code.NONE]
    if not taken:
        return group, (Reply(event.ticket, answer),)
    reply = Reply(event.ticket, answer, StoredPart.OFFSETS)
    return _with(group, group.offsets.committed(taken, now.wall_ms), reply)


def delete_offsets(
    group: G, event: DeleteOffsets, is_subscribed: Callable[[str], bool]
) -> tuple[G, tuple[Effect, ...]]:
    """Return a group without offsets, except of topics that members subscribe to; and effects."""
    ids = {partition.topic_id for partition in event.partitions}
    kept = {key for key in ids if is_subscribed(event.names[key])}
    codes = tuple(
        Code.GROUP_SUBSCRIBED_TO_TOPIC if partition.topic_id in kept else Code.NONE
        for partition in event.partitions
    )
    gone = {partition for partition in event.partitions if partition.topic_id not in kept}
    left = group.offsets.without(lambda partition, _: partition in gone)
    answer = DeleteOffsetsAnswer(codes=codes)
    return _with(group, left, Reply(event.ticket, answer, StoredPart.OFFSETS))


def forget_topics(group: G, event: TopicsGone) -> tuple[G, tuple[Effect, ...]]:
    """Return a group without the offsets of topics that were deleted, and effects."""
    return _with(
        group, group.offsets.without(lambda partition, _: partition.topic_id in event.topic_ids)
    )


def expire_offsets(
    group: G, since_ms: int, now: Now, rules: GroupRules
) -> tuple[G, tuple[Effect, ...]]:
    """Return a group that is empty since then without offsets that are too old, and effects.

    The time runs from when the group became empty, or from the commit if that was later: an
    operator who sets the offsets of an old group back has the whole time again.
    """

    def is_old(_: TopicIdPartition, row: Committed) -> bool:
        return now.wall_ms - max(since_ms, row.commit_ms) >= rules.offsets_retention_ms

    return _with(group, group.offsets.without(is_old))


def _with(group: G, offsets: Offsets, *replies: Effect) -> tuple[G, tuple[Effect, ...]]:
    """Return a group with other offsets, that they are to be stored if they are others, and replies
    behind that.
    """
    if offsets is group.offsets:
        return group, replies
    return replace(group, offsets=offsets), (Persist(StoredPart.OFFSETS), *replies)

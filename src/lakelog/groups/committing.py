"""What commits, operators and time do to offsets, whatever the kind of the group."""

from collections.abc import Callable

from lakelog.groups.codes import Code
from lakelog.groups.events import Commit, DeleteOffsets, Now
from lakelog.groups.offsets import Committed, NewOffset, Offsets, TopicIdPartition
from lakelog.groups.rules import GroupRules

__all__ = ["expire_offsets", "forget_places", "take_commit"]


def take_commit(
    offsets: Offsets, event: Commit, now: Now, rules: GroupRules
) -> tuple[Offsets, tuple[Code, ...]]:
    """Return the offsets after a commit that is allowed; the same object if none was taken."""
    codes = [Code.NONE] * len(event.offsets)
    taken: list[NewOffset] = []
    for number, one in enumerate(event.offsets):
        said = len(one.metadata.encode(errors="replace")) if one.metadata else 0
        if said > rules.offset_metadata_bytes_max:
            codes[number] = Code.OFFSET_METADATA_TOO_LARGE
        else:
            taken.append(one)
    return offsets.committed(taken, now.wall_ms) if taken else offsets, tuple(codes)


def forget_places(
    offsets: Offsets, event: DeleteOffsets, is_subscribed: Callable[[str], bool]
) -> tuple[Offsets, tuple[Code, ...]]:
    """Return the offsets that stay, the same object if all do, and what became of each place."""
    ids = {place.topic_id for place in event.places}
    kept = {key for key in ids if is_subscribed(event.names[key])}
    codes = tuple(
        Code.GROUP_SUBSCRIBED_TO_TOPIC if place.topic_id in kept else Code.NONE
        for place in event.places
    )
    gone = {place for place in event.places if place.topic_id not in kept}
    return offsets.without(lambda place, _: place in gone), codes


def expire_offsets(offsets: Offsets, since_ms: int, now: Now, rules: GroupRules) -> Offsets:
    """Return what stays of the offsets of a group that is empty since then.

    The time runs from when the group became empty, or from the commit if that was later: an
    operator who sets the offsets of an old group back has the whole time again.
    """

    def is_old(_: TopicIdPartition, row: Committed) -> bool:
        return now.wall_ms - max(since_ms, row.commit_ms) >= rules.offsets_retention_ms

    return offsets.without(is_old)

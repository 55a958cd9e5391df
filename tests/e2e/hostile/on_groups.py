"""Attacks by what belongs to consumer groups."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.e2e.hostile.target import Target, storm
from tests.unit.broker.site import request_frame

__all__ = ["all_groups", "commits", "joins", "patterns"]


def commits(target: Target, until_s: float) -> None:
    """Commit offsets for groups that nobody is a member of, with 4 kB to remember for each."""

    def frames() -> Iterator[bytes]:
        for number in count():
            parts = [
                {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 4_000}
            ]
            rows = [{"name": f"topic-{one}", "partitions": parts} for one in range(50)]
            yield request_frame(8, 8, group_id=f"nobody-{number}", member_id="", topics=rows)

    storm(target, until_s, frames(), connections=8, burst=1, rate=100)


def joins(target: Target, until_s: float) -> None:
    """Join one group as another member each time, and come back under the name that was given."""

    def frames() -> Iterator[bytes]:
        for number in count():
            fields: dict[str, Any] = {"session_timeout": 6_000, "rebalance_timeout": 6_000}
            fields |= {"protocol_type": "consumer"}
            fields |= {"protocols": [{"name": "range", "metadata": bytes(1_000)}]}
            # A static member is let in at once; the others are only given a name.
            static: dict[str, Any] = {"group_instance_id": f"static-{number}"} if number % 2 else {}
            yield request_frame(11, 9, group_id="crowded", member_id="", **fields, **static)

    storm(target, until_s, frames(), connections=40, burst=1, rate=500)


def patterns(target: Target, until_s: float) -> None:
    """Join a group of the newer kind 300 times over, each with an expression that takes long."""

    def frames() -> Iterator[bytes]:
        for number in count():
            yield request_frame(
                68,
                1,
                group_id="patterns",
                member_id=f"member-{number % 300}",
                member_epoch=0,
                rebalance_timeout=60_000,
                subscribed_topic_regex="(m|ma|man|many)*-(.*){1,9}" + f"{number % 300}?" * 20,
                topic_partitions=[],
            )

    storm(target, until_s, frames(), rate=300)


def all_groups(target: Target, until_s: float) -> None:
    """Ask for all groups, and for all offsets of some, again and again."""
    asked = [{"group_id": "honest", "topics": None}] + [
        {"group_id": f"nobody-{one}", "topics": None} for one in range(100)
    ]
    frames = [
        request_frame(16, 5),
        request_frame(9, 8, groups=asked, require_stable=False),
        request_frame(
            15,
            5,
            groups=[f"nobody-{one}" for one in range(100)],
            include_authorized_operations=False,
        ),
    ]
    storm(target, until_s, frames, burst=3, rate=200)

"""Groups of a golden namespace, by clients of the wire: of both kinds, with members and without."""

import struct
from typing import Any

from kio.schema.errors import ErrorCode

from tests.unit.broker.site import Client

__all__ = ["commit", "join_classic", "leave_groups"]


def subscription(*names: str) -> bytes:
    """What a consumer of the classic protocol says that it wants."""
    wanted = b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)
    return struct.pack(">hi", 0, len(names)) + wanted + struct.pack(">i", -1)


def assignment(name: str, *partitions: int) -> bytes:
    """What its leader gives to it."""
    said = struct.pack(">hih", 0, 1, len(name)) + name.encode()
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return said + numbers + struct.pack(">i", -1)


async def join_classic(client: Client, group: str, instance: str | None, name: str) -> str:
    """Join a group of the classic protocol, alone, and return the member's id."""
    me: dict[str, Any] = {"group_id": group, "group_instance_id": instance}
    wants = [{"name": "range", "metadata": subscription(name)}]
    times = {"session_timeout": 45_000, "rebalance_timeout": 300_000, "reason": None}
    joining = {**me, **times, "protocol_type": "consumer", "protocols": wants}
    joined = await client.ask(11, 9, **joining, member_id="")
    if joined.error_code is ErrorCode.member_id_required:
        joined = await client.ask(11, 9, **joining, member_id=joined.member_id)
    assert joined.error_code is ErrorCode.none, joined
    member: str = joined.member_id
    given = [{"member_id": member, "assignment": assignment(name, 0, 1)}]
    synced = await client.ask(
        14, 5, **me, generation_id=joined.generation_id, member_id=member,
        protocol_type="consumer", protocol_name="range", assignments=given,
    )  # fmt: skip
    assert synced.error_code is ErrorCode.none, synced
    return member


async def join_consumer(client: Client, group: str, member: str, name: str) -> int:
    """Join a group of the newer protocol, alone, and return the member's epoch."""
    joined = await client.ask(
        68, 1, group_id=group, member_id=member, member_epoch=0, instance_id=None, rack_id="a",
        rebalance_timeout=300_000, subscribed_topic_names=[name], subscribed_topic_regex=None,
        server_assignor="uniform", topic_partitions=[],
    )  # fmt: skip
    assert joined.error_code is ErrorCode.none, joined
    epoch: int = joined.member_epoch
    return epoch


async def share_consumer(client: Client, group: str, member: str, epoch: int) -> None:
    """Let another member come: the first is asked to give a partition up, and has not done so."""
    topics = {topic.name: topic.topic_id for topic in await client.metadata("users")}
    quiet: dict[str, Any] = {
        "group_id": group, "instance_id": None, "rack_id": None, "rebalance_timeout": 300_000,
        "server_assignor": None,
    }  # fmt: skip
    wants = {"subscribed_topic_names": None, "subscribed_topic_regex": "use.*"}
    other = await client.ask(
        68, 1, **quiet, **wants, member_id="another-member", member_epoch=0, topic_partitions=[]
    )
    assert other.error_code is ErrorCode.none, other
    owned = [{"topic_id": topics["users"], "partitions": [0, 1]}]
    told = await client.ask(
        68, 1, **quiet, subscribed_topic_names=["users"], subscribed_topic_regex=None,
        member_id=member, member_epoch=epoch, topic_partitions=owned,
    )  # fmt: skip
    assert told.error_code is ErrorCode.none, told


async def commit(
    client: Client, group: str, name: str, offsets: dict[int, int], *, member: str = "",
    epoch: int = -1, instance: str | None = None, said: str = "",
) -> None:  # fmt: skip
    """Commit offsets."""
    rows = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": said,
        }
        for partition, offset in offsets.items()
    ]
    found = await client.ask(
        8, 9, group_id=group, generation_id_or_member_epoch=epoch, member_id=member,
        group_instance_id=instance, topics=[{"name": name, "partitions": rows}],
    )  # fmt: skip
    codes = {part.error_code for topic in found.topics for part in topic.partitions}
    assert codes == {ErrorCode.none}, codes


async def leave_groups(client: Client) -> None:
    """Groups of both kinds, with members and without; and one that was deleted."""
    member = await join_classic(client, "billing", "till-1", "orders")
    await commit(
        client, "billing", "orders", {0: 5, 1: 3}, member=member, epoch=1, instance="till-1",
        said="as of noon",
    )  # fmt: skip
    await commit(client, "reports", "orders", {0: 2, 2: 6})
    await commit(client, "reports", "again", {0: 1})
    epoch = await join_consumer(client, "search", "search-member", "users")
    await commit(client, "search", "users", {0: 4, 1: 7}, member="search-member", epoch=epoch)
    await share_consumer(client, "search", "search-member", epoch)
    await commit(client, "closed", "clicks", {0: 1})
    deleted = await client.ask(42, 2, groups_names=["closed"])
    assert deleted.results[0].error_code is ErrorCode.none

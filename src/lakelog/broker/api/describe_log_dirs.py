"""DescribeLogDirs (key 35, versions 1 to 4): how many bytes of the store partitions take.

Behaviour
    One directory, the namespace. A partition has the bytes of its segments and of what is not
    sealed yet. It is told by the broker that leads it alone, since whoever asks adds up what all
    brokers tell. The store has no size. A request for more partitions than it may ask the store for
    is answered with KAFKA_STORAGE_ERROR: ask for fewer topics at once.
"""

import asyncio
from collections.abc import Callable

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.services import Call, Services
from lakelog.broker.topic_entry import Entry
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError, NotFoundError, UnavailableError
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["describe_log_dirs"]

AT_ONCE = 64
"""Partitions that are measured at the same time; then others have their turn on the loop."""


async def describe_log_dirs(
    services: Services, call: Call, request: DescribeLogDirsRequest
) -> Fields:
    """Say how large partitions are."""
    if not call.may_cluster(Operation.DESCRIBE):
        return {"error_code": ErrorCode.cluster_authorization_failed, "results": []}
    name = f"lakelog:{services.cluster.cluster_id}"
    wanted: list[tuple[Entry, list[int]]] = []
    named: dict[Entry, dict[int, None]] = {}
    try:
        if request.topics is None:
            wanted = [
                (entry, list(range(entry.topic.partitions))) for entry in services.catalog.entries()
            ]
        else:
            async for one in in_turns(request.topics):
                entry = await services.catalog.find_entry(str(one.topic))
                if entry is not None:
                    named.setdefault(entry, {}).update(dict.fromkeys(map(int, one.partitions)))
            wanted = [(entry, list(indexes)) for entry, indexes in named.items()]
        leads = services.cluster.leads
        wanted = [
            (entry, [one for one in indexes if _is_led(entry, one, leads)])
            for entry, indexes in wanted
        ]
        lanes = {entry.topic.lane(index) for entry, indexes in wanted for index in indexes}
        await asyncio.gather(*(services.lanes[lane].refresh() for lane in lanes))
        topics = [await _topic(entry, indexes) for entry, indexes in wanted if indexes]
    except LakelogError:
        failed: Fields = {"error_code": ErrorCode.kafka_storage_error, "log_dir": name}
        return {"results": [{**failed, "topics": []}]}
    return {"results": [{"log_dir": name, "topics": topics}]}


def _is_led(entry: Entry, index: int, leads: Callable[[int], bool]) -> bool:
    return 0 <= index < entry.topic.partitions and leads(entry.topic.lane(index))


async def _topic(entry: Entry, indexes: list[int]) -> Fields:
    rows: list[Fields] = []
    for at in range(0, len(indexes), AT_ONCE):
        if is_spent():
            raise UnavailableError(SPENT)
        some = await asyncio.gather(
            *(_partition(entry, index) for index in indexes[at : at + AT_ONCE])
        )
        rows += [row for row in some if row is not None]
    return {"name": entry.topic.name, "partitions": rows}


async def _partition(entry: Entry, index: int) -> Fields | None:
    partition = entry.partition(index)
    if partition is None:
        return None
    try:
        size = await partition.size_bytes()
    except NotFoundError:
        return None  # It was deleted meanwhile.
    return {
        "partition_index": index,
        "partition_size": size,
        "offset_lag": 0,
        "is_future_key": False,
    }

"""DescribeProducers (key 61, version 0).

Behaviour
    The idempotent producers that a partition knows: those of the last day. Their last time is when
    their last batch was stored. Without transactions none is open. A partition that is named twice
    is answered once.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.slices import Looks
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["describe_producers"]

PRODUCERS_MAX = 10_000
"""In one answer; a lane keeps more than that."""


async def describe_producers(
    services: Services, call: Call, request: DescribeProducersRequest
) -> Fields:
    """Say who writes to partitions."""
    looks = Looks()
    wanted: dict[str, dict[int, None]] = {}
    async for topic in in_turns(request.topics):
        wanted.setdefault(str(topic.name), {}).update(dict.fromkeys(topic.partition_indexes))
    topics: list[Fields] = []
    for name, indexes in wanted.items():
        rows = [await _producers(services, looks, name, at) async for at in in_turns(indexes)]
        topics.append({"name": name, "partitions": rows})
    return {"topics": topics}


async def _producers(services: Services, looks: Looks, name: str, index: int) -> Fields:
    row: Fields = {"partition_index": index, "active_producers": []}
    try:
        await services.catalog.topic(name)
        entry = services.catalog.known(name)
        partition = None if entry is None else entry.partition(index)
        if partition is None:
            return {**row, "error_code": ErrorCode.unknown_topic_or_partition}
        await looks.at(partition.lane)
        found = partition.producers()
    except LakelogError as error:
        return {**row, "error_code": read_code(error), "error_message": str(error)[:512]}
    return {
        **row,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": seen.epoch,
                "last_sequence": seen.kept[-1].last_sequence if seen.kept else -1,
                "last_timestamp": seen.seen_ms,
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
            for producer_id, seen in sorted(found.items())[:PRODUCERS_MAX]
        ],
    }

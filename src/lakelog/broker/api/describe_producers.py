"""DescribeProducers (key 61, version 0).

Behaviour
    The idempotent producers that a partition knows: those of the last day. Their last time is when
    their last batch was stored. Without transactions none is open.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["describe_producers"]

PRODUCERS_MAX = 10_000
"""In one answer; a lane keeps more than that."""


async def describe_producers(
    services: Services, call: Call, request: DescribeProducersRequest
) -> Fields:
    """Say who writes to partitions."""
    topics: list[Fields] = []
    for topic in request.topics:
        name = str(topic.name)
        rows = [await _producers(services, name, index) for index in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": rows})
    return {"topics": topics}


async def _producers(services: Services, name: str, index: int) -> Fields:
    row: Fields = {"partition_index": index, "active_producers": []}
    try:
        await services.catalog.topic(name)
        entry = services.catalog.known(name)
        partition = None if entry is None else entry.partition(index)
        if partition is None:
            return {**row, "error_code": ErrorCode.unknown_topic_or_partition}
        found = await partition.producers()
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

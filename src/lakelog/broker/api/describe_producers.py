"""DescribeProducers (key 61, version 0).

Behaviour
    The idempotent producers that a partition knows: those of the last day. Their last time is when
    their last batch was stored. Without transactions none is open. A partition that is named twice
    is answered once.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import ask_partitions
from lakelog.broker.services import Call, Services
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["describe_producers"]

PRODUCERS_MAX = 10_000
"""In one answer; a lane keeps more than that."""


async def describe_producers(
    services: Services, call: Call, request: DescribeProducersRequest
) -> Fields:
    """Return the producers that write to partitions."""
    topics = (
        (str(topic.name), [(index, index) for index in topic.partition_indexes])
        for topic in request.topics
    )
    rows = await ask_partitions(services, call, Operation.READ, topics, _producers, _refused)
    return {"topics": rows}


def _refused(index: int, code: ErrorCode, message: str) -> Fields:
    return {
        "partition_index": index,
        "active_producers": [],
        "error_code": code,
        "error_message": message or None,
    }


async def _producers(partition: Partition, index: int) -> Fields:
    return {
        "partition_index": index,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": seen.epoch,
                "last_sequence": seen.kept[-1].last_sequence if seen.kept else -1,
                "last_timestamp": seen.seen_ms,
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
            for producer_id, seen in sorted(partition.producers().items())[:PRODUCERS_MAX]
        ],
    }

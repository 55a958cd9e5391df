"""DeleteRecords (key 21, versions 0 to 2).

Behaviour
    The log begins at the offset; -1 is its end. What lies before can no longer be read, and goes
    from the store when the log is kept. An offset before the start changes nothing. Behind the end
    is out of range. Of a topic that is only compacted nothing is deleted, as in Kafka. Of a
    partition that is named twice the last offset counts.
"""

from functools import partial

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import ask_partitions, partitions_by_index
from lakelog.broker.services import Call, Services
from lakelog.catalog import TopicConfigs
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["delete_records"]

TO_THE_END = -1


async def delete_records(services: Services, call: Call, request: DeleteRecordsRequest) -> Fields:
    """Let partitions begin later."""
    topics = partitions_by_index(request.topics)
    delete = partial(_delete, services)
    rows = await ask_partitions(services, call, Operation.DELETE, topics, delete, _row)
    return {"topics": rows}


async def _delete(services: Services, partition: Partition, one: DeleteRecordsPartition) -> Fields:
    if not TopicConfigs.of(partition.topic.configs).is_deleted:
        return _row(one, ErrorCode.policy_violation)
    bounds = await partition.bounds()
    offset = bounds.end if one.offset == TO_THE_END else int(one.offset)
    if not 0 <= offset <= bounds.end:
        return _row(one, ErrorCode.offset_out_of_range)
    if offset <= bounds.log_start:
        return _row(one, low=bounds.log_start)
    return _row(one, low=await partition.start_at(offset, services.ids().hex()))


def _row(
    one: DeleteRecordsPartition, code: ErrorCode = ErrorCode.none, _: str = "", *, low: int = -1
) -> Fields:
    return {"partition_index": one.partition_index, "low_watermark": low, "error_code": code}

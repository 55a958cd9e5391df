"""ListOffsets (key 2, versions 1 to 11).

Behaviour
    -1 latest, after a look at the lane that begins with the request, one for all that ask; -2 and
    -4 earliest; -3 the record with the highest timestamp; -5 the last offset in history, -6 the
    first that is not; else the first record that is not older than the timestamp. Batches are
    looked into beside the loop, and not at all if they say that they are older. A partition that
    is named twice is refused with INVALID_REQUEST, as by Kafka. What the store would be asked for
    beyond the operations of one request is LEADER_NOT_AVAILABLE: clients ask again.
"""

from functools import partial

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest

from lakelog.broker.budget import address_of
from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import ask_partitions, partitions_by_index
from lakelog.broker.scans import RunScan
from lakelog.broker.services import Call, Services
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["list_offsets"]

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6


async def list_offsets(services: Services, call: Call, request: ListOffsetsRequest) -> Fields:
    """Say where partitions begin and end, and what was written when."""
    run_scan = partial(services.scans.run, address=address_of(call.client_host))
    rows = await ask_partitions(
        services,
        call,
        Operation.DESCRIBE,
        partitions_by_index(request.topics),
        partial(_ask, run_scan),
        _row,
        named_twice=ErrorCode.invalid_request,
    )
    return {"topics": rows}


async def _ask(run_scan: RunScan, partition: Partition, one: ListOffsetsPartition) -> Fields:
    if one.timestamp == LATEST:
        return _row(one, offset=await partition.latest())
    if one.timestamp >= 0:
        found = await partition.find(one.timestamp, run_scan)
    elif one.timestamp == NEWEST:
        found = await partition.find_newest(run_scan)
    elif one.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _row(one, offset=(await partition.bounds()).log_start)
    elif one.timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        last = one.timestamp == LATEST_TIERED
        return _row(one, offset=await partition.sealed_end() - last)
    else:
        return _row(one, ErrorCode.invalid_request)
    if found is None:
        return _row(one)
    return _row(one, offset=found.offset, timestamp=found.timestamp)


def _row(
    one: ListOffsetsPartition,
    code: ErrorCode = ErrorCode.none,
    _: str = "",
    *,
    offset: int = -1,
    timestamp: int = -1,
) -> Fields:
    return {
        "partition_index": one.partition_index,
        "error_code": code,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": -1,
    }

"""CreatePartitions (key 37, versions 0 to 3).

Behaviour
    A topic may only grow. Assignments are checked for their number and not followed: any broker
    may serve any partition.
"""

from functools import partial

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.errors import ErrorCode

from lakelog.broker.api.create_topics import PARTITIONS_MAX
from lakelog.broker.meters import QUOTA_EXCEEDED, take_mutations
from lakelog.broker.request_items import change_each
from lakelog.broker.services import Call, Services
from lakelog.errors import ConflictError
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["create_partitions"]

STRICT_FROM = 3
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def create_partitions(
    services: Services, call: Call, request: CreatePartitionsRequest
) -> Fields:
    """Let topics have more partitions."""
    rows = await change_each(
        request.topics,
        lambda topic: str(topic.name),
        partial(_grow, services, call, validate_only=request.validate_only),
        _row,
        named_twice="Duplicate topic name.",
        codes=((ConflictError, ErrorCode.invalid_partitions),),
    )
    return {"results": rows}


async def _grow(
    services: Services, call: Call, wanted: CreatePartitionsTopic, *, validate_only: bool
) -> Fields:
    name, count = str(wanted.name), int(wanted.count)
    if not call.may_topic(Operation.ALTER, name):
        return _row(wanted, ErrorCode.topic_authorization_failed)
    topic = await services.catalog.topic(name)
    if topic is None:
        return _row(wanted, ErrorCode.unknown_topic_or_partition)
    more = count - topic.partitions
    if more <= 0:
        return _row(wanted, ErrorCode.invalid_partitions, _no_more(name, topic.partitions, count))
    if count > PARTITIONS_MAX:
        what = f"{count} partitions: use at most {PARTITIONS_MAX}"
        return _row(wanted, ErrorCode.invalid_partitions, what)
    if wanted.assignments is not None and len(wanted.assignments) != more:
        what = (
            f"{more} more partitions, and {len(wanted.assignments)} assignments: give one for each"
        )
        return _row(wanted, ErrorCode.invalid_replica_assignment, what)
    flaw = services.growth.flaw(topics=0, partitions=more)
    if flaw is not None:
        return _row(wanted, *flaw)
    if not validate_only:
        if not take_mutations(more, is_strict=call.version >= STRICT_FROM):
            return _row(wanted, ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
        await services.catalog.grow(topic, count)
    return _row(wanted)


def _row(
    wanted: CreatePartitionsTopic, code: ErrorCode = ErrorCode.none, message: str = ""
) -> Fields:
    return {"name": wanted.name, "error_code": code, "error_message": message or None}


def _no_more(name: str, now: int, count: int) -> str:
    if now == count:
        return f"Topic already has {now} partition(s)."
    return f"The topic {name} currently has {now} partition(s); {count} would not be an increase."

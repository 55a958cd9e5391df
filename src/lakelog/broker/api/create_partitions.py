"""CreatePartitions (key 37, versions 0 to 3).

Behaviour
    A topic may only grow. Assignments are checked for their number and not followed: any broker
    may serve any partition.
"""

from collections import Counter

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.api.create_topics import PARTITIONS_MAX
from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.errors import ConflictError, LakelogError
from lakelog.wire import Fields

__all__ = ["create_partitions"]


async def create_partitions(
    services: Services, call: Call, request: CreatePartitionsRequest
) -> Fields:
    """Let topics have more partitions."""
    names = Counter(str(topic.name) for topic in request.topics)
    rows: list[Fields] = []
    async for topic in in_turns(request.topics):
        code, message = ErrorCode.invalid_request, "Duplicate topic name."
        if is_spent():
            code, message = ErrorCode.policy_violation, SPENT
        elif names[str(topic.name)] == 1:
            code, message = await _grow(services, topic, validate_only=request.validate_only)
        rows.append(
            {"name": topic.name, "error_code": code, "error_message": message[:512] or None}
        )
    return {"results": rows}


async def _grow(
    services: Services, wanted: CreatePartitionsTopic, *, validate_only: bool
) -> tuple[ErrorCode, str]:
    name, count = str(wanted.name), int(wanted.count)
    try:
        topic = await services.catalog.topic(name)
        if topic is None:
            return ErrorCode.unknown_topic_or_partition, ""
        more = count - topic.partitions
        if more <= 0:
            return ErrorCode.invalid_partitions, _no_more(name, topic.partitions, count)
        if count > PARTITIONS_MAX:
            return ErrorCode.invalid_partitions, f"use at most {PARTITIONS_MAX} partitions"
        if wanted.assignments is not None and len(wanted.assignments) != more:
            what = f"{more} more partitions, and {len(wanted.assignments)} assignments"
            return ErrorCode.invalid_replica_assignment, what
        flaw = services.growth.flaw(topics=0, partitions=more)
        if flaw is not None:
            return flaw
        if not validate_only:
            await services.catalog.grow(topic, count)
    except ConflictError as error:
        return ErrorCode.invalid_partitions, str(error)
    except LakelogError as error:
        return read_code(error), str(error)
    return ErrorCode.none, ""


def _no_more(name: str, now: int, count: int) -> str:
    if now == count:
        return f"Topic already has {now} partition(s)."
    return f"The topic {name} currently has {now} partition(s); {count} would not be an increase."

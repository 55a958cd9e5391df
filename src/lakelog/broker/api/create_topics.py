"""CreateTopics (key 19, versions 2 to 7).

Behaviour
    Configs are checked by Kafka's names and rules; ``validate_only`` checks and makes nothing.
    Any replication factor is taken, and any assignment that numbers partitions from 0: copies are
    the store's business, and scripts that say 3 should not have to change.
"""

from collections import Counter
from typing import Any

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.catalog import check_configs, describe_configs
from lakelog.errors import ConflictError, InvalidInputError, LakelogError
from lakelog.names import is_topic_name
from lakelog.wire import Fields

__all__ = ["create_topics"]

PARTITIONS_MAX = 10_000
"""In one request of one topic."""


async def create_topics(services: Services, call: Call, request: CreateTopicsRequest) -> Fields:
    """Make topics."""
    names = Counter(str(topic.name) for topic in request.topics)
    rows: list[Fields] = []
    async for topic in in_turns(request.topics):
        if names[str(topic.name)] > 1:
            what = "it is named twice in one request"
            rows.append(_refused(topic, ErrorCode.invalid_request, what))
        elif is_spent():
            rows.append(_refused(topic, ErrorCode.policy_violation, SPENT))
        else:
            rows.append(await _create(services, topic, validate_only=request.validate_only))
    return {"topics": rows}


async def _create(services: Services, topic: CreatableTopic, *, validate_only: bool) -> Fields:
    name = str(topic.name)
    if not is_topic_name(name):
        what = "use 1 to 249 of a-z A-Z 0-9 . _ -"
        return _refused(topic, ErrorCode.invalid_topic_exception, what)
    partitions, flaw = _partitions(services, topic)
    if flaw is not None:
        return _refused(topic, *flaw)
    try:
        given = {str(one.name): one.value for one in topic.configs}
        configs = check_configs({**services.settings.topic_defaults, **given})
    except InvalidInputError as error:
        return _refused(topic, ErrorCode.invalid_config, str(error))
    try:
        if validate_only and await services.catalog.topic(name) is not None:
            return _refused(topic, ErrorCode.topic_already_exists, f"there is a topic {name}")
        if services.catalog.known(name) is None:
            flaw = services.growth.flaw(topics=1, partitions=partitions)
            if flaw is not None:
                return _refused(topic, *flaw)
        if validate_only:
            return _made(topic, bytes(16), partitions, configs)
        made = await services.catalog.create(name, partitions, configs)
    except ConflictError as error:
        return _refused(topic, ErrorCode.topic_already_exists, str(error))
    except InvalidInputError as error:
        return _refused(topic, ErrorCode.invalid_partitions, str(error))
    except LakelogError as error:
        return _refused(topic, read_code(error), str(error))
    return _made(topic, made.id, partitions, configs)


def _partitions(
    services: Services, topic: CreatableTopic
) -> tuple[int, tuple[ErrorCode, str] | None]:
    if topic.assignments:
        numbers = sorted(int(one.partition_index) for one in topic.assignments)
        if numbers != list(range(len(numbers))) or topic.num_partitions != -1:
            what = "number partitions from 0, and say -1 for their number"
            return 0, (ErrorCode.invalid_replica_assignment, what)
        return _counted(len(numbers))
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        return 0, (ErrorCode.invalid_replication_factor, "use 1 or more, or -1")
    count = int(topic.num_partitions)
    if count == -1:
        return services.settings.partitions, None
    return _counted(count)


def _counted(count: int) -> tuple[int, tuple[ErrorCode, str] | None]:
    if not 1 <= count <= PARTITIONS_MAX:
        return 0, (ErrorCode.invalid_partitions, f"{count} partitions: use 1 to {PARTITIONS_MAX}")
    return count, None


def _refused(topic: CreatableTopic, code: ErrorCode, message: str) -> Fields:
    return {
        "name": topic.name,
        "topic_id": None,
        "error_code": code,
        "error_message": message[:512],
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _made(topic: CreatableTopic, id_: bytes, partitions: int, configs: dict[str, str]) -> Fields:
    from uuid import UUID

    described: list[dict[str, Any]] = [
        {
            "name": row.name,
            "value": row.value,
            "read_only": row.is_read_only,
            "config_source": int(row.source),
            "is_sensitive": row.is_sensitive,
        }
        for row in describe_configs(configs)
    ]
    return {
        "name": topic.name,
        "topic_id": UUID(bytes=id_),
        "error_message": None,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": described,
    }

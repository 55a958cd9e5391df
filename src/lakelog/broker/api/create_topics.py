"""CreateTopics (key 19, versions 2 to 7).

Behaviour
    Configs are checked by Kafka's names and rules; ``validate_only`` checks and makes nothing.
    Any replication factor is taken, and any assignment that numbers partitions from 0: copies are
    the store's business, and scripts that say 3 should not have to change.
"""

from functools import partial
from uuid import UUID

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.meters import QUOTA_EXCEEDED, take_mutations
from lakelog.broker.request_items import change_each
from lakelog.broker.services import Call, Services
from lakelog.catalog import check_configs, describe_configs
from lakelog.errors import ConflictError, InvalidInputError
from lakelog.names import is_topic_name
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["create_topics"]

PARTITIONS_MAX = 10_000
"""In one request of one topic."""

STRICT_FROM = 6
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def create_topics(services: Services, call: Call, request: CreateTopicsRequest) -> Fields:
    """Make topics."""
    rows = await change_each(
        request.topics,
        lambda topic: str(topic.name),
        partial(_create, services, call, validate_only=request.validate_only),
        _refused,
        named_twice="the topic is named twice in one request: name it once",
        codes=(
            (ConflictError, ErrorCode.topic_already_exists),
            (InvalidInputError, ErrorCode.invalid_partitions),
        ),
    )
    return {"topics": rows}


async def _create(
    services: Services, call: Call, topic: CreatableTopic, *, validate_only: bool
) -> Fields:
    name = str(topic.name)
    may_all = call.quietly.may_cluster(Operation.CREATE)
    if not may_all and not call.may_topic(Operation.CREATE, name):
        return _refused(topic, ErrorCode.topic_authorization_failed, "Authorization failed.")
    if not is_topic_name(name):
        what = "not a name of a topic: use 1 to 249 of a-z A-Z 0-9 . _ -"
        return _refused(topic, ErrorCode.invalid_topic_exception, what)
    partitions = _partitions(services, topic)
    if not isinstance(partitions, int):
        return _refused(topic, *partitions)
    try:
        given = {str(one.name): one.value for one in topic.configs}
        configs = check_configs({**services.settings.topic_defaults, **given})
    except InvalidInputError as error:
        return _refused(topic, ErrorCode.invalid_config, str(error)[:512])
    if validate_only and await services.catalog.topic(name) is not None:
        return _refused(topic, ErrorCode.topic_already_exists, f"there is a topic {name}")
    if services.catalog.known(name) is None:
        flaw = services.growth.flaw(topics=1, partitions=partitions)
        if flaw is not None:
            return _refused(topic, *flaw)
    topic_id = bytes(16)
    if not validate_only:
        if not take_mutations(partitions, is_strict=call.version >= STRICT_FROM):
            return _refused(topic, ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
        topic_id = (await services.catalog.create(name, partitions, configs)).id
    made: Fields = {
        "name": topic.name,
        "topic_id": UUID(bytes=topic_id),
        "error_message": None,
    }
    if not call.quietly.may_topic(Operation.DESCRIBE_CONFIGS, name):
        code = ErrorCode.topic_authorization_failed
        nothing = {"num_partitions": -1, "replication_factor": -1, "configs": []}
        return {**made, **nothing, "topic_config_error_code": code}
    return {
        **made,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "read_only": row.is_read_only,
                "config_source": int(row.source),
                "is_sensitive": row.is_sensitive,
            }
            for row in describe_configs(configs)
        ],
    }


def _partitions(services: Services, topic: CreatableTopic) -> int | tuple[ErrorCode, str]:
    """Return how many partitions a topic gets, or what is wrong with what is asked for."""
    count = int(topic.num_partitions)
    if topic.assignments:
        numbers = sorted(int(one.partition_index) for one in topic.assignments)
        if numbers != list(range(len(numbers))) or count != -1:
            what = "assignments number partitions from 0, and num_partitions is -1 beside them"
            return ErrorCode.invalid_replica_assignment, what
        count = len(numbers)
    elif topic.replication_factor == 0 or topic.replication_factor < -1:
        return ErrorCode.invalid_replication_factor, "replication factor: use 1 or more, or -1"
    elif count == -1:
        return services.settings.partitions
    if not 1 <= count <= PARTITIONS_MAX:
        return ErrorCode.invalid_partitions, f"{count} partitions: use 1 to {PARTITIONS_MAX}"
    return count


def _refused(topic: CreatableTopic, code: ErrorCode, message: str) -> Fields:
    return {
        "name": topic.name,
        "topic_id": None,
        "error_code": code,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }

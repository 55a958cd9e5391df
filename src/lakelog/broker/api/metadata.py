"""Metadata (key 3, versions 0 to 13).

Behaviour
    Topics that are named and not known are asked for in the store, and made if the client and the
    broker allow it: so many for each request and in a second, the others LEADER_NOT_AVAILABLE. A
    topic that is named twice is answered once, as by Kafka. Partitions have one replica: copies are
    the store's business. The answer is put together of bytes that are kept for each topic.
"""

import asyncio
from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.errors import ConflictError, InvalidInputError, LakelogError
from lakelog.names import is_topic_name
from lakelog.wire import encode_metadata, encode_metadata_topic

__all__ = ["metadata"]

NO_ID = bytes(16)
AT_ONCE = 1_000
"""Partitions that are written without a break."""


async def metadata(services: Services, call: Call, request: MetadataRequest) -> bytes:
    """Say where brokers and partitions are."""
    version = call.version
    if request.topics is None or (version == 0 and not request.topics):
        topics = await _all(services, version)
    else:
        create = request.allow_auto_topic_creation and services.settings.auto_create_topics
        topics = await _named(services, version, request.topics, create=create)
    return encode_metadata(
        version,
        services.cluster.brokers(call.listener),
        topics,
        cluster_id=services.cluster.cluster_id,
        controller_id=services.cluster.node_id,
    )


async def _all(services: Services, version: int) -> list[bytes]:
    epochs = services.catalog.epochs()
    found: list[bytes] = []
    size = 0
    for entry in services.catalog.entries():
        found.append(entry.metadata(version, epochs))
        size += entry.topic.partitions
        if size >= AT_ONCE:
            size = 0
            await asyncio.sleep(0)  # Others want to go on, too.
    # Not to name them would be to say that they are not there.
    code = ErrorCode.kafka_storage_error
    missing = sorted(name for name in services.catalog.damaged if not services.catalog.known(name))
    return found + [
        encode_metadata_topic(version, name=name, topic_id=NO_ID, error=code) for name in missing
    ]


async def _named(
    services: Services, version: int, wanted: Sequence[MetadataRequestTopic], *, create: bool
) -> list[bytes]:
    found: list[bytes] = []
    epochs = services.catalog.epochs()
    left = services.settings.limits.auto_created_per_s if create else 0
    async for name, topic_id in in_turns(dict.fromkeys(map(_key, wanted))):
        if name is None:
            code, entry = ErrorCode.unknown_topic_id, None
            try:
                entry = await services.catalog.entry_by_id(topic_id)
            except LakelogError as error:
                code = read_code(error)
        else:
            code = await _find(services, name)
            if code is ErrorCode.unknown_topic_or_partition and create:
                code = await _make(services, name) if left else ErrorCode.leader_not_available
                left -= code is ErrorCode.none
            entry = services.catalog.known(name) if code is ErrorCode.none else None
        if entry is not None:
            found.append(entry.metadata(version, epochs))
        else:
            found.append(encode_metadata_topic(version, name=name, topic_id=topic_id, error=code))
    return found


def _key(one: MetadataRequestTopic) -> tuple[str | None, bytes]:
    """Return what a topic is asked for by: its name, else its id."""
    if one.name is not None:
        return str(one.name), NO_ID
    return None, one.topic_id.bytes if one.topic_id is not None else NO_ID


async def _find(services: Services, name: str) -> ErrorCode:
    """Know a topic."""
    if services.catalog.known(name) is not None:
        return ErrorCode.none
    if not is_topic_name(name):
        return ErrorCode.invalid_topic_exception
    try:
        topic = await services.catalog.topic(name)
    except LakelogError as error:
        return read_code(error)
    return ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode.none


async def _make(services: Services, name: str) -> ErrorCode:
    """Make a topic because it was named."""
    settings = services.settings
    if services.growth.flaw(topics=1, partitions=settings.partitions) is not None:
        return ErrorCode.unknown_topic_or_partition
    if services.growth.is_early():
        return ErrorCode.leader_not_available
    try:
        await services.catalog.create(name, settings.partitions, settings.topic_defaults)
    except ConflictError:
        return ErrorCode.leader_not_available  # Somebody else has just made it: ask again.
    except InvalidInputError:
        return ErrorCode.invalid_topic_exception
    except LakelogError as error:
        return read_code(error)
    return ErrorCode.none

"""Metadata (key 3, versions 0 to 13).

Behaviour
    Topics that are named and not known are asked for in the store, and made if the client and the
    broker allow it. Partitions have one replica: copies are the store's business. The answer is
    put together of bytes that are kept for each topic.
"""

import asyncio
from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
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
    for one in wanted:
        if one.name is None:
            topic_id = one.topic_id.bytes if one.topic_id is not None else NO_ID
            code, entry = ErrorCode.unknown_topic_id, None
            try:
                entry = await services.catalog.entry_by_id(topic_id)
            except LakelogError as error:
                code = read_code(error)
            if entry is None:
                found.append(
                    encode_metadata_topic(version, name=None, topic_id=topic_id, error=code)
                )
            else:
                found.append(entry.metadata(version, epochs))
            continue
        name = str(one.name)
        code = await _find(services, name, create=create)
        entry = services.catalog.known(name)
        if entry is not None and code is ErrorCode.none:
            found.append(entry.metadata(version, epochs))
        else:
            found.append(encode_metadata_topic(version, name=name, topic_id=NO_ID, error=code))
    return found


async def _find(services: Services, name: str, *, create: bool) -> ErrorCode:
    """Know a topic, or make it."""
    if services.catalog.known(name) is not None:
        return ErrorCode.none
    if not is_topic_name(name):
        return ErrorCode.invalid_topic_exception
    try:
        if await services.catalog.topic(name) is not None:
            return ErrorCode.none
        if not create:
            return ErrorCode.unknown_topic_or_partition
        settings = services.settings
        await services.catalog.create(name, settings.partitions, settings.topic_defaults)
    except ConflictError:
        return ErrorCode.leader_not_available  # Somebody else has just made it: ask again.
    except InvalidInputError:
        return ErrorCode.invalid_topic_exception
    except LakelogError as error:
        return read_code(error)
    return ErrorCode.none

"""Metadata (key 3, versions 0 to 13).

Behaviour
    Topics that are named and not known are asked for in the store, and made if the client and the
    broker allow it: so many for each request and in a second, the others LEADER_NOT_AVAILABLE. A
    topic that is named twice is answered once, as by Kafka. The replicas of a partition are its
    leader and the brokers that read it for other racks: copies are the store's business. A
    partition that nobody leads now, by a look at the members that began with the request, is
    LEADER_NOT_AVAILABLE. The answer is put together of bytes that are kept for each topic. Of all
    topics those are told that the client may describe. Another one that it names is
    TOPIC_AUTHORIZATION_FAILED, without a look whether it is there; and so is one that would be made
    and that it may not create.

Versions
    8 to 10 can tell what the client may do with the cluster. They do if there is an authorizer,
    also if nobody asks: what asks for it is not in newer versions.
"""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from lakelog.broker.codes import Codes, read_code
from lakelog.broker.meters import take_mutations
from lakelog.broker.request_items import find_topic
from lakelog.broker.services import Call, Services
from lakelog.broker.topic_entry import Entry, LaneLeaders
from lakelog.broker.turns import in_turns
from lakelog.errors import ConflictError, InvalidInputError, LakelogError
from lakelog.security import CLUSTER_NAME, Operation, ResourceType
from lakelog.wire import encode_metadata, encode_metadata_topic, with_operations

__all__ = ["metadata"]

NO_ID = bytes(16)
_DENIED = ErrorCode.topic_authorization_failed

_MAKING: Codes = (
    (ConflictError, ErrorCode.leader_not_available),  # It has just been made elsewhere: ask again.
    (InvalidInputError, ErrorCode.invalid_topic_exception),
)


async def metadata(services: Services, call: Call, request: MetadataRequest) -> bytes:
    """Say where brokers and partitions are."""
    version, cluster = call.version, services.cluster
    leaders = await cluster.known_lane_leaders()
    # Members may change while topics are looked for: whoever is named as a leader is listed.
    brokers = {one.node_id: one for one in cluster.brokers(call.listener)}
    if request.topics is None or (version == 0 and not request.topics):
        topics = await _all(services, call, request, leaders)
    else:
        create = request.allow_auto_topic_creation and services.settings.auto_create_topics
        topics = await _named(services, call, request, leaders, create=create)
    brokers |= {one.node_id: one for one in cluster.brokers(call.listener)}
    return encode_metadata(
        version,
        [brokers[node] for node in sorted(brokers)],
        topics,
        cluster_id=services.cluster.cluster_id,
        controller_id=services.cluster.node_id,
        operations=_cluster_operations(call),
    )


def _cluster_operations(call: Call) -> int | None:
    if call.rules is None:
        return None
    may_know = call.quietly.may_cluster(Operation.DESCRIBE)
    return call.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may_know else 0


def _told(call: Call, request: MetadataRequest, name: str, topic: bytes) -> bytes:
    """Return a topic with what the client may do with it, if it asks."""
    if not request.include_topic_authorized_operations:
        return topic
    return with_operations(call.version, topic, call.operations(ResourceType.TOPIC, name))


async def _all(
    services: Services, call: Call, request: MetadataRequest, leaders: LaneLeaders
) -> list[bytes]:
    version, entries = call.version, in_turns(services.catalog.entries())
    quietly = call.quietly
    found = [
        _told(call, request, entry.topic.name, entry.metadata(version, leaders))
        async for entry in entries
        if quietly.may_topic(Operation.DESCRIBE, entry.topic.name)
    ]
    # Not to name them would be to say that they are not there.
    code = ErrorCode.kafka_storage_error
    missing = sorted(
        name
        for name in services.catalog.damaged
        if not services.catalog.known(name) and quietly.may_topic(Operation.DESCRIBE, name)
    )
    return found + [
        encode_metadata_topic(version, name=name, topic_id=NO_ID, error=code) for name in missing
    ]


async def _named(
    services: Services,
    call: Call,
    request: MetadataRequest,
    leaders: LaneLeaders,
    *,
    create: bool,
) -> list[bytes]:
    version, rows = call.version, list[bytes]()
    wanted: Sequence[MetadataRequestTopic] = request.topics or ()
    left = services.settings.limits.auto_created_per_s if create else 0
    async for name, topic_id in in_turns(dict.fromkeys(map(_key, wanted))):
        found: Entry | ErrorCode = _DENIED
        if name is None or call.may_topic(Operation.DESCRIBE, name):
            given = (name or "", topic_id if name is None else b"")
            found = await find_topic(services, call, *given)
        if name is not None and found is ErrorCode.unknown_topic_or_partition and create:
            if not _may_create(call, name):
                found = _DENIED
            else:
                found = (
                    await _make(services, call, name) if left else ErrorCode.leader_not_available
                )
                left -= isinstance(found, Entry)
        if isinstance(found, Entry) and not call.may_topic(Operation.DESCRIBE, found.topic.name):
            found = _DENIED
        if isinstance(found, Entry):
            row = found.metadata(version, leaders)
            rows.append(_told(call, request, found.topic.name, row))
        else:
            row = encode_metadata_topic(version, name=name, topic_id=topic_id, error=found)
            is_told = name is not None and found is not _DENIED
            rows.append(_told(call, request, name or "", row) if is_told else row)
    return rows


def _may_create(call: Call, name: str) -> bool:
    return call.quietly.may_cluster(Operation.CREATE) or call.may_topic(Operation.CREATE, name)


def _key(one: MetadataRequestTopic) -> tuple[str | None, bytes]:
    """Return what a topic is asked for by: its name, else its id."""
    if one.name is not None:
        return str(one.name), NO_ID
    return None, one.topic_id.bytes if one.topic_id is not None else NO_ID


async def _make(services: Services, call: Call, name: str) -> Entry | ErrorCode:
    """Make a topic because it was named."""
    settings = services.settings
    if services.growth.flaw(topics=1, partitions=settings.partitions) is not None:
        return ErrorCode.unknown_topic_or_partition
    if services.growth.is_early():
        return ErrorCode.leader_not_available
    take_mutations(settings.partitions, is_strict=False)
    try:
        await services.catalog.create(name, settings.partitions, settings.topic_defaults)
    except LakelogError as error:
        return read_code(error, _MAKING)
    services.audit.created(call, name)
    return services.catalog.known(name) or ErrorCode.leader_not_available

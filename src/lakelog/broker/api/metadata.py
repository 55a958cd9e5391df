"""Metadata (key 3, versions 0 to 13).

Behaviour
    Topics that are named and not known are asked for in the store, and made if the client and the
    broker allow it: so many for each request and in a second, the others LEADER_NOT_AVAILABLE. A
    topic that is named twice is answered once, as by Kafka. The replicas of a partition are its
    leader and the brokers that read it for other racks: copies are the store's business. A
    partition that nobody leads now, by a look at the members that began with the request, is
    LEADER_NOT_AVAILABLE. The answer is put together of bytes that are kept for each topic.
"""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from lakelog.broker.codes import Codes, read_code
from lakelog.broker.request_items import find_topic
from lakelog.broker.services import Call, Services
from lakelog.broker.topic_entry import Entry, LaneLeaders
from lakelog.broker.turns import in_turns
from lakelog.errors import ConflictError, InvalidInputError, LakelogError
from lakelog.wire import encode_metadata, encode_metadata_topic

__all__ = ["metadata"]

NO_ID = bytes(16)

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
        topics = await _all(services, version, leaders)
    else:
        create = request.allow_auto_topic_creation and services.settings.auto_create_topics
        topics = await _named(services, version, request.topics, leaders, create=create)
    brokers |= {one.node_id: one for one in cluster.brokers(call.listener)}
    return encode_metadata(
        version,
        [brokers[node] for node in sorted(brokers)],
        topics,
        cluster_id=services.cluster.cluster_id,
        controller_id=services.cluster.node_id,
    )


async def _all(services: Services, version: int, leaders: LaneLeaders) -> list[bytes]:
    entries = in_turns(services.catalog.entries())
    found = [entry.metadata(version, leaders) async for entry in entries]
    # Not to name them would be to say that they are not there.
    code = ErrorCode.kafka_storage_error
    missing = sorted(name for name in services.catalog.damaged if not services.catalog.known(name))
    return found + [
        encode_metadata_topic(version, name=name, topic_id=NO_ID, error=code) for name in missing
    ]


async def _named(
    services: Services,
    version: int,
    wanted: Sequence[MetadataRequestTopic],
    leaders: LaneLeaders,
    *,
    create: bool,
) -> list[bytes]:
    rows: list[bytes] = []
    left = services.settings.limits.auto_created_per_s if create else 0
    async for name, topic_id in in_turns(dict.fromkeys(map(_key, wanted))):
        found = await find_topic(services, name or "", topic_id if name is None else b"")
        if name is not None and found is ErrorCode.unknown_topic_or_partition and create:
            found = await _make(services, name) if left else ErrorCode.leader_not_available
            left -= isinstance(found, Entry)
        rows.append(
            found.metadata(version, leaders)
            if isinstance(found, Entry)
            else encode_metadata_topic(version, name=name, topic_id=topic_id, error=found)
        )
    return rows


def _key(one: MetadataRequestTopic) -> tuple[str | None, bytes]:
    """Return what a topic is asked for by: its name, else its id."""
    if one.name is not None:
        return str(one.name), NO_ID
    return None, one.topic_id.bytes if one.topic_id is not None else NO_ID


async def _make(services: Services, name: str) -> Entry | ErrorCode:
    """Make a topic because it was named."""
    settings = services.settings
    if services.growth.flaw(topics=1, partitions=settings.partitions) is not None:
        return ErrorCode.unknown_topic_or_partition
    if services.growth.is_early():
        return ErrorCode.leader_not_available
    try:
        await services.catalog.create(name, settings.partitions, settings.topic_defaults)
    except LakelogError as error:
        return read_code(error, _MAKING)
    return services.catalog.known(name) or ErrorCode.leader_not_available

"""The table of Kafka's APIs that are here: what ApiVersions answers, and nothing else.

A request of a key or a version that is not in this table closes the connection, as in Kafka; only
ApiVersions itself is answered with the versions to use. Produce 0 to 2 are advertised and refused,
as Kafka 4 does it: some clients take a broker that does not name them for one that is too old. For
their sake SaslHandshake 0 is, too, after which logins came without headers until 2017.
What brokers ask of each other is not named.
"""

from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "ADVERTISED",
    "APIS",
    "ELEMENTS_MAX",
    "PARTITION_ELEMENTS_MAX",
    "PRODUCE_ELEMENTS_MAX",
    "Api",
    "ApiKey",
    "find_api",
]

ELEMENTS_MAX = 1 << 15
"""In all arrays of a request: each becomes an object that is much larger than its bytes."""

PARTITION_ELEMENTS_MAX = 1 << 16
"""The same, of requests that tools send for all partitions of a cluster at once."""

PRODUCE_ELEMENTS_MAX = 1 << 14
"""The same, of Produce, which is read on the loop and may be large."""


class ApiKey(IntEnum):
    """Kafka's numbers for what can be asked of a broker."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_HEARTBEAT = 63
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75


class Api(NamedTuple):
    """One API: its versions, and from which on its messages are flexible."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    note: str = ""
    elements_max: int = ELEMENTS_MAX
    """See ``ELEMENTS_MAX``."""


_TABLE = (
    Api(ApiKey.PRODUCE, "Produce", 3, 13, 9, "no transactions; 0 to 2 are advertised and refused"),
    Api(ApiKey.FETCH, "Fetch", 4, 18, 12, "sessions; topic ids from 13; followers are refused"),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6, "by time, earliest, latest, max timestamp"),
    Api(ApiKey.METADATA, "Metadata", 0, 13, 9),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 9, 8, "also outside of a group; topics by name"),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 9, 6, "topics by name"),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3, "groups only"),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6, "static members, cooperative rebalancing"),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 1, 1, 2, "SCRAM, OAUTHBEARER, PLAIN; 0 is refused"),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5, "any replication factor is taken"),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2, "a transactional id is refused"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2, "SECURITY_DISABLED without an authorizer"),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2, "SECURITY_DISABLED without an authorizer"),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2, "SECURITY_DISABLED without an authorizer"),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4, "topics and brokers"),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, "topics"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 4, 2, "bytes in the store"),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, "again, too (KIP-368)"),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1, "topics"),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, 1),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, "addresses, and no hosts"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 0, 0, "between brokers; not advertised"),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0, "uniform, range"),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
)

_OF_PARTITIONS = (
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
_ELEMENTS_MAX = {
    ApiKey.PRODUCE: PRODUCE_ELEMENTS_MAX,
    **dict.fromkeys(_OF_PARTITIONS, PARTITION_ELEMENTS_MAX),
}

APIS = {
    int(api.key): api._replace(elements_max=_ELEMENTS_MAX.get(api.key, ELEMENTS_MAX))
    for api in _TABLE
}

_FROM_ZERO = (ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE)

ADVERTISED = tuple(
    (int(api.key), 0 if api.key in _FROM_ZERO else api.min_version, api.max_version)
    for api in _TABLE
    if api.key is not ApiKey.BROKER_HEARTBEAT
)
"""Key, lowest and highest version, as ApiVersions answers."""


def find_api(key: int, version: int) -> Api | None:
    """Return the API that a request is for; None: it is not here, or not in this version."""
    api = APIS.get(key)
    return api if api and api.min_version <= version <= api.max_version else None

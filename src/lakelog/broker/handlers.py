"""Which function answers which API, and which of them change something.

Produce and Fetch are not here: they are answered without a task of their own (``dispatch``).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from lakelog.broker.api.alter_configs import incremental_alter_configs, replace_configs
from lakelog.broker.api.alter_user_scram_credentials import alter_user_scram_credentials
from lakelog.broker.api.api_versions import api_versions
from lakelog.broker.api.broker_heartbeat import broker_heartbeat
from lakelog.broker.api.client_quotas import alter_client_quotas, describe_client_quotas
from lakelog.broker.api.consumer_group_describe import consumer_group_describe
from lakelog.broker.api.consumer_group_heartbeat import consumer_group_heartbeat
from lakelog.broker.api.create_acls import create_acls
from lakelog.broker.api.create_partitions import create_partitions
from lakelog.broker.api.create_topics import create_topics
from lakelog.broker.api.delete_acls import delete_acls
from lakelog.broker.api.delete_groups import delete_groups
from lakelog.broker.api.delete_records import delete_records
from lakelog.broker.api.delete_topics import delete_topics
from lakelog.broker.api.describe_acls import describe_acls
from lakelog.broker.api.describe_cluster import describe_cluster
from lakelog.broker.api.describe_configs import describe_broker_configs
from lakelog.broker.api.describe_groups import describe_groups
from lakelog.broker.api.describe_log_dirs import describe_log_dirs
from lakelog.broker.api.describe_producers import describe_producers
from lakelog.broker.api.describe_topic_partitions import describe_topic_partitions
from lakelog.broker.api.describe_user_scram_credentials import describe_user_scram_credentials
from lakelog.broker.api.find_coordinator import find_coordinator
from lakelog.broker.api.heartbeat import heartbeat
from lakelog.broker.api.init_producer_id import init_producer_id
from lakelog.broker.api.join_group import join_group
from lakelog.broker.api.leave_group import leave_group
from lakelog.broker.api.list_groups import list_groups
from lakelog.broker.api.list_offsets import list_offsets
from lakelog.broker.api.metadata import metadata
from lakelog.broker.api.offset_commit import offset_commit
from lakelog.broker.api.offset_delete import offset_delete
from lakelog.broker.api.offset_fetch import offset_fetch
from lakelog.broker.api.offset_for_leader_epoch import offset_for_leader_epoch
from lakelog.broker.api.sasl_authenticate import sasl_authenticate
from lakelog.broker.api.sasl_handshake import sasl_handshake
from lakelog.broker.api.sync_group import sync_group
from lakelog.broker.services import Call, Services
from lakelog.wire import ApiKey

__all__ = ["CHANGING", "HANDLERS", "Handler"]

Handler = Callable[[Services, Call, Any], Awaitable[Any]]

HANDLERS: dict[int, Handler] = {
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.SASL_HANDSHAKE: sasl_handshake,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.DESCRIBE_CONFIGS: describe_broker_configs,
    ApiKey.ALTER_CONFIGS: replace_configs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.BROKER_HEARTBEAT: broker_heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}

CHANGING = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_GROUPS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""The APIs by which a client changes something."""

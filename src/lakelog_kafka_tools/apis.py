"""The APIs that tools use, each as a line for its request and one for its response.

Versions are those that brokers since 2.1 have in common with the newest; the newest that both
sides know is taken. Fields that no tool looks at are here as well, since what stands behind them
must be found. The messages themselves are Kafka's (clients/src/main/resources/common/message), and
tests compare all of them with kio's, which are generated from there.
"""

from typing import NamedTuple

__all__ = ["Api"]


class Api(NamedTuple):
    """One API."""

    key: int
    name: str
    """As Java writes it in its messages."""
    newest: int
    flexible: int
    """The first version whose strings and arrays are compact."""
    request: str
    response: str
    oldest: int = 0


CONSUMER_ASSIGNMENT = "version:i16 topics:[name:str partitions:[i32]]"
"""How Java's consumers write what a member is assigned; what follows is the assignor's own."""

_NEVER = 1 << 15
_ENTITY = "entity:[entity_type:str entity_name:?str]"
_ASSIGNMENT = "{topic_partitions:[topic_id:uuid topic_name:str partitions:[i32]]}"
_COMMITTED = (
    "topics:[name:str partitions:[partition_index:i32 committed_offset:i64"
    " committed_leader_epoch:i32@5 metadata:?str error_code:i16]]"
)

API_VERSIONS = Api(
    18,
    "API_VERSIONS",
    3,
    3,
    "client_software_name:str@3 client_software_version:str@3",
    "error_code:i16 api_keys:[api_key:i16 min_version:i16 max_version:i16] throttle_time_ms:i32@1",
)
METADATA = Api(
    3,
    "METADATA",
    12,
    9,
    "topics:?[topic_id:uuid@10 name:?str] allow_auto_topic_creation:bool@4"
    " include_cluster_authorized_operations:bool@8-10 include_topic_authorized_operations:bool@8",
    "throttle_time_ms:i32@3 brokers:[node_id:i32 host:str port:i32 rack:?str] cluster_id:?str@2"
    " controller_id:i32 topics:[error_code:i16 name:?str topic_id:uuid@10 is_internal:bool"
    " partitions:[error_code:i16 partition_index:i32 leader_id:i32 leader_epoch:i32@7"
    " replica_nodes:[i32] isr_nodes:[i32] offline_replicas:[i32]@5]"
    " topic_authorized_operations:i32@8] cluster_authorized_operations:i32@8-10",
    oldest=1,
)
DESCRIBE_TOPIC_PARTITIONS = Api(
    75,
    "DESCRIBE_TOPIC_PARTITIONS",
    0,
    0,
    "topics:[name:str] response_partition_limit:i32 cursor:?{topic_name:str partition_index:i32}",
    "throttle_time_ms:i32 topics:[error_code:i16 name:?str topic_id:uuid is_internal:bool"
    " partitions:[error_code:i16 partition_index:i32 leader_id:i32 leader_epoch:i32"
    " replica_nodes:[i32] isr_nodes:[i32] eligible_leader_replicas:?[i32] last_known_elr:?[i32]"
    " offline_replicas:[i32]] topic_authorized_operations:i32]"
    " next_cursor:?{topic_name:str partition_index:i32}",
)
LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    "LIST_PARTITION_REASSIGNMENTS",
    0,
    0,
    "timeout_ms:i32 topics:?[name:str partition_indexes:[i32]]",
    "throttle_time_ms:i32 error_code:i16 error_message:?str topics:[name:str partitions:["
    "partition_index:i32 replicas:[i32] adding_replicas:[i32] removing_replicas:[i32]]]",
)
CREATE_TOPICS = Api(
    19,
    "CREATE_TOPICS",
    7,
    5,
    "topics:[name:str num_partitions:i32 replication_factor:i16 assignments:[partition_index:i32"
    " broker_ids:[i32]] configs:[name:str value:?str]] timeout_ms:i32 validate_only:bool",
    "throttle_time_ms:i32 topics:[name:str topic_id:uuid@7 error_code:i16 error_message:?str"
    " num_partitions:i32@5 replication_factor:i16@5 configs:?[name:str value:?str read_only:bool"
    " config_source:i8 is_sensitive:bool]@5]",
    oldest=2,
)
DELETE_TOPICS = Api(
    20,
    "DELETE_TOPICS",
    6,
    4,
    "topics:[name:?str topic_id:uuid]@6 topic_names:[str]@0-5 timeout_ms:i32",
    "throttle_time_ms:i32 responses:[name:?str topic_id:uuid@6 error_code:i16"
    " error_message:?str@5]",
    oldest=1,
)
CREATE_PARTITIONS = Api(
    37,
    "CREATE_PARTITIONS",
    3,
    2,
    "topics:[name:str count:i32 assignments:?[broker_ids:[i32]]] timeout_ms:i32 validate_only:bool",
    "throttle_time_ms:i32 results:[name:str error_code:i16 error_message:?str]",
)
DESCRIBE_CONFIGS = Api(
    32,
    "DESCRIBE_CONFIGS",
    4,
    4,
    "resources:[resource_type:i8 resource_name:str configuration_keys:?[str]] include_synonyms:bool"
    " include_documentation:bool@3",
    "throttle_time_ms:i32 results:[error_code:i16 error_message:?str resource_type:i8"
    " resource_name:str configs:[name:str value:?str read_only:bool config_source:i8"
    " is_sensitive:bool synonyms:[name:str value:?str source:i8] config_type:i8@3"
    " documentation:?str@3]]",
    oldest=1,
)
INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "INCREMENTAL_ALTER_CONFIGS",
    1,
    1,
    "resources:[resource_type:i8 resource_name:str configs:[name:str config_operation:i8"
    " value:?str]] validate_only:bool",
    "throttle_time_ms:i32 responses:[error_code:i16 error_message:?str resource_type:i8"
    " resource_name:str]",
)
LIST_CONFIG_RESOURCES = Api(
    74,
    "LIST_CONFIG_RESOURCES",
    1,
    0,
    "resource_types:[i8]@1",
    "throttle_time_ms:i32 error_code:i16 config_resources:[resource_name:str resource_type:i8@1]",
)
LIST_GROUPS = Api(
    16,
    "LIST_GROUPS",
    5,
    3,
    "states_filter:[str]@4 types_filter:[str]@5",
    "throttle_time_ms:i32@1 error_code:i16 groups:[group_id:str protocol_type:str group_state:str@4"
    " group_type:str@5]",
)
DESCRIBE_GROUPS = Api(
    15,
    "DESCRIBE_GROUPS",
    6,
    5,
    "groups:[str] include_authorized_operations:bool@3",
    "throttle_time_ms:i32@1 groups:[error_code:i16 error_message:?str@6 group_id:str"
    " group_state:str protocol_type:str protocol_data:str members:[member_id:str"
    " group_instance_id:?str@4 client_id:str client_host:str member_metadata:bytes"
    " member_assignment:bytes] authorized_operations:i32@3]",
)
CONSUMER_GROUP_DESCRIBE = Api(
    69,
    "CONSUMER_GROUP_DESCRIBE",
    1,
    0,
    "group_ids:[str] include_authorized_operations:bool",
    "throttle_time_ms:i32 groups:[error_code:i16 error_message:?str group_id:str group_state:str"
    " group_epoch:i32 assignment_epoch:i32 assignor_name:str members:[member_id:str"
    " instance_id:?str rack_id:?str member_epoch:i32 client_id:str client_host:str"
    " subscribed_topic_names:[str] subscribed_topic_regex:?str"
    f" assignment:{_ASSIGNMENT} target_assignment:{_ASSIGNMENT} member_type:i8@1]"
    " authorized_operations:i32]",
)
DELETE_GROUPS = Api(
    42,
    "DELETE_GROUPS",
    2,
    2,
    "groups_names:[str]",
    "throttle_time_ms:i32 results:[group_id:str error_code:i16]",
)
FIND_COORDINATOR = Api(
    10,
    "FIND_COORDINATOR",
    3,
    3,
    "key:str key_type:i8@1",
    "throttle_time_ms:i32@1 error_code:i16 error_message:?str@1 node_id:i32 host:str port:i32",
)
OFFSET_FETCH = Api(
    9,
    "OFFSET_FETCH",
    8,
    6,
    "group_id:str@0-7 topics:?[name:str partition_indexes:[i32]]@0-7 groups:[group_id:str"
    " topics:?[name:str partition_indexes:[i32]]]@8 require_stable:bool@7",
    f"throttle_time_ms:i32@3 {_COMMITTED}@0-7 error_code:i16@2-7"
    f" groups:[group_id:str {_COMMITTED} error_code:i16]@8",
    oldest=2,
)
OFFSET_COMMIT = Api(
    8,
    "OFFSET_COMMIT",
    8,
    8,
    "group_id:str generation_id_or_member_epoch:i32 member_id:str group_instance_id:?str@7"
    " retention_time_ms:i64@2-4 topics:[name:str partitions:[partition_index:i32"
    " committed_offset:i64 committed_leader_epoch:i32@6 committed_metadata:?str]]",
    "throttle_time_ms:i32@3 topics:[name:str partitions:[partition_index:i32 error_code:i16]]",
    oldest=2,
)
OFFSET_DELETE = Api(
    47,
    "OFFSET_DELETE",
    0,
    _NEVER,
    "group_id:str topics:[name:str partitions:[partition_index:i32]]",
    "error_code:i16 throttle_time_ms:i32 topics:[name:str partitions:[partition_index:i32"
    " error_code:i16]]",
)
LIST_OFFSETS = Api(
    2,
    "LIST_OFFSETS",
    11,
    6,
    "replica_id:i32 isolation_level:i8@2 topics:[name:str partitions:[partition_index:i32"
    " current_leader_epoch:i32@4 timestamp:i64]] timeout_ms:i32@10",
    "throttle_time_ms:i32@2 topics:[name:str partitions:[partition_index:i32 error_code:i16"
    " timestamp:i64 offset:i64 leader_epoch:i32@4]]",
    oldest=1,
)
DESCRIBE_CLIENT_QUOTAS = Api(
    48,
    "DESCRIBE_CLIENT_QUOTAS",
    1,
    1,
    "components:[entity_type:str match_type:i8 match:?str] strict:bool",
    "throttle_time_ms:i32 error_code:i16 error_message:?str"
    f" entries:?[{_ENTITY} values:[key:str value:f64]]",
)
ALTER_CLIENT_QUOTAS = Api(
    49,
    "ALTER_CLIENT_QUOTAS",
    1,
    1,
    f"entries:[{_ENTITY} ops:[key:str value:f64 remove:bool]] validate_only:bool",
    f"throttle_time_ms:i32 entries:[error_code:i16 error_message:?str {_ENTITY}]",
)
DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    "DESCRIBE_USER_SCRAM_CREDENTIALS",
    0,
    0,
    "users:?[name:str]",
    "throttle_time_ms:i32 error_code:i16 error_message:?str results:[user:str error_code:i16"
    " error_message:?str credential_infos:[mechanism:i8 iterations:i32]]",
)
ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    "ALTER_USER_SCRAM_CREDENTIALS",
    0,
    0,
    "deletions:[name:str mechanism:i8] upsertions:[name:str mechanism:i8 iterations:i32 salt:bytes"
    " salted_password:bytes]",
    "throttle_time_ms:i32 results:[user:str error_code:i16 error_message:?str]",
)
SASL_HANDSHAKE = Api(
    17,
    "SASL_HANDSHAKE",
    1,
    _NEVER,
    "mechanism:str",
    "error_code:i16 mechanisms:[str]",
    oldest=1,
)
SASL_AUTHENTICATE = Api(
    36,
    "SASL_AUTHENTICATE",
    2,
    2,
    "auth_bytes:bytes",
    "error_code:i16 error_message:?str auth_bytes:bytes session_lifetime_ms:i64@1",
)
PRODUCE = Api(
    0,
    "PRODUCE",
    9,
    9,
    "transactional_id:?str acks:i16 timeout_ms:i32 topic_data:[name:str partition_data:[index:i32"
    " records:?bytes]]",
    "responses:[name:str partition_responses:[index:i32 error_code:i16 base_offset:i64"
    " log_append_time_ms:i64 log_start_offset:i64 record_errors:[batch_index:i32"
    " batch_index_error_message:?str] error_message:?str]] throttle_time_ms:i32",
    oldest=9,
)
FETCH = Api(
    1,
    "FETCH",
    12,
    12,
    "replica_id:i32 max_wait_ms:i32 min_bytes:i32 max_bytes:i32 isolation_level:i8 session_id:i32"
    " session_epoch:i32 topics:[topic:str partitions:[partition:i32 current_leader_epoch:i32"
    " fetch_offset:i64 last_fetched_epoch:i32 log_start_offset:i64 partition_max_bytes:i32]]"
    " forgotten_topics_data:[topic:str partitions:[i32]] rack_id:str",
    "throttle_time_ms:i32 error_code:i16 session_id:i32 responses:[topic:str partitions:["
    "partition_index:i32 error_code:i16 high_watermark:i64 last_stable_offset:i64"
    " log_start_offset:i64 aborted_transactions:?[producer_id:i64 first_offset:i64]"
    " preferred_read_replica:i32 records:?bytes]]",
    oldest=12,
)
_ACL = "principal:str host:str operation:i8 permission_type:i8"
_ACL_FILTER = (
    "resource_type_filter:i8 resource_name_filter:?str pattern_type_filter:i8 principal_filter:?str"
    " host_filter:?str operation:i8 permission_type:i8"
)
DESCRIBE_ACLS = Api(
    29,
    "DESCRIBE_ACLS",
    3,
    2,
    _ACL_FILTER,
    "throttle_time_ms:i32 error_code:i16 error_message:?str resources:[resource_type:i8"
    f" resource_name:str pattern_type:i8 acls:[{_ACL}]]",
    oldest=1,
)
CREATE_ACLS = Api(
    30,
    "CREATE_ACLS",
    3,
    2,
    f"creations:[resource_type:i8 resource_name:str resource_pattern_type:i8 {_ACL}]",
    "throttle_time_ms:i32 results:[error_code:i16 error_message:?str]",
    oldest=1,
)
DELETE_ACLS = Api(
    31,
    "DELETE_ACLS",
    3,
    2,
    f"filters:[{_ACL_FILTER}]",
    "throttle_time_ms:i32 filter_results:[error_code:i16 error_message:?str matching_acls:["
    "error_code:i16 error_message:?str resource_type:i8 resource_name:str pattern_type:i8"
    f" {_ACL}]]",
    oldest=1,
)

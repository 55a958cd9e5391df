"""The catalog: what a namespace is, which topics are in it, and who its users are.

namespace    made once, opened by everybody; until when a pipeline maintains it
topics       made, grown, configured, deleted; topic_cells: ids, incarnations, partitions, lanes
listing      all topics by one listing, and what is new
acls         who may do what: one cell, read, added to and taken from
users        what is kept of passwords
quotas       how much clients may use, in one cell
configs      topic configs by Kafka's names: checked, typed, changed; config_table: a row for each
"""

from lakelog.catalog.acls import AclCell, add_acls, decode_acls, read_acls, remove_acls
from lakelog.catalog.backups import Backup, decode_backup, encode_backup
from lakelog.catalog.config_table import TOPIC_CONFIGS, ConfigType, TopicConfig, parse_config
from lakelog.catalog.configs import (
    Change,
    ConfigSource,
    DescribedConfig,
    Operation,
    Synonym,
    TopicConfigs,
    alter_configs,
    check_configs,
    cleanup_policy,
    compression_codec,
    config_value,
    describe_configs,
)
from lakelog.catalog.listing import Marks, News, list_topics, news_of_topics
from lakelog.catalog.moves import (
    MetadataStores,
    check_fit,
    join_groups,
    move_groups,
    restore_groups,
)
from lakelog.catalog.namespace import (
    BUCKET,
    ETCD,
    Move,
    Namespace,
    add_lanes,
    check_metadata,
    claim_pipeline,
    has_namespace,
    is_pipeline_claimed,
    make_namespace,
    open_namespace,
    place_store,
)
from lakelog.catalog.quotas import (
    FoundQuotas,
    change_quotas,
    decode_quotas,
    encode_quotas,
    read_quotas,
)
from lakelog.catalog.topic_cells import Topic
from lakelog.catalog.topics import (
    configure_topic,
    create_topic,
    delete_topic,
    forget_retired,
    grow_topic,
    open_topic,
    read_topic,
)
from lakelog.catalog.users import UserChange, change_users, read_users

__all__ = [
    "BUCKET",
    "ETCD",
    "TOPIC_CONFIGS",
    "AclCell",
    "Backup",
    "Change",
    "ConfigSource",
    "ConfigType",
    "DescribedConfig",
    "FoundQuotas",
    "Marks",
    "MetadataStores",
    "Move",
    "Namespace",
    "News",
    "Operation",
    "Synonym",
    "Topic",
    "TopicConfig",
    "TopicConfigs",
    "UserChange",
    "add_acls",
    "add_lanes",
    "alter_configs",
    "change_quotas",
    "change_users",
    "check_configs",
    "check_fit",
    "check_metadata",
    "claim_pipeline",
    "cleanup_policy",
    "compression_codec",
    "config_value",
    "configure_topic",
    "create_topic",
    "decode_acls",
    "decode_backup",
    "decode_quotas",
    "delete_topic",
    "describe_configs",
    "encode_backup",
    "encode_quotas",
    "forget_retired",
    "grow_topic",
    "has_namespace",
    "is_pipeline_claimed",
    "join_groups",
    "list_topics",
    "make_namespace",
    "move_groups",
    "news_of_topics",
    "open_namespace",
    "open_topic",
    "parse_config",
    "place_store",
    "read_acls",
    "read_quotas",
    "read_topic",
    "read_users",
    "remove_acls",
    "restore_groups",
]

"""The log: journal and history as one, and what the namespace says of it.

namespace  made once, opened by everybody
topics     cells: ids, incarnations, partitions, lanes, configs; listing: all of them, and news
read       offsets -> batches, from a segment or from a bundle
times      times -> offsets
sizes      how many bytes a partition takes
plan       the history of whole topics at once
survey     where every partition of some topics begins and ends
spans      offsets -> where they lie -> shares for tasks
live       all of that for a reader of many partitions, driven; ranges: options -> offsets;
           driving: by threads
rows       shares -> Arrow          \\  imported only when asked for
scan       a namespace -> Arrow     /
unsealed   what is only in the journal, for whoever reads segments alone
staging    what an attempt of a bulk write puts beside the log; parts: what a task of it does
writes     bulk writes: decided for once, appended to every lane
configs    topic configs by Kafka's names, checked and typed; config_table: a row for each;
           altering: what becomes of them when some are changed
"""

from lakelog.journal import store_now
from lakelog.log.altering import Change, Operation, alter_configs
from lakelog.log.claims import claim_pipeline, is_pipeline_claimed
from lakelog.log.config_table import TOPIC_CONFIGS, ConfigType, TopicConfig
from lakelog.log.configs import (
    ConfigSource,
    DescribedConfig,
    Synonym,
    TopicConfigs,
    check_configs,
    config_value,
    describe_configs,
)
from lakelog.log.driving import Driver
from lakelog.log.listing import Marks, News, list_topics, news_of_topics
from lakelog.log.live import NamespaceReader
from lakelog.log.namespace import Namespace, make_namespace, open_namespace
from lakelog.log.parts import StagedObject, TaskParts
from lakelog.log.placing import place_batches
from lakelog.log.plan import Planned, plan_history, plan_partitions
from lakelog.log.ranges import (
    Key,
    Losses,
    Offsets,
    decode_offsets,
    encode_offsets,
    limit_offsets,
    readable,
)
from lakelog.log.read import (
    Bounds,
    CatchUp,
    Chunk,
    Known,
    OutOfRange,
    bounds,
    read,
    read_slice,
    refresh,
)
from lakelog.log.sizes import history_bytes, journal_bytes
from lakelog.log.spans import LocatedRange, Share, plan_shares, sealed_spans, unsealed_spans
from lakelog.log.staging import Identity, Staged, announce_write, read_identity
from lakelog.log.survey import Extent, PartitionRef, Survey, open_survey
from lakelog.log.times import Found, Look, newest, offset_at
from lakelog.log.topics import (
    Topic,
    configure_topic,
    create_topic,
    delete_topic,
    forget_retired,
    grow_topic,
    open_topic,
    read_topic,
)
from lakelog.log.unsealed import tell_unsealed
from lakelog.log.writes import (
    Committed,
    Decision,
    abandon_write,
    commit_write,
    finish_write,
    read_decision,
)

__all__ = [
    "TOPIC_CONFIGS",
    "Bounds",
    "CatchUp",
    "Change",
    "Chunk",
    "Committed",
    "ConfigSource",
    "ConfigType",
    "Decision",
    "DescribedConfig",
    "Driver",
    "Extent",
    "Found",
    "Identity",
    "Key",
    "Known",
    "LocatedRange",
    "Look",
    "Losses",
    "Marks",
    "Namespace",
    "NamespaceReader",
    "News",
    "Offsets",
    "Operation",
    "OutOfRange",
    "PartitionRef",
    "Planned",
    "Share",
    "Staged",
    "StagedObject",
    "Survey",
    "Synonym",
    "TaskParts",
    "Topic",
    "TopicConfig",
    "TopicConfigs",
    "abandon_write",
    "alter_configs",
    "announce_write",
    "bounds",
    "check_configs",
    "claim_pipeline",
    "commit_write",
    "config_value",
    "configure_topic",
    "create_topic",
    "decode_offsets",
    "delete_topic",
    "describe_configs",
    "encode_offsets",
    "finish_write",
    "forget_retired",
    "grow_topic",
    "history_bytes",
    "is_pipeline_claimed",
    "journal_bytes",
    "limit_offsets",
    "list_topics",
    "make_namespace",
    "newest",
    "news_of_topics",
    "offset_at",
    "open_namespace",
    "open_survey",
    "open_topic",
    "place_batches",
    "plan_history",
    "plan_partitions",
    "plan_shares",
    "read",
    "read_decision",
    "read_identity",
    "read_slice",
    "read_topic",
    "readable",
    "refresh",
    "sealed_spans",
    "store_now",
    "tell_unsealed",
    "unsealed_spans",
]

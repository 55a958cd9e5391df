"""Limits of a broker that cannot be set: constants that stand where they are used, a row each."""

from lakelog.broker.allowance import OPERATIONS_MAX
from lakelog.broker.limits import HTTP_CONNECTIONS_MAX, REWRITTEN_BYTES_PER_S, Limit
from lakelog.broker.lookups import NAMES_MAX, PACE_MS
from lakelog.broker.meters import MUTE_S_MAX
from lakelog.broker.scans import SCANS_MAX
from lakelog.broker.security.audit_log import FIELD_CHARS_MAX, LINES_MAX, REPEATS_MAX
from lakelog.coordination import SHARD_BYTES_MAX
from lakelog.groups import EXPRESSIONS_MAX, REGEX_MAX
from lakelog.records import DECOMPRESSED_BYTES_MAX
from lakelog.security import ACLS_MAX, BUCKETS_MAX, ENTITIES_MAX
from lakelog.wire import (
    ELEMENTS_MAX,
    PARTITION_ELEMENTS_MAX,
    PRODUCE_ELEMENTS_MAX,
    TAG_BYTES_MAX,
    TAGS_MAX,
)

__all__ = ["FIXED_LIMITS"]

FIXED_LIMITS: tuple[Limit, ...] = (
    Limit(
        "OPERATIONS_MAX",
        OPERATIONS_MAX,
        "Operations on the store that one request may cause; those that were begun by then are"
        " finished.",
        beyond="the rest is LEADER_NOT_AVAILABLE in ListOffsets, DeleteRecords and"
        " OffsetForLeaderEpoch, without records in Fetch, POLICY_VIOLATION in what makes, changes"
        " or deletes topics; DescribeLogDirs is KAFKA_STORAGE_ERROR",
        protects="the store, and what it costs, from one request",
    ),
    Limit(
        "ENTITIES_MAX",
        ENTITIES_MAX,
        "Users, client ids and addresses, and pairs of them, that have quotas in a namespace.",
        beyond="INVALID_REQUEST",
        protects="the cell of quotas, which every broker reads",
    ),
    Limit(
        "BUCKETS_MAX",
        BUCKETS_MAX,
        "Quotas of clients that a broker counts at the same time; those that are full again are"
        " forgotten.",
        beyond="clients that come then share one by kind",
        protects="memory from clients that call themselves otherwise each time",
    ),
    Limit(
        "MUTE_S_MAX",
        int(MUTE_S_MAX),
        "Seconds that a connection is not read for one request, because its client has used its"
        " quota.",
        beyond="what is still missing is told with the next request; a connection that would have"
        " to wait for longer before its first one is refused",
        protects="clients from waiting for an answer that does not come in their time",
    ),
    Limit(
        "REGEX_MAX",
        REGEX_MAX,
        "Characters of an expression that a consumer subscribes to.",
        beyond="INVALID_REGULAR_EXPRESSION",
        protects="the loop and memory from what an expression takes to be tried",
    ),
    Limit(
        "EXPRESSIONS_MAX",
        EXPRESSIONS_MAX,
        "Different expressions that the members of a group subscribe to.",
        beyond="GROUP_MAX_SIZE_REACHED for a member that comes with another one",
        protects="the loop: each is tried on the name of every topic",
    ),
    Limit(
        "NAMES_MAX",
        NAMES_MAX,
        "Names of topics that are not there, which are asked of the store one by one, in a second.",
        beyond="one listing answers for all of them",
        protects="the store from names that clients make up",
    ),
    Limit(
        "PACE_MS",
        PACE_MS,
        "How long after a question for a topic that is not there the next one may begin.",
        beyond="whoever asks meanwhile waits for that one, and is answered by it",
        protects="the store from the same question again and again",
    ),
    Limit(
        "ELEMENTS_MAX",
        ELEMENTS_MAX,
        "Elements of all arrays of a request: topics and partitions, groups, configs.",
        beyond="the connection is closed",
        protects="memory and the loop: an element becomes an object that is larger than its bytes",
    ),
    Limit(
        "PARTITION_ELEMENTS_MAX",
        PARTITION_ELEMENTS_MAX,
        "The same, of requests that tools send for all partitions at once: Metadata, ListOffsets,"
        " DeleteRecords, OffsetCommit, OffsetFetch, OffsetDelete, OffsetForLeaderEpoch,"
        " DescribeProducers, DescribeLogDirs, DescribeTopicPartitions.",
        beyond="the connection is closed",
        protects="the same",
    ),
    Limit(
        "PRODUCE_ELEMENTS_MAX",
        PRODUCE_ELEMENTS_MAX,
        "The same, of Produce: topics and partitions of a request.",
        beyond="the connection is closed",
        protects="the loop from a request of 100 MiB that has nothing but topics",
    ),
    Limit(
        "TAGS_MAX",
        TAGS_MAX,
        "Tagged fields in one place of a request.",
        beyond="the connection is closed",
        protects="the loop from fields that nobody reads",
    ),
    Limit(
        "TAG_BYTES_MAX",
        TAG_BYTES_MAX,
        "Bytes of all tagged fields in one place of a request.",
        beyond="the connection is closed",
        protects="memory from requests that are padded with what nobody reads",
    ),
    Limit(
        "SHARD_BYTES_MAX",
        SHARD_BYTES_MAX,
        "Bytes of the consumer groups of one shard.",
        beyond="what makes one of its groups larger is refused; commits for partitions that have an"
        " offset are not",
        protects="the object that they are stored in, which could not be read any more",
    ),
    Limit(
        "REWRITTEN_BYTES_PER_S",
        REWRITTEN_BYTES_PER_S,
        "Bytes that commits make the broker store in a second, for each shard of consumer groups:"
        " all of it is written each time.",
        beyond="commits wait for the next time; that of a full shard comes after three seconds",
        protects="the store and the network from commits to large shards",
    ),
    Limit(
        "SCANS_MAX",
        SCANS_MAX,
        "Addresses whose clients have batches looked into at the same time, for times and for keys:"
        " each has one batch after the other.",
        beyond="they wait for their turn",
        protects="the loop and memory: what is decompressed counts as an answer",
    ),
    Limit(
        "DECOMPRESSED_BYTES_MAX",
        DECOMPRESSED_BYTES_MAX,
        "Bytes that a batch may hold when it is decompressed.",
        beyond="nobody reads it, and a compacted topic does not take it",
        protects="memory from batches that hold much more than they seem to",
    ),
    Limit(
        "ACLS_MAX",
        ACLS_MAX,
        "ACLs in a namespace; a name and a principal have 1,024 characters at most, a host 64.",
        beyond="POLICY_VIOLATION, and none of those that were sent together is added",
        protects="the memory of brokers, and the object that they are stored in",
    ),
    Limit(
        "REPEATS_MAX",
        REPEATS_MAX,
        "Different denials and failed logins that the audit log tells one by one, in ten seconds.",
        beyond="the others are told together, as `~others`, with how many they were",
        protects="the log from clients that ask for something else each time",
    ),
    Limit(
        "LINES_MAX",
        LINES_MAX,
        "Lines of the audit log that wait for the file.",
        beyond="lines are lost, counted, and the next line that is written says how many",
        protects="memory from a file that cannot be written; answers do not wait for it",
    ),
    Limit(
        "FIELD_CHARS_MAX",
        FIELD_CHARS_MAX,
        "Characters of one field in a line of the audit log.",
        beyond="the field is cut",
        protects="the file from names that clients make up",
    ),
    Limit(
        "HTTP_CONNECTIONS_MAX",
        HTTP_CONNECTIONS_MAX,
        "Connections for health and metrics over HTTP.",
        beyond="the oldest that has not asked for anything is closed",
        protects="probes from connections that say nothing",
    ),
)

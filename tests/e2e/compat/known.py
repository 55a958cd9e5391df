"""What fails, and why; and what passes in another way than its sentence says.

Whatever fails and is not here fails the tests. LIMITS are of a client, and show on Apache Kafka as
well. DIFFERENCES are between Kafka and lakelog, whatever the client. REMARKS are about what a
worker had to do for its client.
"""

from collections.abc import Mapping

__all__ = ["DIFFERENCES", "LIMITS", "REMARKS"]

LIMITS: Mapping[tuple[str, str], str] = {
    ("compacted topic", "aiokafka"): (
        "aiokafka: the record is refused, but the client does not know INVALID_RECORD, and says"
        " UnknownError."
    ),
}
"""By behaviour and client."""

_NO_TRANSACTIONS = (
    "lakelog has no transactions: a transactional id is refused, so that a producer that needs them"
    " fails before it writes anything ([what is not supported](reference/not-supported.md))."
)

DIFFERENCES: Mapping[str, str] = {
    "transaction": _NO_TRANSACTIONS,
    "aborted transaction": _NO_TRANSACTIONS,
}
"""By behaviour."""

_NO_PLACES = "its producers do not tell where each record went; that is seen by reading them."
_MURMUR2 = "with `partitioner=murmur2_random`, for its own choice is another."
_RESTARTED = "a seek is a new process, told where to begin."
_QUEUE = "it pushes records into a queue; only errors and the next record tell anything."
_IN_A_GROUP = "it reads only in groups, so a group of its own stands for an assignment."

REMARKS: Mapping[tuple[str, str], str] = {
    ("acks 1", "kafkajs"): _NO_PLACES,
    ("acks all", "kafkajs"): _NO_PLACES,
    ("acks 1", "kcat"): _NO_PLACES,
    ("acks all", "kcat"): _NO_PLACES,
    ("idempotence", "aiokafka"): "it has one request in flight to a partition, and no setting.",
    ("idempotence", "kafkajs"): "with one request in flight: it keeps no order among several.",
    ("partition by key", "confluent"): _MURMUR2,
    ("partition by key", "kcat"): _MURMUR2,
    ("create again", "kafkajs"): "it answers `false`, and does not tell the error.",
    ("grow under load", "kcat"): "every send is a new process; the consumer goes on.",
    ("seek", "kcat"): _RESTARTED,
    ("seek by time", "kcat"): _RESTARTED,
    ("out of range", "kcat"): _RESTARTED,
    ("seek", "kafkajs"): _IN_A_GROUP,
    ("seek by time", "kafkajs"): _IN_A_GROUP,
    ("out of range", "kafkajs"): _IN_A_GROUP,
    ("1,000 partitions", "kafkajs"): _IN_A_GROUP,
    ("empty polls", "kafkajs"): _QUEUE,
    ("empty polls", "kcat"): _QUEUE,
    ("group of two", "kcat"): "it commits by itself what it has printed.",
    ("member leaves", "kcat"): "it commits by itself what it has printed.",
    ("commit metadata", "aiokafka"): "the metadata is read by its admin client.",
    ("commit metadata", "kafkajs"): "the metadata is read by its admin client.",
}
"""By behaviour and client."""

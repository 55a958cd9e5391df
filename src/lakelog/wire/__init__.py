"""Kafka's protocol without a socket.

apis      the table of what is offered: keys, versions
frames    headers of requests and responses; the primitives
control   everything but the next three: kio, lifted to the newest version and lowered from it
produce, fetch, metadata
          by hand, because they are hot or large
broker_heartbeat, sasl
          what brokers write to each other
leaders   who leads a partition, as responses tell
repeats   requests to produce that are like the one before
"""

from lakelog.wire.apis import (
    ADVERTISED,
    APIS,
    ELEMENTS_MAX,
    PARTITION_ELEMENTS_MAX,
    PRODUCE_ELEMENTS_MAX,
    Api,
    ApiKey,
    find_api,
)
from lakelog.wire.broker_heartbeat import encode_broker_heartbeat
from lakelog.wire.control import Fields, decode_request, encode_response
from lakelog.wire.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch,
    encode_fetch_response,
)
from lakelog.wire.frames import (
    FRAME_BYTES_MIN,
    TAG_BYTES_MAX,
    TAGS_MAX,
    RequestHeader,
    decode_request_header,
    response_start,
)
from lakelog.wire.leaders import CurrentLeader, MetadataBroker
from lakelog.wire.metadata import (
    MetadataPartition,
    encode_metadata,
    encode_metadata_topic,
    with_operations,
)
from lakelog.wire.produce import (
    Produced,
    ProduceRequest,
    ProduceTopic,
    decode_produce,
    encode_produce_response,
)
from lakelog.wire.repeats import ProduceShape, answer_again, match_produce, shape_of
from lakelog.wire.sasl import (
    decode_sasl_answer,
    encode_sasl_authenticate,
    encode_sasl_handshake,
)

__all__ = [
    "ADVERTISED",
    "APIS",
    "ELEMENTS_MAX",
    "FRAME_BYTES_MIN",
    "PARTITION_ELEMENTS_MAX",
    "PRODUCE_ELEMENTS_MAX",
    "TAGS_MAX",
    "TAG_BYTES_MAX",
    "Api",
    "ApiKey",
    "CurrentLeader",
    "FetchPartition",
    "FetchRequest",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "Fields",
    "MetadataBroker",
    "MetadataPartition",
    "ProduceRequest",
    "ProduceShape",
    "ProduceTopic",
    "Produced",
    "RequestHeader",
    "answer_again",
    "decode_fetch",
    "decode_produce",
    "decode_request",
    "decode_request_header",
    "decode_sasl_answer",
    "encode_broker_heartbeat",
    "encode_fetch_response",
    "encode_metadata",
    "encode_metadata_topic",
    "encode_produce_response",
    "encode_response",
    "encode_sasl_authenticate",
    "encode_sasl_handshake",
    "find_api",
    "match_produce",
    "response_start",
    "shape_of",
    "with_operations",
]

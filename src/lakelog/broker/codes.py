"""What a client is told: our errors and outcomes in Kafka's codes. The one such table.

An answer that sounds final must be: whatever may still have been stored is told as a time-out, on
which a client tries again, and an idempotent producer's second try is recognised.
"""

from kio.schema.errors import ErrorCode

from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    LakelogError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.journal import Refusal

__all__ = ["REFUSALS", "Codes", "batch_code", "read_code"]

REFUSALS = {
    Refusal.OUT_OF_ORDER: ErrorCode.out_of_order_sequence_number,
    Refusal.FENCED: ErrorCode.invalid_producer_epoch,
    Refusal.TOPIC_DELETED: ErrorCode.unknown_topic_or_partition,
    Refusal.TOO_LARGE: ErrorCode.message_too_large,
}

Codes = tuple[tuple[type[LakelogError], ErrorCode], ...]
"""What errors are told as; the first that fits counts."""

_BATCH: Codes = (
    (CorruptError, ErrorCode.corrupt_message),
    (UnsupportedError, ErrorCode.unsupported_for_message_format),
    (InvalidInputError, ErrorCode.invalid_record),
    (UnavailableError, ErrorCode.request_timed_out),
)

_READ: Codes = (
    (NotFoundError, ErrorCode.unknown_topic_or_partition),
    (CorruptError, ErrorCode.corrupt_message),
    (UnsupportedError, ErrorCode.kafka_storage_error),
    (InvalidInputError, ErrorCode.invalid_request),
    (ConflictError, ErrorCode.leader_not_available),
    (UnavailableError, ErrorCode.kafka_storage_error),
)


def batch_code(error: LakelogError) -> ErrorCode:
    """Return what is told of a batch that is not taken."""
    return _first(_BATCH, error)


def read_code(error: LakelogError, codes: Codes = ()) -> ErrorCode:
    """Return what is told of a partition that cannot be read, or a thing that cannot be done; by
    ``codes`` where an API has its own.
    """
    return _first((*codes, *_READ), error)


def _first(table: Codes, error: LakelogError) -> ErrorCode:
    for kind, code in table:
        if isinstance(error, kind):
            return code
    return ErrorCode.unknown_server_error

"""RustLog as a row of FORMATS: times in milliseconds, and no more of a record than it can hold."""

from collections.abc import Sequence

from lakelog.errors import InvalidInputError
from lakelog.formats.contract import Carries, Format
from lakelog.formats.rustlog.envelope import is_envelope
from lakelog.formats.rustlog.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PAYLOAD_BYTES_MAX,
    RECORD,
    LogRecord,
    encode_log,
)
from lakelog.formats.rustlog.lookup import open_segment
from lakelog.formats.rustlog.walk import US_PER_MS, walk
from lakelog.model import Record
from lakelog.records import Codec

__all__ = ["FORMAT", "encode_records", "partition_path"]


def partition_path(topic: str, partition: int) -> str:
    """Return the directory of a partition, below the data directory.

    Raises:
        InvalidInputError: a topic that cannot be the name of a directory.
    """
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        raise InvalidInputError(f"{topic!r} cannot be the name of a directory")
    return f"topics/{topic}/partitions/{partition}"


def _sniff(head: bytes, base_offset: int) -> bool:
    # There is no magic. The first record has the offset in the file's name; where Kafka's .log has
    # its batch length, so that read this way its offset is another.
    if len(head) < RECORD.size:
        return False
    length, offset, _ = RECORD.unpack_from(head)
    return bool(length <= PAYLOAD_BYTES_MAX and offset == base_offset)


def encode_records(records: Sequence[Record]) -> dict[str, bytes]:
    """Return log and index.

    Raises:
        InvalidInputError: something that RustLog cannot hold.
    """
    return encode_log([_from_record(record) for record in records])


def _from_record(record: Record) -> LogRecord:
    if record.key is not None:
        raise InvalidInputError(f"a key at offset {record.offset}, RustLog carries none")
    if record.value is None:
        raise InvalidInputError(f"a null value at offset {record.offset}, RustLog carries none")
    if is_envelope(record.value):
        raise InvalidInputError(
            f"the value at offset {record.offset} begins like an envelope, and would be read as one"
        )
    if record.headers:
        raise InvalidInputError(f"headers at offset {record.offset}, RustLog carries none")
    return LogRecord(
        offset=record.offset,
        timestamp_us=record.timestamp * US_PER_MS,
        payload=record.value,
    )


FORMAT = Format(
    name="rustlog",
    title="RustLog segment",
    suffix=LOG_SUFFIX,
    side_suffixes=(INDEX_SUFFIX,),
    carries=Carries(
        keys=False,
        null_values=False,
        headers=False,
        time_order=True,
        timestamp_types=False,
        codecs=frozenset({Codec.NONE}),
    ),
    sealed=False,
    checksums=False,
    sniff=_sniff,
    walk=walk,
    open=open_segment,
)

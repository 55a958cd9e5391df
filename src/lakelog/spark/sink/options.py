"""Options of a write: those of Spark's Kafka sink that mean something here, and a few more.

    path          where the namespace is
    topic         where all rows go; goes before the column
    compression   none, gzip, snappy, lz4, zstd; else what the topic's compression.type names, if
                  it names a codec; else none, as Kafka's producers have it
    batchBytes    how large a record batch becomes, before it is compressed
    bufferBytes   how many bytes of rows a task collects before it packs and stages them
    store.*       passed to the store
    kafka.*       meant for a Kafka client, and passed over

Names are not case-sensitive. Spark hands a sink its own options as well, such as the place of a
checkpoint: they are passed over.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.errors import InvalidInputError
from lakelog.log import Driver
from lakelog.log.packing import BATCH_BYTES
from lakelog.records import Codec
from lakelog.segments import NAMESPACE
from lakelog.spark.options import sort_options
from lakelog.store import StoreSpec, retrying

__all__ = ["WriteOptions", "parse_write_options"]

BATCH_BYTES_MAX = 64 << 20
BUFFER_BYTES = 32 << 20
BUFFER_BYTES_MAX = 512 << 20
CODECS = {codec.name.lower(): codec for codec in Codec}

_KNOWN = {
    name.lower(): name
    for name in ("path", "layout", "topic", "compression", "batchBytes", "bufferBytes")
}
_PASSED_OVER = ("kafka.", "checkpointlocation", "queryname")
_REFUSED = {
    "kafka.key.serializer": "Keys are written as bytes: cast them to binary or string.",
    "kafka.value.serializer": "Values are written as bytes: cast them to binary or string.",
    "kafka.transactional.id": "A write is all or nothing without it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write, understood."""

    path: str
    topic: str | None = None
    codec: Codec | None = None
    """None: as the topic has it."""
    batch_bytes: int = BATCH_BYTES
    buffer_bytes: int = BUFFER_BYTES
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def driver(self) -> Driver:
        """Open the store, for the flows of a write."""
        store = StoreSpec(self.path, dict(self.store_options)).open()
        return Driver(retrying(store.perform))


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return what the options of a write mean.

    Raises:
        InvalidInputError: one is missing, unknown, or cannot be understood.
    """
    given, store_options = sort_options(
        options, known=_KNOWN, refused=_REFUSED, passed_over=_PASSED_OVER, of=" of a write"
    )
    if "path" not in given:
        raise InvalidInputError("option 'path' is missing: .option(\"path\", ...)")
    if given.get("layout", NAMESPACE).lower() != NAMESPACE:
        raise InvalidInputError(
            f"layout {given['layout']!r}: rows are written to a namespace; for segments use "
            "lakelog pipeline convert"
        )
    name = given.get("compression", "").strip().lower()
    if name and name not in CODECS:
        raise InvalidInputError(f"compression {name!r}: use one of {', '.join(CODECS)}")
    return WriteOptions(
        path=given["path"],
        topic=given.get("topic", "").strip() or None,
        codec=CODECS.get(name),
        batch_bytes=_size(given, "batchBytes", BATCH_BYTES, BATCH_BYTES_MAX),
        buffer_bytes=_size(given, "bufferBytes", BUFFER_BYTES, BUFFER_BYTES_MAX),
        store_options=StoreSpec(given["path"], store_options).options,
    )


def _size(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = given.get(name, str(default)).strip()
    if not re.fullmatch(r"[0-9]{1,12}", text) or not 1 <= int(text) <= most:
        raise InvalidInputError(f"option {name} is {text!r}: use 1 to {most} bytes")
    return int(text)

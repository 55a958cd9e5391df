"""The columns of a frame that is written: those of Spark's Kafka sink, refused in its words.

    topic       string             needed without the option
    key         string | binary
    value       string | binary    needed; a null is a tombstone
    headers     array<struct<key:string,value:binary>>
    partition   int                a null leaves it to the key
    timestamp   double | timestamp a null, or no column: now

Other columns are passed over, as there. Names are exact.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from lakelog.errors import InvalidInputError

__all__ = ["check_columns", "read_columns"]

_TEXT = ("string", "binary")
_TYPES = {
    "topic": ("string",),
    "key": _TEXT,
    "value": _TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("double", "timestamp"),
}
_MICROSECONDS = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def check_columns(schema: StructType, topic: str | None) -> None:
    """See that a frame can be written, to ``topic`` or to those that it names itself.

    Raises:
        InvalidInputError: it cannot; why, in the words of Spark's Kafka sink.
    """
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in given:
        raise InvalidInputError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic."
        )
    for name, allowed in _TYPES.items():
        if name == "value" and name not in given:
            raise InvalidInputError("Required attribute 'value' not found")
        if name == "topic" and topic is not None:
            continue
        if given.get(name, allowed[0]) not in allowed:
            raise InvalidInputError(
                f"{name} attribute unsupported type {given[name]}. {name} must be a(n) "
                f"{' or '.join(allowed)}"
            )


def read_columns(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the columns of records alone, with the types that records have.

    ``timestamp`` is there and has no nulls. The other columns are there if they were.

    Raises:
        InvalidInputError: a time is before 1970, or cannot be said.
    """
    names = [name for name in _TYPES if name in rows.schema.names]
    columns = {name: rows.column(name) for name in names}
    for name in ("key", "value"):
        if name in columns:
            columns[name] = _bytes(columns[name])
    if "headers" in columns and columns["headers"].type != _HEADERS:
        columns["headers"] = columns["headers"].cast(_HEADERS)
    columns["timestamp"] = _times(columns.get("timestamp"), rows.num_rows, now_ms)
    return pa.record_batch(list(columns.values()), names=list(columns))


def _bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _times(column: pa.Array | None, rows: int, now_ms: int) -> pa.Array:
    now = pa.scalar(now_ms * 1000, pa.int64()).cast(_MICROSECONDS)
    if column is None:
        return pa.repeat(now, rows)
    if pa.types.is_floating(column.type):
        # Seconds, as Spark casts a double to a time.
        try:
            column = pc.trunc(pc.multiply(column, 1e6)).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"a timestamp is no number of seconds: {error}") from error
    column = column.cast(_MICROSECONDS)
    if column.null_count:
        column = column.fill_null(now)
    least = pc.min(column.cast(pa.int64())).as_py()
    if least is not None and least < 0:
        raise InvalidInputError(
            f"Invalid timestamp: {least // 1000}. Timestamp should always be non-negative or null."
        )
    return column

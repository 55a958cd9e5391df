"""The Arrow types of records, for whoever needs no more of them: nothing compiled comes along."""

from collections.abc import Iterable

import pyarrow as pa

from lakelog.errors import InvalidInputError

__all__ = ["COLUMNS", "HEADER_TYPE", "TYPES", "arrow_schema"]

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
}
COLUMNS = tuple(TYPES)


def arrow_schema(columns: Iterable[str] = COLUMNS) -> pa.Schema:
    """Return the schema of ``columns``, in that order.

    Raises:
        InvalidInputError: one of them is not a column of records.
    """
    chosen = tuple(columns)
    for name in chosen:
        if name not in TYPES:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in chosen])

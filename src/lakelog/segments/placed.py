"""The columns of records, and of where they lie: ``topic`` and ``partition``.

A read that goes on behind damage has one more, ``_corrupt``: see ``mend``. Whoever plans needs the
columns and nothing that is compiled, so they are apart from the reading.
"""

from collections.abc import Iterable

import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.records.schema import TYPES
from lakelog.segments.select import Mode

__all__ = ["CORRUPT", "PLACED_COLUMNS", "PLACED_TYPES", "placed_schema"]

CORRUPT = "_corrupt"
"""Null for a record; for damage, what is wrong and where. All else of such a row is null then,
except topic and partition."""

PLACED_TYPES: dict[str, pa.DataType] = {
    "key": TYPES["key"],
    "value": TYPES["value"],
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": TYPES["offset"],
    "timestamp": TYPES["timestamp"],
    "timestampType": TYPES["timestampType"],
    "headers": TYPES["headers"],
}
PLACED_COLUMNS = tuple(PLACED_TYPES)


def placed_schema(columns: Iterable[str] = PLACED_COLUMNS, mode: Mode = Mode.FAILFAST) -> pa.Schema:
    """Return the schema of ``columns``, in that order.

    Raises:
        InvalidInputError: one of them is not a column of records.
    """
    types = PLACED_TYPES if mode is Mode.FAILFAST else {**PLACED_TYPES, CORRUPT: pa.string()}
    chosen = tuple(columns)
    for name in chosen:
        if name not in types:
            hint = f"; mode={Mode.PERMISSIVE} adds it" if name == CORRUPT else ""
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(types)}{hint}")
    return pa.schema([pa.field(name, types[name]) for name in chosen])

"""What cells share: a JSON object that names its format, with numbers that are numbers.

Python's ``int("4")``, ``2.5`` and ``True`` would pass for numbers where none was written, and
``json`` reads ``Infinity``. Whoever decodes a cell turns ValueError, TypeError, KeyError and
RecursionError into a CorruptError that says which cell it was.
"""

import json
from typing import Any

from lakelog.errors import UnsupportedError
from lakelog.formats.contract import Bytes

__all__ = ["decode_fields", "number"]


def decode_fields(data: Bytes, *, format_: int, where: str) -> dict[str, Any]:
    """Return the fields of a cell.

    Raises:
        UnsupportedError: a later version made it.
        ValueError, TypeError, KeyError, RecursionError: it is no cell.
    """
    fields: dict[str, Any] = json.loads(bytes(data))
    if fields["format"] != format_:
        what = f"format {fields['format']!r}, this reader knows {format_}; use a newer one"
        raise UnsupportedError(what, at=0, where=where)
    return fields


def number(value: object) -> int:
    """Return a whole number, if that is what was written.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value

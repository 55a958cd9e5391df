"""What cells share: a JSON object that names its format, with numbers that are numbers.

**A field that is not known is refused.** Whoever changes a cell reads it, and writes what it made
of it: what it did not understand would be gone, and with it what a later version said there. So a
cell has the fields of its format and no others, for readers as well: what is said in one that they
do not know may change what the others mean.

Python's ``int("4")``, ``2.5`` and ``True`` would pass for numbers where none was written, and
``json`` reads ``Infinity``. A cell is decoded under ``decoding``, which turns what that raises into
a CorruptError that says which cell it was.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes

__all__ = ["check_fields", "decode_fields", "decoding", "flag", "number"]


@contextmanager
def decoding(what: str, where: str) -> Iterator[None]:
    """Turn whatever the fields of a cell raise into a CorruptError: it is no ``what``.

    Raises:
        CorruptError: the fields are not those of one.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptError(f"it is no {what}: {error!r}"[:300], at=0, where=where) from error


def decode_fields(
    data: Bytes, *, format_: int, where: str, known: Collection[str] | None
) -> dict[str, Any]:
    """Return the fields of a cell, which are ``known``, whether or not all of them are there.

    None is for what only its maker writes: nobody can lose what they say to others.

    Raises:
        UnsupportedError: a later version made it.
        ValueError, TypeError, KeyError, RecursionError: it is no cell.
    """
    fields: dict[str, Any] = json.loads(bytes(data))
    if fields["format"] != format_:
        raise UnsupportedError(
            f"format {fields['format']!r}, this reader knows {format_}; use a newer one",
            at=0,
            where=where,
        )
    if known is not None:
        check_fields(fields, (*known, "format"), where=where)
    return fields


def check_fields(fields: dict[str, Any], known: Collection[str], *, where: str) -> None:
    """See that an object has no field but these.

    Raises:
        UnsupportedError: a later version made it.
    """
    if unknown := sorted(fields.keys() - known):
        what = f"it has the field {', '.join(unknown)[:200]!r}, which this version does not know"
        raise UnsupportedError(
            f"{what}: a later version wrote it; use that one, here it is left as it is",
            at=0,
            where=where,
        )


def flag(value: object) -> bool:
    """Return true or false, if that is what was written.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not bool:
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def number(value: object) -> int:
    """Return a whole number, if that is what was written.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value

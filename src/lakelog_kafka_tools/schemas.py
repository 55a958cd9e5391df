"""Kafka's messages, from a line of text that lists their fields.

    name:str partitions:[index:i32 replicas:[i32]] error:?str@5 group:str@0-7

``?`` may be absent, ``[...]`` is an array of a type or of fields, ``{...}`` a struct, ``@5`` there
from version 5 on, ``@0-7`` in versions 0 to 7. Values are dicts; on encoding, a field that is
not given is zero, empty or absent. Tags are written empty and passed over.
"""

import re
import struct
from functools import cache
from typing import Any, NamedTuple

from lakelog.errors import CorruptError

__all__ = ["Field", "decode", "encode", "schema"]

_TOKEN = re.compile(r"[\[\]{}]|[^\s\[\]{}]+")
_VERSIONS = re.compile(r"@(\d+)(?:-(\d+))?$")
_FIXED = {
    "bool": struct.Struct(">?"),
    "i8": struct.Struct(">b"),
    "i16": struct.Struct(">h"),
    "i32": struct.Struct(">i"),
    "i64": struct.Struct(">q"),
    "f64": struct.Struct(">d"),
    "uuid": struct.Struct(">16s"),
}
_ZEROS: dict[str, Any] = {"bool": False, "f64": 0.0, "str": "", "bytes": b"", "uuid": bytes(16)}
_LENGTH = {"str": _FIXED["i16"], "bytes": _FIXED["i32"], "array": _FIXED["i32"]}
_VERSION_MAX = 1 << 15


class Field(NamedTuple):
    """A field, or what an array has many of."""

    name: str
    kind: str
    """A type of ``_FIXED``, or str, bytes, struct, array."""
    inner: tuple["Field", ...] = ()
    """The fields of a struct; the one element of an array."""
    optional: bool = False
    first: int = 0
    last: int = _VERSION_MAX


@cache
def schema(text: str) -> tuple[Field, ...]:
    """Return the fields that a line lists."""
    return tuple(_fields(_TOKEN.findall(text)[::-1]))


def _fields(tokens: list[str]) -> list[Field]:
    """Take fields up to a closing bracket, or the end; the next token stands last."""
    found: list[Field] = []
    while tokens and (token := tokens.pop()) not in "]}":
        if token.startswith("@"):
            # It stands behind the bracket of the field before it.
            found[-1] = _within(found[-1], token)
            continue
        name, colon, kind = token.partition(":")
        if not colon:
            found.append(Field("", name))
            continue
        optional, kind = kind.startswith("?"), kind.removeprefix("?")
        kind, at, versions = kind.partition("@")
        field = Field(name, kind, optional=optional)
        if not kind:
            is_array = tokens.pop() == "["
            inner = tuple(_fields(tokens))
            if is_array and inner[0].name:
                inner = (Field("", "struct", inner),)
            field = field._replace(kind="array" if is_array else "struct", inner=inner)
        found.append(_within(field, at + versions) if at else field)
    return found


def _within(field: Field, versions: str) -> Field:
    found = _VERSIONS.search(versions)
    assert found is not None
    return field._replace(first=int(found[1]), last=int(found[2] or _VERSION_MAX))


# ---------------------------------------------------------------------------- writing


def encode(fields: tuple[Field, ...], value: dict[str, Any], version: int, flexible: bool) -> bytes:
    """Return a message."""
    out = bytearray()
    _write_struct(out, fields, value, version, flexible)
    return bytes(out)


def _write_struct(
    out: bytearray, fields: tuple[Field, ...], value: dict[str, Any], version: int, flexible: bool
) -> None:
    for field in fields:
        if field.first <= version <= field.last:
            given = value.get(field.name, None if field.optional else _zero(field))
            _write(out, field, given, version, flexible)
    if flexible:
        out.append(0)


def _zero(field: Field) -> Any:
    if field.kind in ("array", "struct"):
        return [] if field.kind == "array" else {}
    return _ZEROS.get(field.kind, 0)


def _write(out: bytearray, field: Field, value: Any, version: int, flexible: bool) -> None:
    kind = field.kind
    if kind in _FIXED:
        out += _FIXED[kind].pack(value)
    elif kind == "struct":
        if field.optional:
            out += b"\xff" if value is None else b"\x01"
        if value is not None:
            _write_struct(out, field.inner, value, version, flexible)
    else:
        data = value.encode() if kind == "str" and value is not None else value
        size = -1 if data is None else len(data)
        if flexible:
            _write_uvarint(out, size + 1)
        else:
            out += _LENGTH[kind].pack(size)
        if kind == "array":
            for one in data or ():
                _write(out, field.inner[0], one, version, flexible)
        elif data is not None:
            out += data


def _write_uvarint(out: bytearray, value: int) -> None:
    """Append a number in groups of seven bits."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# ---------------------------------------------------------------------------- reading


def decode(
    fields: tuple[Field, ...], data: bytes, at: int, version: int, flexible: bool
) -> dict[str, Any]:
    """Return the message that stands at ``at``.

    Raises:
        CorruptError: it is none.
    """
    try:
        return _read_struct(fields, data, at, version, flexible)[0]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptError(f"not a message of version {version}: {error}", at=at) from error


def _read_struct(
    fields: tuple[Field, ...], data: bytes, at: int, version: int, flexible: bool
) -> tuple[dict[str, Any], int]:
    value: dict[str, Any] = {}
    for field in fields:
        if field.first <= version <= field.last:
            value[field.name], at = _read(field, data, at, version, flexible)
        else:
            value[field.name] = None if field.optional else _zero(field)
    if flexible:
        at = _skip_tags(data, at)
    return value, at


def _read(field: Field, data: bytes, at: int, version: int, flexible: bool) -> tuple[Any, int]:
    kind = field.kind
    if kind in _FIXED:
        form = _FIXED[kind]
        return form.unpack_from(data, at)[0], at + form.size
    if kind == "struct":
        if field.optional:
            at += 1
            if data[at - 1] == 0xFF:
                return None, at
        return _read_struct(field.inner, data, at, version, flexible)
    if flexible:
        size, at = _read_uvarint(data, at)
        size -= 1
    else:
        form = _LENGTH[kind]
        (size,), at = form.unpack_from(data, at), at + form.size
    if size < 0:
        return (None if field.optional else _zero(field)), at
    if size > len(data) - at:
        # Every element of an array takes at least one byte, so there cannot be so many.
        raise CorruptError(f"{size} do not fit into what is left", at=at)
    if kind != "array":
        found = data[at : at + size]
        return (found.decode() if kind == "str" else found), at + size
    values: list[Any] = []
    for _ in range(size):
        one, at = _read(field.inner[0], data, at, version, flexible)
        values.append(one)
    return values, at


def _skip_tags(data: bytes, at: int) -> int:
    count, at = _read_uvarint(data, at)
    for _ in range(count):
        _, at = _read_uvarint(data, at)
        size, at = _read_uvarint(data, at)
        at += size
    return at


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise CorruptError("a number without an end", at=at)

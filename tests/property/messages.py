"""Kafka's messages as kio has them: drawn for any class of kio's, written and read by kio alone.

kio's classes are generated from Kafka's own definitions, so this is the judge from outside.
"""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

__all__ = ["Written", "messages", "read_message", "request_kind", "response_kind", "write_message"]

_TIMES = st.integers(0, 4_000_000_000_000)


def _signed(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << (bits - 1)
    return st.integers(-1, min(100, edge - 1)) | st.integers(-edge, edge - 1)


_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "int32": _signed(32),
    "int64": _signed(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=8) | st.text("a", min_size=120, max_size=140),
    "bytes": st.binary(max_size=8) | st.just(b"x" * 200),
    "records": st.binary(max_size=8) | st.just(b"x" * 200),
    "uuid": st.none() | st.uuids(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _signed(32).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(-(10**12), 10**12).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.none()
    | _TIMES.map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)),
}


@cache
def messages(kind: Any) -> st.SearchStrategy[Any]:
    """Return what draws one message of a class."""
    hints = get_type_hints(kind)
    return st.builds(
        kind, **{one.name: _field(hints[one.name], one.metadata) for one in fields(kind)}
    )


def _field(hint: Any, metadata: Any) -> st.SearchStrategy[Any]:
    wire = metadata.get("kafka_type", "")
    options = [one for one in get_args(hint) if one is not NoneType]
    nullable = NoneType in get_args(hint) and get_origin(hint) is not tuple
    inner: Any = options[0] if nullable and len(options) == 1 else hint
    if get_origin(inner) is tuple:
        element: Any = get_args(inner)[0]
        drawn = messages(element) if not wire else _PLAIN[wire].filter(_is_there)
        found: st.SearchStrategy[Any] = st.lists(drawn, max_size=3).map(tuple)
    elif not wire:
        found = messages(inner)
    else:
        found = _PLAIN[wire]
        if not nullable:
            found = found.filter(_is_there)
    return st.none() | found if nullable else found


def _is_there(value: object) -> bool:
    return value is not None


class Written(bytearray):
    """What kio writes into."""

    write = bytearray.extend


def write_message(message: Any) -> bytes:
    """Return the bytes of a message."""
    out = Written()
    entity_writer(type(message))(out, message)  # type: ignore[arg-type]
    return bytes(out)


def read_message(kind: Any, data: bytes) -> Any:
    """Return a message that takes all of the bytes."""
    message, size = entity_reader(kind)(data, 0)
    assert size == len(data), f"{len(data) - size} bytes are left"
    return message


def request_kind(key: int, version: int) -> Any:
    """Return the class of a request."""
    return load_request_schema(key, version)


def response_kind(key: int, version: int) -> Any:
    """Return the class of a response."""
    return load_response_schema(key, version)

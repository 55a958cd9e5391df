"""Every API but Produce and Fetch: kio reads and writes them, and handlers see one version.

    bytes of version v --kio--> request of v --lift--> request of the newest version --> handler
    bytes of version v <--kio-- response of v <--lower-- fields of the newest version <--'

A field that an older request does not have gets the newest version's default; one that an older
response does not have is left out. Four APIs learned to do many things at once, and for those
``_LIFTED`` and ``_LOWERED`` make of the one thing a list of one.

In responses times are whole milliseconds and errors kio's ``ErrorCode``, whatever kio itself has
for them: a codec keeps the wire's own units. Fields are left out where the default is meant:
``throttle_time`` is 0 and ``error_code`` is ``none``.

kio makes room for as many elements as an array says that it has, and a process that does not get
the room is ended; and it stops at a tag that it does not know. So before kio sees a request, its
arrays are counted against the bytes that are there, and its tags are taken out.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from lakelog.errors import CorruptError
from lakelog.wire.apis import APIS, ApiKey
from lakelog.wire.frames import read_uvarint, skip_tags

__all__ = ["Fields", "decode_request", "encode_response"]

Fields = dict[str, Any]
"""A response by kio's names; nested ones in lists."""

_request_schema = cache(load_request_schema)
_response_schema = cache(load_response_schema)
"""kio finds them by name each time."""


def decode_request(key: int, version: int, body: memoryview) -> Any:
    """Return a request as one of the newest version.

    Bytes behind it are passed over, as Kafka does it: asking for all topics, librdkafka writes four
    zeros for a null of one byte (its issue 5049), and so has three too many.

    Raises:
        CorruptError: this is no such request.
    """
    data = _checked(_request_schema(key, version), bytes(body), APIS[key].elements_max)
    try:
        request, _ = _reader(key, version)(data, 0)
    except Exception as error:  # Whatever a library makes of hostile bytes.
        raise CorruptError(f"{APIS[key].name} {version}: {error!r}"[:200], at=0) from error
    newest = APIS[key].max_version
    if version == newest:
        return request
    lift = _LIFTED.get(ApiKey(key))
    given = _plain(request) if lift is None else lift(_plain(request))
    return _build(_request_schema(key, newest), given)


def encode_response(key: int, version: int, given: Mapping[str, Any]) -> bytes:
    """Return the body of a response, of which the fields of the newest version are given."""
    lower = _LOWERED.get(ApiKey(key))
    out = _Buffer()
    schema = _response_schema(key, version)
    _writer(key, version)(out, _build(schema, given if lower is None else lower(given, version)))
    return bytes(out)


class _Buffer(bytearray):
    """What kio writes into."""

    write = bytearray.extend


@cache
def _reader(key: int, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(_request_schema(key, version))
    return read


@cache
def _writer(key: int, version: int) -> Callable[[Any, Any], None]:
    write: Callable[[Any, Any], None] = entity_writer(_response_schema(key, version))
    return write


# ---------------------------------------------------------------------------- kio's classes


class _Field(NamedTuple):
    name: str
    nested: type | None
    kind: str
    default: Any
    """If it is not given."""
    absent: Any
    """For None: older versions have an empty string where newer ones have none."""


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    rows: list[_Field] = []
    for one in fields(kind):
        nested = _nested(hints[one.name])
        wire = one.metadata.get("kafka_type", "")
        absent = None if NoneType in get_args(hints[one.name]) else _EMPTY.get(wire)
        default = one.default
        if default is MISSING:
            default = () if nested or not wire else absent
        rows.append(_Field(one.name, nested, wire, default, absent))
    return tuple(rows)


def _nested(hint: Any) -> type | None:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    return next((found for part in get_args(hint) if (found := _nested(part))), None)


_EMPTY = {"string": "", "bytes": b"", "error_code": ErrorCode.none, "timedelta_i32": timedelta(0)}


def _build(kind: type, given: Mapping[str, Any]) -> Any:
    """Return an entity of a class out of plain fields; what the class does not have is left."""
    made: dict[str, Any] = {}
    for name, nested, wire, default, absent in _fields(kind):
        value = given.get(name, default)
        if name not in given:
            made[name] = value
        elif value is None:
            made[name] = absent
        elif nested is not None:
            many = isinstance(value, list | tuple)
            made[name] = (
                tuple(_build(nested, one) for one in value) if many else _build(nested, value)
            )
        elif isinstance(value, list):
            made[name] = tuple(value)
        elif wire.startswith("timedelta") and isinstance(value, int):
            made[name] = timedelta(milliseconds=value)
        elif wire == "datetime_i64" and isinstance(value, int):
            made[name] = datetime.fromtimestamp(value / 1000, UTC) if value >= 0 else None
        else:
            made[name] = value
    return kind(**made)


def _plain(entity: Any) -> Fields:
    """Return the fields of an entity, nested ones too."""
    out: Fields = {}
    kind: Any = type(entity)
    for name, nested, _, _, _ in _fields(kind):
        value = getattr(entity, name)
        if nested is not None and value is not None:
            many = isinstance(value, tuple)
            value = [_plain(one) for one in value] if many else _plain(value)
        out[name] = value
    return out


# ---------------------------------------------------------------------------- counts


class _Step(NamedTuple):
    """A part of a request: so many fixed bytes, then something that says how long it is."""

    fixed: int
    then: str
    """``string``, ``bytes``, ``array``, ``maybe`` (a byte, then one thing or none), ``tags``, or
    nothing."""
    element: tuple["_Step", ...] = ()
    least: int = 0
    """-1: it may be absent. kio lets arrays be, also those that may not."""


_SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4,
    "timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip

_ABSENT = 0x80
"""From here on a signed byte is below zero, which says that nothing follows."""

_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


@cache
def _steps(kind: Any) -> tuple[_Step, ...]:
    hints = get_type_hints(kind)
    steps: list[_Step] = []
    fixed = 0
    for one in fields(kind):
        if "tag" in one.metadata:
            continue  # None that is offered has one that matters here.
        nested, wire = _nested(hints[one.name]), one.metadata.get("kafka_type", "")
        least = -1 if NoneType in get_args(hints[one.name]) else 0
        if _is_array(hints[one.name]):
            plain = _Step(_SIZES[wire], "") if wire in _SIZES else _Step(0, wire)
            element = _steps(nested) if nested else (plain,)
            steps.append(_Step(fixed, "array", element, least))
        elif wire in _SIZES:
            fixed += _SIZES[wire]
            continue
        elif nested:
            steps.append(_Step(fixed, "maybe", _steps(nested)))
        else:
            then = "string" if wire == "string" else "bytes"
            steps.append(_Step(fixed, then, least=least))
        fixed = 0
    if kind.__flexible__:
        steps.append(_Step(fixed, "tags"))
    elif fixed:
        steps.append(_Step(fixed, ""))
    return tuple(steps)


def _is_array(hint: Any) -> bool:
    return get_origin(hint) is tuple or any(get_origin(one) is tuple for one in get_args(hint))


def _checked(kind: Any, body: bytes, elements_max: int) -> bytes:
    """Return a request whose arrays have as many elements as they say, without its tags.

    Tags are how later versions say more: whoever does not know one passes over it. kio does not.
    """
    tags: list[tuple[int, int]] = []
    try:
        _walk(_steps(kind), kind.__flexible__, body, 0, [elements_max], tags)
    except struct.error as error:
        raise CorruptError(f"{kind.__name__} is cut short", at=len(body)) from error
    if not tags:
        return body
    starts = [0, *(end for _, end in tags)]
    ends = [*(start for start, _ in tags), len(body)]
    return b"\0".join(body[start:end] for start, end in zip(starts, ends, strict=True))


def _walk(
    steps: tuple[_Step, ...],
    flexible: bool,
    body: bytes,
    at: int,
    left: list[int],
    tags: list[tuple[int, int]],
) -> int:
    """Return where something ends; note where its tags are, if there are any."""
    size = len(body)
    for fixed, then, element, least in steps:
        at += fixed
        if at > size:
            raise CorruptError("it is cut short", at=size)
        if then == "tags":
            end = skip_tags(body, at)
            if end > at + 1:
                tags.append((at, end))
            at = end
            continue
        if not then:
            continue
        if then == "maybe":
            if at >= size:
                raise CorruptError("it is cut short", at=size)
            at += 1
            if body[at - 1] < _ABSENT:
                at = _walk(element, flexible, body, at, left, tags)
            continue
        if flexible:
            count, at = read_uvarint(body, at)
            count -= 1
        else:
            form = _I16 if then == "string" else _I32
            (count,) = form.unpack_from(body, at)
            at += form.size
        if not least <= count <= size - at:
            raise CorruptError(f"{count} elements in {size - at} bytes", at=at)
        if count <= 0:
            continue
        if then != "array":
            at += count
            continue
        left[0] -= count
        if left[0] < 0:
            raise CorruptError("more elements than are taken: ask for fewer at once", at=at)
        for _ in range(count):
            at = _walk(element, flexible, body, at, left, tags)
    return at


# ---------------------------------------------------------------------------- one and many


def _lift_find_coordinator(old: Fields) -> Fields:
    return {**old, "coordinator_keys": (old["key"],)} if "key" in old else old


def _lift_offset_fetch(old: Fields) -> Fields:
    if "groups" in old:
        return old
    topics = old["topics"]
    return {**old, "groups": [{"group_id": old["group_id"], "topics": topics}]}


def _lift_leave_group(old: Fields) -> Fields:
    return {**old, "members": [{"member_id": old["member_id"]}]} if "member_id" in old else old


def _lift_delete_topics(old: Fields) -> Fields:
    if "topic_names" not in old:
        return old
    return {**old, "topics": [{"name": name} for name in old["topic_names"]]}


def _lower_find_coordinator(new: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    return new if version >= 4 else {**new, **new["coordinators"][0]}


def _lower_offset_fetch(new: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    return new if version >= 8 else {**new, **new["groups"][0]}


def _lower_leave_group(new: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    if version >= 3 or not new.get("members"):
        return new
    whole = new.get("error_code", ErrorCode.none)
    one = new["members"][0].get("error_code", ErrorCode.none)
    return {**new, "error_code": one if whole is ErrorCode.none else whole}


_LIFTED: dict[ApiKey, Callable[[Fields], Fields]] = {
    ApiKey.FIND_COORDINATOR: _lift_find_coordinator,
    ApiKey.OFFSET_FETCH: _lift_offset_fetch,
    ApiKey.LEAVE_GROUP: _lift_leave_group,
    ApiKey.DELETE_TOPICS: _lift_delete_topics,
}

_LOWERED: dict[ApiKey, Callable[[Mapping[str, Any], int], Mapping[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: _lower_find_coordinator,
    ApiKey.OFFSET_FETCH: _lower_offset_fetch,
    ApiKey.LEAVE_GROUP: _lower_leave_group,
}

"""Messages from a line of text are those of kio, which is made from Kafka's own definitions."""

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from lakelog.errors import CorruptError
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.schemas import Field, decode, encode, schema
from tests.unit.kafka_tools.scripted import every_api

_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "i8": st.integers(0, 100),
    "i16": st.integers(0, 1000),
    "i32": st.integers(0, 2**31 - 1),
    "i64": st.integers(0, 2**53),
    "f64": st.floats(0, 1e9),
    "str": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
    "uuid": st.binary(min_size=16, max_size=16),
}


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    drawn: st.SearchStrategy[Any]
    if field.kind == "struct":
        drawn = _structs(field.inner, version)
    elif field.kind == "array":
        drawn = st.lists(_values(field.inner[0], version), max_size=2)
    elif field.name == "error_code":
        drawn = st.sampled_from([0, 3, 36])
    elif field.name.endswith("_ms"):
        drawn = st.integers(0, 10_000)
    else:
        drawn = _SCALARS[field.kind]
    return drawn


def _structs(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    there = [one for one in fields if one.first <= version <= one.last]
    return st.fixed_dictionaries({one.name: _values(one, version) for one in there})


_SIDES = [
    pytest.param(api, version, side, id=f"{api.name} {version} {side}")
    for api in every_api()
    for version in range(api.oldest, api.newest + 1)
    for side in ("request", "response")
]


# There are two hundred of them, so each gets a part of the examples.
_FEWER = settings(max_examples=max(4, settings().max_examples // 10))


@pytest.mark.parametrize(("api", "version", "side"), _SIDES)
@_FEWER
@given(data=st.data())
def test_what_we_write_kio_reads_and_writes_again(
    api: Api, version: int, side: str, data: st.DataObject
) -> None:
    fields = schema(getattr(api, side))
    flexible = version >= api.flexible
    value = data.draw(_structs(fields, version))
    load = load_request_schema if side == "request" else load_response_schema
    kind: Any = load(api.key, version)

    ours = encode(fields, value, version, flexible)
    read, size = entity_reader(kind)(memoryview(ours), 0)
    again = BytesIO()
    entity_writer(kind)(again, read)

    assert size == len(ours)
    assert again.getvalue() == ours
    found = decode(fields, ours, 0, version, flexible)
    assert encode(fields, found, version, flexible) == ours


def test_what_is_not_given_is_nothing() -> None:
    fields = schema("a:i32 b:?str c:[i32] d:{e:str} f:?[g:i8] h:i64@5")

    assert decode(fields, encode(fields, {}, 0, True), 0, 0, True) == {
        "a": 0,
        "b": None,
        "c": [],
        "d": {"e": ""},
        "f": None,
        "h": 0,
    }


def test_an_array_that_cannot_be_there_is_not_made_room_for() -> None:
    with pytest.raises(CorruptError, match="do not fit"):
        decode(schema("a:[i8]"), b"\x7f\xff\xff\xff", 0, 0, False)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    fields = schema("a:?str b:[c:i16 d:?[str]] e:?{f:uuid} g:bytes")

    for flexible in (True, False):
        try:
            decode(fields, data, 0, 0, flexible)
        except CorruptError:
            continue

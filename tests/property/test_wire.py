"""Laws of the wire: what is read and written by hand is what kio reads and writes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from lakelog.broker.handlers import HANDLERS
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.wire import (
    ADVERTISED,
    APIS,
    ApiKey,
    CurrentLeader,
    FetchedPartition,
    FetchedTopic,
    MetadataBroker,
    MetadataPartition,
    Produced,
    decode_fetch,
    decode_produce,
    decode_request,
    decode_request_header,
    encode_fetch_response,
    encode_metadata,
    encode_metadata_topic,
    encode_produce_response,
    encode_response,
    find_api,
    response_start,
)
from lakelog.wire.apis import ELEMENTS_MAX
from lakelog.wire.repeats import match_produce, shape_of
from tests.property.messages import (
    messages,
    read_message,
    request_kind,
    response_kind,
    write_message,
)

fewer = hypothesis.settings(
    max_examples=max(5, hypothesis.settings.default.max_examples // 10)  # type: ignore[union-attr]
)
"""For laws that run once for each version."""


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


CONTROL = [
    (int(api.key), version)
    for api in APIS.values()
    if api.key not in (ApiKey.PRODUCE, ApiKey.FETCH)
    for version in range(api.min_version, api.max_version + 1)
]

I32, I64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
CODES = st.sampled_from(ErrorCode)
NAMES = st.text(max_size=8)
IDS = st.binary(min_size=16, max_size=16).filter(any)


def plain_id(id_: UUID | None) -> bytes:
    return id_.bytes if id_ is not None else bytes(16)


# ---------------------------------------------------------------------------- the table


def test_every_version_that_is_offered_is_one_that_kafka_has_and_its_flexibility_is_kafkas() -> (
    None
):
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            kind: Any = request_kind(int(api.key), version)
            assert kind.__name__ == f"{api.name}Request"
            assert (version >= api.flexible_from) == kind.__flexible__, (api, version)
            assert response_kind(int(api.key), version).__flexible__ == kind.__flexible__


def test_what_is_advertised_is_answered_but_for_the_oldest_ways_to_produce_and_log_in() -> None:
    offered = {(key, v) for key, low, high in ADVERTISED for v in range(low, high + 1)}
    answered = {(key, v) for key, v in offered if find_api(key, v)}
    assert offered - answered == {(0, 0), (0, 1), (0, 2), (17, 0)}
    assert APIS.keys() - {key for key, _, _ in ADVERTISED} == {ApiKey.BROKER_HEARTBEAT}


def test_every_api_has_a_handler_and_every_handler_an_api() -> None:
    assert {int(key) for key in HANDLERS} | {0, 1} == set(APIS)
    assert not {0, 1} & {int(key) for key in HANDLERS}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_headers_are_those_of_kafka(api: Any) -> None:
    for version in range(api.min_version, api.max_version + 1):
        kind: Any = request_kind(int(api.key), version)
        for client_id in ("", "client", None):
            header = kind.__header_schema__(
                request_api_key=int(api.key),
                request_api_version=version,
                correlation_id=-7,
                client_id=client_id,
            )
            frame = write_message(header)
            found = decode_request_header(memoryview(frame + b"body"))
            assert found == (api, version, -7, client_id or "", len(frame))
        start = response_start(api, version, 9)
        schema: Any = response_kind(int(api.key), version).__header_schema__
        assert write_message(schema(correlation_id=9)) == start


# ---------------------------------------------------------------------------- by hand


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@fewer
@given(data=st.data())
def test_what_kio_writes_as_a_produce_request_is_read_the_same(
    version: int, data: st.DataObject
) -> None:
    given_ = data.draw(messages(request_kind(0, version)))
    body = write_message(given_)
    at = data.draw(st.integers(0, 3))
    found = decode_produce(memoryview(bytes(at) + body), at, version)
    assert found.transactional_id == given_.transactional_id
    assert found.acks == given_.acks
    assert timedelta(milliseconds=found.timeout_ms) == given_.timeout
    assert len(found.topics) == len(given_.topic_data)
    for topic, theirs in zip(found.topics, given_.topic_data, strict=True):
        if version >= 13:
            assert (topic.name, topic.id) == ("", plain_id(theirs.topic_id))
        else:
            assert (topic.name, topic.id) == (theirs.name, b"")
        ours = [(at, None if part is None else bytes(part)) for at, part in topic.partitions]
        assert ours == [(one.index, one.records) for one in theirs.partition_data]


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
@fewer
@given(data=st.data())
def test_what_kio_writes_as_a_fetch_request_is_read_the_same(
    version: int, data: st.DataObject
) -> None:
    given_ = data.draw(messages(request_kind(1, version)))
    found = decode_fetch(memoryview(write_message(given_)), 0, version)
    replica = given_.replica_state.replica_id if version >= 15 else given_.replica_id
    assert found.replica_id == replica
    assert timedelta(milliseconds=found.max_wait_ms) == given_.max_wait
    assert (found.min_bytes, found.max_bytes) == (given_.min_bytes, given_.max_bytes)
    assert found.isolation == given_.isolation_level
    assert found.session_id == getattr(given_, "session_id", 0)
    assert found.session_epoch == getattr(given_, "session_epoch", -1)
    assert found.rack == getattr(given_, "rack_id", "")
    for topic, theirs in zip(found.topics, given_.topics, strict=True):
        assert topic.name == ("" if version >= 13 else theirs.topic)
        assert topic.id == (plain_id(theirs.topic_id) if version >= 13 else b"")
        for one, their in zip(topic.partitions, theirs.partitions, strict=True):
            assert one.partition == their.partition
            assert one.offset == their.fetch_offset
            assert one.max_bytes == their.partition_max_bytes
            assert one.leader_epoch == getattr(their, "current_leader_epoch", -1)
            assert one.last_epoch == getattr(their, "last_fetched_epoch", -1)
    forgotten = getattr(given_, "forgotten_topics_data", ())
    for (name, id_, indexes), theirs in zip(found.forgotten, forgotten, strict=True):
        assert (id_ if version >= 13 else name) == (
            plain_id(theirs.topic_id) if version >= 13 else theirs.topic
        )
        assert tuple(indexes) == theirs.partitions


LEADERS = st.none() | st.builds(CurrentLeader, I32, I32)
BROKERS = st.lists(st.builds(MetadataBroker, I32, NAMES, I32, st.none() | NAMES), max_size=3)


def assert_leader(theirs: Any, ours: CurrentLeader | None) -> None:
    if ours is None:
        assert theirs is None or (theirs.leader_id, theirs.leader_epoch) == (-1, -1)
    else:
        assert (theirs.leader_id, theirs.leader_epoch) == ours


def assert_endpoints(theirs: Any, ours: list[MetadataBroker]) -> None:
    assert [(one.node_id, one.host, one.port, one.rack) for one in theirs] == ours


PRODUCED = st.builds(
    Produced,
    I32,
    CODES,
    I64,
    st.just(-1) | st.integers(0, 1 << 41),
    I64,
    st.none() | NAMES,
    st.lists(st.tuples(I32, NAMES), max_size=2).map(tuple),
    LEADERS,
)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@fewer
@given(
    topics=st.lists(st.tuples(NAMES, IDS, st.lists(PRODUCED, max_size=3)), max_size=3),
    throttle_ms=st.integers(0, 1 << 30),
    endpoints=BROKERS,
)
def test_kio_reads_in_a_produce_response_what_was_given(
    version: int,
    topics: list[tuple[str, bytes, list[Produced]]],
    throttle_ms: int,
    endpoints: list[MetadataBroker],
) -> None:
    body = encode_produce_response(version, topics, throttle_ms, endpoints)
    found = read_message(response_kind(0, version), body)
    assert found.throttle_time == timedelta(milliseconds=throttle_ms)
    if version >= 10:
        assert_endpoints(found.node_endpoints, endpoints)
    for (name, id_, rows), theirs in zip(topics, found.responses, strict=True):
        if version >= 13:
            assert plain_id(theirs.topic_id) == id_
        else:
            assert theirs.name == name
        for row, their in zip(rows, theirs.partition_responses, strict=True):
            assert (their.index, their.error_code) == (row.partition, row.error)
            assert their.base_offset == row.base_offset
            time = their.log_append_time
            assert (-1 if time is None else _ms(time)) == row.append_time
            if version >= 5:
                assert their.log_start_offset == row.log_start
            if version >= 8:
                assert their.error_message == row.message
                blamed = [
                    (one.batch_index, one.batch_index_error_message) for one in their.record_errors
                ]
                assert blamed == list(row.record_errors)
            if version >= 10:
                assert_leader(their.current_leader, row.leader)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@st.composite
def fetched_partitions(draw: st.DrawFn) -> FetchedPartition:
    pieces = draw(st.lists(st.binary(max_size=200), max_size=3))
    size = sum(map(len, pieces))
    mark, start = draw(I64), draw(I64)
    views = [memoryview(piece) for piece in pieces]
    leader, preferred = draw(LEADERS), draw(st.just(-1) | st.integers(0, (1 << 31) - 1))
    return FetchedPartition(draw(I32), draw(CODES), mark, start, views, size, leader, preferred)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
@fewer
@given(
    topics=st.lists(
        st.builds(FetchedTopic, NAMES, IDS, st.lists(fetched_partitions(), max_size=3)), max_size=3
    ),
    error=CODES,
    session_id=I32,
    throttle_ms=st.integers(0, 1 << 30),
    endpoints=BROKERS,
)
def test_kio_reads_in_a_fetch_response_what_was_given(
    version: int,
    topics: list[FetchedTopic],
    error: ErrorCode,
    session_id: int,
    throttle_ms: int,
    endpoints: list[MetadataBroker],
) -> None:
    pieces = encode_fetch_response(
        version,
        topics,
        error=error,
        session_id=session_id,
        throttle_ms=throttle_ms,
        endpoints=endpoints,
    )
    found = read_message(response_kind(1, version), b"".join(pieces))
    assert found.throttle_time == timedelta(milliseconds=throttle_ms)
    if version >= 7:
        assert (found.error_code, found.session_id) == (error, session_id)
    for topic, theirs in zip(topics, found.responses, strict=True):
        if version >= 13:
            assert plain_id(theirs.topic_id) == topic.id
        else:
            assert theirs.topic == topic.name
        for row, their in zip(topic.partitions, theirs.partitions, strict=True):
            assert (their.partition_index, their.error_code) == (row.partition, row.error)
            assert their.high_watermark == their.last_stable_offset == row.high_watermark
            assert not their.aborted_transactions
            assert their.records == b"".join(row.pieces)
            if version >= 5:
                assert their.log_start_offset == row.log_start
            if version >= 11:
                assert their.preferred_read_replica == row.preferred_replica
            if version >= 12:
                assert_leader(their.current_leader, row.leader)
    if version >= 16:
        assert_endpoints(found.node_endpoints, endpoints)


METADATA_PARTITIONS = st.builds(
    MetadataPartition, st.integers(-1, (1 << 31) - 1), I32, st.lists(I32, max_size=3).map(tuple)
)


@st.composite
def metadata_topics(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "name": draw(NAMES),
        "topic_id": draw(IDS),
        "error": draw(CODES),
        "partitions": draw(st.lists(METADATA_PARTITIONS, max_size=3)),
    }


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
@fewer
@given(
    brokers=BROKERS,
    topics=st.lists(metadata_topics(), max_size=3),
    cluster_id=NAMES,
    controller_id=I32,
)
def test_kio_reads_in_a_metadata_response_what_was_given(
    version: int,
    brokers: list[MetadataBroker],
    topics: list[dict[str, Any]],
    cluster_id: str,
    controller_id: int,
) -> None:
    rows = [encode_metadata_topic(version, **topic) for topic in topics]
    body = encode_metadata(
        version, brokers, rows, cluster_id=cluster_id, controller_id=controller_id
    )
    found = read_message(response_kind(3, version), body)
    for broker, their in zip(brokers, found.brokers, strict=True):
        assert (their.node_id, their.host, their.port) == broker[:3]
        assert version == 0 or their.rack == broker.rack
    assert version < 2 or found.cluster_id == cluster_id
    assert version < 1 or found.controller_id == controller_id
    for topic, theirs in zip(topics, found.topics, strict=True):
        assert (theirs.name, theirs.error_code) == (topic["name"], topic["error"])
        assert version < 10 or plain_id(theirs.topic_id) == topic["topic_id"]
        assert version < 1 or theirs.is_internal is False
        for index, one in enumerate(topic["partitions"]):
            part = theirs.partitions[index]
            assert (part.partition_index, part.leader_id) == (index, one.leader)
            assert part.replica_nodes == part.isr_nodes == one.replicas
            leaderless = ErrorCode.leader_not_available if one.leader < 0 else ErrorCode.none
            assert part.error_code is leaderless
            assert version < 7 or part.leader_epoch == one.epoch
        assert len(theirs.partitions) == len(topic["partitions"])


@given(data=st.data(), version=st.sampled_from(versions(ApiKey.PRODUCE)))
def test_what_is_recognised_as_a_repetition_is_what_decoding_says(
    data: st.DataObject, version: int
) -> None:
    kind = request_kind(0, version)
    first = data.draw(messages(kind))
    part = (
        st.builds(
            type(first.topic_data[0].partition_data[0]),
            index=I32,
            records=st.none() | st.binary(max_size=200),
        )
        if first.topic_data and first.topic_data[0].partition_data
        else st.nothing()
    )
    again = first
    if first.topic_data and first.topic_data[0].partition_data and data.draw(st.booleans()):
        topic = replace(first.topic_data[0], partition_data=(data.draw(part),))
        first = replace(first, transactional_id=None, acks=-1, topic_data=(topic,))
        topic = replace(topic, partition_data=(data.draw(part),))
        again = replace(first, topic_data=(topic,))
    frames = [_framed(version, number, one) for number, one in enumerate((first, again))]
    header = decode_request_header(frames[0])
    shape = shape_of(frames[0], header, decode_produce(frames[0], header.body_at, version))
    if shape is None:
        return
    other = bytearray(frames[1])
    if data.draw(st.booleans()):
        other[data.draw(st.integers(0, len(other) - 1))] ^= data.draw(st.integers(1, 255))
    frame = memoryview(bytes(other))
    try:
        found = match_produce(shape, frame)
    except CorruptError:
        found = None
    if found is None:
        return
    hypothesis.target(1.0)
    full = decode_request_header(frame)
    assert full[:2] == header[:2]
    request = decode_produce(frame, full.body_at, version)
    ((name, id_, [(index, records)]),) = request.topics
    assert found == (index, records)
    (common_,) = shape.request.topics
    assert (name, id_, *request[:3]) == (common_.name, common_.id, *shape.request[:3])


def _framed(version: int, number: int, request: Any) -> memoryview:
    header = type(request).__header_schema__(
        request_api_key=0, request_api_version=version, correlation_id=number, client_id="c"
    )
    return memoryview(write_message(header) + write_message(request))


# ---------------------------------------------------------------------------- hostile bytes

KEYS = [(int(key), version) for key in APIS for version in versions(ApiKey(key))]


def decode_any(key: int, version: int, body: bytes) -> Any:
    if key == ApiKey.PRODUCE:
        return decode_produce(memoryview(body), 0, version)
    if key == ApiKey.FETCH:
        return decode_fetch(memoryview(body), 0, version)
    return decode_request(key, version, memoryview(body))


@hypothesis.settings(max_examples=4 * hypothesis.settings.default.max_examples)  # type: ignore[union-attr]
@given(key=st.sampled_from(KEYS), data=st.data())
def test_every_proper_prefix_of_a_request_is_refused_and_what_stands_behind_it_adds_nothing(
    key: tuple[int, int], data: st.DataObject
) -> None:
    body = write_message(data.draw(messages(request_kind(*key))))
    meant = decode_any(*key, body)
    if body:
        with pytest.raises(CorruptError):
            decode_any(*key, body[: data.draw(st.integers(0, len(body) - 1))])
    more = body + data.draw(st.binary(min_size=1, max_size=5))
    if key[0] in (ApiKey.PRODUCE, ApiKey.FETCH):
        with pytest.raises(CorruptError):
            decode_any(*key, more)
    else:
        assert decode_any(*key, more) == meant


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_all_topics_are_asked_for_by_a_null_of_four_bytes_as_well(version: int) -> None:
    flags = b"\1\0\0" if version <= 10 else b"\1\0"
    sent = decode_request(ApiKey.METADATA, version, memoryview(bytes(4) + flags + b"\0"))
    assert sent.topics is None


@hypothesis.settings(max_examples=4 * hypothesis.settings.default.max_examples)  # type: ignore[union-attr]
@given(key=st.sampled_from(KEYS), data=st.data())
def test_a_request_with_a_wrong_byte_is_refused_or_read_and_nothing_else_happens(
    key: tuple[int, int], data: st.DataObject
) -> None:
    body = bytearray(write_message(data.draw(messages(request_kind(*key)))))
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptError):
        decode_any(*key, bytes(body))


@given(key=st.sampled_from(KEYS), body=st.binary(max_size=60))
def test_any_bytes_are_refused_or_read(key: tuple[int, int], body: bytes) -> None:
    with suppress(CorruptError):
        decode_any(*key, body)


@given(frame=st.binary(max_size=40))
def test_any_bytes_are_a_header_or_refused(frame: bytes) -> None:
    try:
        header = decode_request_header(memoryview(frame))
    except (CorruptError, UnsupportedError):
        return
    assert 10 <= header.body_at <= len(frame)


# ---------------------------------------------------------------------------- by kio


def common(old: Any, new: Any) -> None:
    """Whatever both have is the same."""
    for one in fields(type(old)):
        if not hasattr(new, one.name):
            continue
        mine, theirs = getattr(old, one.name), getattr(new, one.name)
        if isinstance(mine, tuple) and mine and is_dataclass(mine[0]):
            assert len(mine) == len(theirs), one.name
            for pair in zip(mine, theirs, strict=True):
                common(*pair)
        elif is_dataclass(mine):
            common(mine, theirs)
        else:
            assert mine == theirs, one.name


@pytest.mark.parametrize(("key", "version"), CONTROL)
@fewer
@given(data=st.data())
def test_a_request_of_any_version_is_lifted_to_the_newest_without_losing_anything(
    key: int, version: int, data: st.DataObject
) -> None:
    given_ = data.draw(messages(request_kind(key, version)))
    found = decode_request(key, version, memoryview(write_message(given_)))
    assert type(found) is request_kind(key, APIS[key].max_version)
    common(given_, found)
    match key:
        case ApiKey.FIND_COORDINATOR if version < 4:
            assert found.coordinator_keys == (given_.key,)
        case ApiKey.LEAVE_GROUP if version < 3:
            assert [one.member_id for one in found.members] == [given_.member_id]
        case ApiKey.DELETE_TOPICS if version < 6:
            assert tuple(one.name for one in found.topics) == given_.topic_names
        case ApiKey.OFFSET_FETCH if version < 8:
            (group,) = found.groups
            assert group.group_id == given_.group_id
            assert (group.topics is None) == (given_.topics is None)
            for topic, theirs in zip(group.topics or (), given_.topics or (), strict=True):
                common(theirs, topic)


def plain(value: Any) -> Any:
    """A message as a handler would give it: dictionaries, milliseconds."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(type(value))}  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    return value


def contained(new: Mapping[str, Any], old: Any) -> None:
    """Whatever an older version has of the newest is the same, but for what it cannot leave out."""
    for one in fields(type(old)):
        if one.name not in new:
            continue
        mine, theirs = new[one.name], getattr(old, one.name)
        if isinstance(mine, list) and mine and isinstance(mine[0], dict):
            for pair in zip(mine, theirs, strict=True):
                contained(*pair)
        elif mine is None:
            assert theirs in (None, "", b"", ()), one.name
        else:
            assert plain(theirs) == mine, one.name


@pytest.mark.parametrize(("key", "version"), CONTROL)
@fewer
@given(data=st.data())
def test_a_response_of_the_newest_version_is_lowered_to_every_one(
    key: int, version: int, data: st.DataObject
) -> None:
    new: dict[str, Any] = plain(data.draw(messages(response_kind(key, APIS[key].max_version))))
    flat = {ApiKey.FIND_COORDINATOR: ("coordinators", 4), ApiKey.OFFSET_FETCH: ("groups", 8)}
    many, from_ = flat.get(ApiKey(key), ("", 0))
    hypothesis.assume(not many or version >= from_ or new[many])
    old = read_message(response_kind(key, version), encode_response(key, version, new))
    if version < from_:
        contained(new[many][0], old)
    elif key == ApiKey.LEAVE_GROUP and version < 3:
        codes = {new["error_code"], *(one["error_code"] for one in new["members"][:1])}
        assert old.error_code in codes
    else:
        contained(new, old)


@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_a_response_of_which_nothing_is_given_but_what_has_no_default_is_a_response(
    key: int, version: int
) -> None:
    """Handlers leave out what is the default."""
    needed: dict[ApiKey, dict[str, Any]] = {
        ApiKey.FIND_COORDINATOR: {
            "coordinators": [{"key": "g", "node_id": 1, "host": "h", "port": 2}]
        },
        ApiKey.OFFSET_FETCH: {"groups": [{"group_id": "g", "topics": []}]},
        ApiKey.METADATA: {"controller_id": 1},
        ApiKey.DESCRIBE_CLUSTER: {"cluster_id": "c", "controller_id": 1},
        ApiKey.JOIN_GROUP: {"generation_id": 1, "protocol_name": "", "leader": "", "member_id": ""},
        ApiKey.SYNC_GROUP: {"assignment": b""},
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {"member_epoch": 1},
        ApiKey.INIT_PRODUCER_ID: {"producer_id": 1, "producer_epoch": 0},
    }
    given_ = needed.get(ApiKey(key), {})
    read_message(response_kind(key, version), encode_response(key, version, given_))


@pytest.mark.parametrize(
    ("key", "version"), [(key, v) for key, v in CONTROL if v >= APIS[key].flexible_from]
)
@fewer
@given(data=st.data(), tag=st.integers(0, 1 << 30), value=st.binary(max_size=5), many=st.booleans())
def test_tags_that_nobody_knows_are_passed_over(
    key: int, version: int, data: st.DataObject, tag: int, value: bytes, many: bool
) -> None:
    """That is how later versions of clients say more."""
    given_ = data.draw(messages(request_kind(key, version)))
    body = write_message(given_)
    one = _uvarint(tag) + _uvarint(len(value)) + value
    tags = b"\2" + one + one if many else b"\1" + one
    assert body[-1:] == b"\0"
    found = decode_request(key, version, memoryview(body[:-1] + tags))
    assert found == decode_request(key, version, memoryview(body))


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def test_no_request_that_kio_reads_has_tags_of_its_own() -> None:
    """They are taken out before it sees one."""

    def tagged(kind: Any) -> list[str]:
        return [one.name for one in fields(kind) if "tag" in one.metadata]

    for key, version in CONTROL:
        assert not tagged(load_request_schema(key, version)), (key, version)


def test_more_elements_than_a_request_may_have_are_refused() -> None:
    kind = request_kind(ApiKey.DELETE_TOPICS, 1)
    names = ("",) * (ELEMENTS_MAX + 1)
    body = write_message(kind(topic_names=names, timeout=timedelta(0)))
    with pytest.raises(CorruptError, match="elements"):
        decode_request(ApiKey.DELETE_TOPICS, 1, memoryview(body))
    body = write_message(kind(topic_names=names[1:], timeout=timedelta(0)))
    assert len(decode_request(ApiKey.DELETE_TOPICS, 1, memoryview(body)).topics) == ELEMENTS_MAX

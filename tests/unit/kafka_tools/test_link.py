"""A connection speaks what the broker speaks, and says who it is."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

from lakelog_kafka_tools import apis, sasl
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.cluster import (
    check_bootstrap,
    open_cluster,
    parse_bootstrap,
)
from lakelog_kafka_tools.link import Link
from lakelog_kafka_tools.settings import Security
from lakelog_kafka_tools.thrown import Thrown
from tests.unit.kafka_tools.scripted import Answer, metadata, scripted

_SALT, _ITERATIONS = b"salt", 4096


class _Scram:
    """The broker's side of SCRAM-SHA-256."""

    def __init__(self, password: bytes) -> None:
        self._key = sasl.salted("SCRAM-SHA-256", password, _SALT, _ITERATIONS)
        self._said: list[str] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        message = request["auth_bytes"].decode()
        if not self._said:
            bare = message.removeprefix("n,,")
            nonce = bare.partition("r=")[2] + "more"
            salt = base64.b64encode(_SALT).decode()
            first = f"r={nonce},s={salt},i={_ITERATIONS}"
            self._said += [bare, first]
            return {"auth_bytes": first.encode()}
        final, _, proof = message.rpartition(",p=")
        signed = ",".join([*self._said, final]).encode()
        client = hmac.digest(self._key, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
        expected = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        if base64.b64decode(proof) != expected:
            return {"error_code": 58, "error_message": "Authentication failed: wrong password"}
        server = hmac.digest(hmac.digest(self._key, b"Server Key", "sha256"), signed, "sha256")
        return {"auth_bytes": b"v=" + base64.b64encode(server)}


def _connect(bootstrap: str, security: Security) -> Link:
    host, _, port = bootstrap.partition(":")
    return Link(host, int(port), security, "test", 5)


@pytest.mark.parametrize("newest", [1, 5, 9, 12, 99])
def test_the_newest_version_that_both_know_is_spoken(newest: int) -> None:
    with scripted({apis.METADATA: {}}, {apis.METADATA: newest}) as broker:
        broker.answers[apis.METADATA] = metadata(broker.bootstrap, {"name": "a"})
        link = _connect(broker.bootstrap, Security())
        answer = link.ask(apis.METADATA, {"topics": None}, 5)
        link.close()

    assert [row["name"] for row in answer["topics"]] == ["a"]
    assert broker.asked[-1][:2] == ("METADATA", min(newest, 12))


def test_an_api_that_a_broker_does_not_have_is_told() -> None:
    with scripted({}) as broker:
        link = _connect(broker.bootstrap, Security())
        with pytest.raises(Thrown, match="The node does not support OFFSET_DELETE"):
            link.ask(apis.OFFSET_DELETE, {}, 5)
        link.close()


def test_a_password_is_proved_and_not_sent() -> None:
    scram = _Scram(b"secret")
    answers: dict[Api, Answer] = {
        apis.SASL_HANDSHAKE: {},
        apis.SASL_AUTHENTICATE: scram.answer,
    }
    security = Security(mechanism="SCRAM-SHA-256", username="ann", password="secret")
    with scripted(answers) as broker:
        _connect(broker.bootstrap, security).close()

    assert all(b"secret" not in asked.get("auth_bytes", b"") for *_, asked in broker.asked)


def test_a_wrong_password_is_javas_exception() -> None:
    scram = _Scram(b"secret")
    answers: dict[Api, Answer] = {
        apis.SASL_HANDSHAKE: {},
        apis.SASL_AUTHENTICATE: scram.answer,
    }
    security = Security(mechanism="SCRAM-SHA-256", username="ann", password="wrong")
    with (
        scripted(answers) as broker,
        pytest.raises(Thrown, match="SaslAuthenticationException: Authentication failed"),
    ):
        _connect(broker.bootstrap, security)


def test_a_mechanism_that_a_broker_does_not_take_is_told() -> None:
    answer = {"error_code": 33, "mechanisms": ["GSSAPI"]}
    security = Security(mechanism="PLAIN", username="a", password="b")
    with (
        scripted({apis.SASL_HANDSHAKE: answer, apis.SASL_AUTHENTICATE: {}}) as broker,
        pytest.raises(Thrown, match=r"enabled mechanisms are \[GSSAPI\]"),
    ):
        _connect(broker.bootstrap, security)


def test_a_coordinator_that_is_not_there_yet_is_asked_for_again() -> None:
    codes = iter([15, 0])

    def find(_: dict[str, Any]) -> dict[str, Any]:
        host, port = broker.bootstrap.split(":")
        return {"error_code": next(codes), "node_id": 1, "host": host, "port": int(port)}

    done = {"results": [{"group_id": "g", "error_code": 0}]}
    with scripted({apis.FIND_COORDINATOR: find, apis.DELETE_GROUPS: done}) as broker:
        cluster = open_cluster(broker.bootstrap, {}, lambda _: None)
        answer, node = cluster.ask_coordinator(
            "g", apis.DELETE_GROUPS, {"groups_names": ["g"]}, "deleteGroups", lambda _: 0
        )
        cluster.close()

    assert answer["results"][0]["group_id"] == "g"
    assert node.id == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Invalid url in bootstrap.servers: nonsense"),
        ("no.such.host.invalid:9", "No resolvable bootstrap urls given in bootstrap.servers"),
    ],
)
def test_an_address_that_is_none_is_javas_exception(text: str, message: str) -> None:
    with pytest.raises(Thrown, match="Failed to create new KafkaAdminClient") as thrown:
        parse_bootstrap(text)

    assert thrown.value.cause is not None
    assert thrown.value.cause.message == message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("a:1", False), ("a:1,b:2", False), ("[::1]:9", False), ("a", True), ("", True)],
)
def test_some_tools_look_at_addresses_first(text: str, wrong: bool) -> None:
    assert bool(check_bootstrap(text)) == wrong

"""Quotas are altered and described as by a real Kafka: the same requests, the same answers.

Both are told the same few hundred random alterations, right and wrong ones, and asked with the same
filters. Messages are compared where a request has one flaw: of several, Kafka tells any.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from lakelog_kafka_tools import apis
from lakelog_kafka_tools.cluster import Cluster, open_cluster
from tests.parts.kafka import Kafka
from tests.parts.lakelog import running_lakelog
from tests.patience import HANGS_S, in_time

pytestmark = pytest.mark.kafka

ROUNDS = 300
KINDS = ("user", "client-id", "ip")
NAMES = {
    "user": ("alice", "bob", "CN=carol,O=x", "", None),
    "client-id": ("app", "import", "", None),
    "ip": ("10.0.0.1", "::1", None),
    "nonsense": ("x", None),
}
KEYS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "connection_creation_rate", "nonsense",
)  # fmt: skip
VALUES = (1.0, 5.0, 1024.0, 5.0000001, 0.5, 12.5, 0.0, -1.0, 3e9, 1e19, None, None, None)


class Side:
    """One of the two, asked by the same client."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def alter(self, entries: list[Any], *, validate_only: bool) -> set[Any]:
        request = {"entries": entries, "validate_only": validate_only}
        answer = self._cluster.ask(apis.ALTER_CLIENT_QUOTAS, request, "alterClientQuotas")
        return {
            (row["error_code"], row["error_message"], _entity(row["entity"]))
            for row in answer["entries"]
        }

    def describe(self, components: list[Any], *, strict: bool) -> Any:
        request = {"components": components, "strict": strict}
        answer = self._cluster.ask(apis.DESCRIBE_CLIENT_QUOTAS, request, "describeClientQuotas")
        if answer["entries"] is None:
            return answer["error_code"], answer["error_message"]
        return {
            (_entity(row["entity"]), frozenset((one["key"], one["value"]) for one in row["values"]))
            for row in answer["entries"]
        }


def _entity(rows: list[Any]) -> Any:
    return frozenset((one["entity_type"], one["entity_name"]) for one in rows)


@pytest.fixture
def sides(kafka: Kafka) -> Iterator[tuple[Side, Side]]:
    with (
        running_lakelog() as broker,
        closing(open_cluster(kafka.bootstrap, {}, print)) as theirs,
        closing(open_cluster(broker.bootstrap, {}, print)) as ours,
    ):
        yield Side(theirs), Side(ours)


def an_entity(random: Random) -> list[Any]:
    kinds = random.choice([("user",), ("client-id",), ("user", "client-id"), ("ip",)])
    if random.random() < 0.1:
        kinds = tuple(random.choices(list(NAMES), k=random.randrange(3)))
    return [{"entity_type": kind, "entity_name": random.choice(NAMES[kind])} for kind in kinds]


def an_entry(random: Random) -> tuple[list[Any], list[Any]]:
    entity = an_entity(random)
    is_ip = any(one["entity_type"] == "ip" for one in entity)
    usual = KEYS[4:5] if is_ip else KEYS[:4]
    ops = []
    for key in random.sample(KEYS if random.random() < 0.1 else usual, k=1):
        value = random.choice(VALUES)
        ops.append({"key": key, "value": value or 0.0, "remove": value is None})
    if random.random() < 0.3 and not is_ip:
        key = next(one for one in usual if one != ops[0]["key"])
        ops.append({"key": key, "value": 7.0, "remove": random.random() < 0.3})
    if random.random() < 0.05:
        ops.append(ops[0])
    return entity, ops


def a_filter(random: Random) -> list[Any]:
    rows = []
    kinds = random.sample(KINDS[:2], k=random.randrange(3))
    if random.random() < 0.2:
        kinds = random.choices(["ip", "user", "nonsense", ""], k=random.randrange(1, 3))
    for kind in kinds:
        match = random.randrange(3) if random.random() < 0.95 else 7
        name = random.choice([one for one in NAMES.get(kind, ("x",)) if one is not None])
        is_named = match == 0 if random.random() < 0.95 else match != 0
        row = {"entity_type": kind, "match_type": match, "match": name if is_named else None}
        rows.append(row)
    return rows


def _has_two_flaws(entry: Any) -> bool:
    """Of a kind that is not known, and something else that may be wrong."""
    kinds = [one["entity_type"] for one in entry["entity"]]
    return "nonsense" in kinds and len(kinds) > 1


def _codes(rows: set[Any]) -> set[Any]:
    return {(code, entity) for code, _, entity in rows}


def test_alterations_and_filters_have_the_same_answers(sides: tuple[Side, Side]) -> None:
    theirs, ours = sides
    random = Random(7)
    codes = set()
    for _ in range(ROUNDS):
        entries = [
            {"entity": entity, "ops": ops}
            for entity, ops in (an_entry(random) for _ in range(random.choice([1, 1, 1, 2])))
        ]
        validate_only = random.random() < 0.1
        expected = theirs.alter(entries, validate_only=validate_only)
        found = ours.alter(entries, validate_only=validate_only)
        if any(_has_two_flaws(entry) for entry in entries):
            found, expected = _codes(found), _codes(expected)
        assert found == expected, entries
        codes |= {code for code, *_ in found}
    assert codes == {0, 42}

    # What a controller was told its brokers know a little later.
    everything = ours.describe([], strict=False)
    assert len(everything) > 10
    deadline, gone = time.monotonic() + HANGS_S, threading.Event()
    while theirs.describe([], strict=False) != everything and time.monotonic() < deadline:
        gone.wait(0.1)
    in_time(theirs.describe([], strict=False) == everything, "they differ")
    told = set()
    for _ in range(ROUNDS):
        components, strict = a_filter(random), random.random() < 0.5
        expected = theirs.describe(components, strict=strict)
        assert ours.describe(components, strict=strict) == expected, components
        told.add(expected[0] if isinstance(expected, tuple) else len(expected))
    assert {35, 42, 0, 1} <= told

"""The probes of columns, on one cluster: what each was answered."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from lakelog.security import Acl
from tests.e2e.acls.columns import ADMIN, Column, Names
from tests.e2e.acls.probes import PROBES, consumer_join, outcome
from tests.unit.broker.site import Client

__all__ = ["Matrix", "run_matrix"]

Matrix = dict[str, dict[str, str]]
"""By column and probe: what was answered."""

CLOSED = "the connection is closed"
PATIENCE_S = 30


async def run_matrix(port: int, columns: Sequence[Column]) -> Matrix:
    """Ask everything in the name of each column."""
    admin = await _connect(port, ADMIN)
    try:
        await _until(
            admin, 22, 4, lambda one: one.error_code is ErrorCode.none,
            transactional_id=None, transaction_timeout=1_000, producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        await _allow(admin, [acl for column in columns for acl in column.acls()])
        return {str(column): await _column(port, admin, column) for column in columns}
    finally:
        await admin.close()


async def _column(port: int, admin: Client, column: Column) -> dict[str, str]:
    names = column.names
    ids = await _furnish(admin, names)
    client = await _connect(port, column.host)
    found: dict[str, str] = {}
    for probe in PROBES:
        try:
            answer = await client.ask(probe.key, probe.version, **probe.given(names, ids))
            found[str(probe)] = outcome(probe, answer, names)
        except (EOFError, ConnectionError):
            found[str(probe)] = CLOSED
            await client.close()
            client = await _connect(port, column.host)
    await client.close()
    return found


async def _connect(port: int, host: str) -> Client:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, local_addr=(host, 0), limit=1 << 24
    )
    return Client(reader, writer)


# ---------------------------------------------------------------------------- what there is


async def _allow(admin: Client, acls: Sequence[Acl]) -> None:
    rows = [
        {
            "resource_type": one.resource_type,
            "resource_name": one.name,
            "resource_pattern_type": one.pattern_type,
            "principal": one.principal,
            "host": one.host,
            "operation": one.operation,
            "permission_type": one.permission,
        }
        for one in acls
    ]
    made = await admin.ask(30, 3, creations=rows)
    assert all(one.error_code is ErrorCode.none for one in made.results), made


async def _furnish(admin: Client, names: Names) -> dict[str, UUID]:
    """Make the topics and groups of a column; return the ids of topics."""
    there = (names.topic, names.doomed)
    plain = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topics = [{"name": name, **plain} for name in there]
    made = await admin.ask(19, 7, topics=topics, timeout=20_000, validate_only=False)
    ids = {str(one.name): one.topic_id for one in made.topics}
    for name in there:
        await _until(admin, 3, 12, _is_led, **_asked(name))
    for group in (names.group, names.doomed_group):
        await _until(admin, 10, 4, _is_found, key_type=0, coordinator_keys=[group])
        part = {"committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
        committed = [{"name": names.topic, "partitions": [{"partition_index": 0, **part}]}]
        await _until(
            admin, 8, 9, lambda one: one.topics[0].partitions[0].error_code is ErrorCode.none,
            group_id=group, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=committed,
        )  # fmt: skip
    joining = consumer_join(names.members, "BBBBBBBBBBBBBBBBBBBBBQ", names=[names.topic])
    await _until(admin, 68, 1, _is_assigned, **joining)
    return ids


def _asked(name: str) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": None, "name": name}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }


def _is_led(answer: Any) -> bool:
    (topic,) = answer.topics
    return bool(topic.partitions) and topic.partitions[0].leader_id >= 0


def _is_found(answer: Any) -> bool:
    return bool(answer.coordinators[0].error_code is ErrorCode.none)


def _is_assigned(answer: Any) -> bool:
    return answer.error_code is ErrorCode.none and bool(
        answer.assignment and answer.assignment.topic_partitions
    )


async def _until(client: Client, key: int, version: int, good: Any, /, **fields: Any) -> None:
    """Ask until the answer is good: a cluster takes a moment until what was made is known."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while not good(answer := await client.ask(key, version, **fields)):
        assert loop.time() < end_s, answer
        await asyncio.sleep(0.05)

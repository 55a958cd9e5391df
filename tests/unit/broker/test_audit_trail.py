"""What is denied, changed and tried at a door is written down: all of it, nothing else, no secret.

The requests are those of the matrix, which speak of every API; that an answer denies something is
read off the answer, as the client sees it.
"""

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Limits
from lakelog.catalog import add_acls
from lakelog.host import new_id
from tests.e2e.acls.columns import Names
from tests.e2e.acls.probes import PROBES, outcome
from tests.unit.broker.site import Site, batch, broker, connect, story
from tests.unit.broker.test_logins import plain, sasl, scram, with_users
from tests.unit.broker.test_stranger import ON, OWNER, STRANGER, lived_in, owner

THERE = Names.of(500)
DENIED = "AUTHORIZATION_FAILED"
NO_ACLS = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
"""Answered to everybody: there are no transactions here."""


def new_file() -> Path:
    return Path(mkdtemp()) / "audit"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def new_lines(running: Broker, path: Path) -> list[dict[str, Any]]:
    """Return what was written down since the last time."""
    await running.services.audit.flush()
    found = lines(path)
    path.unlink()
    return found


@story
async def test_what_is_answered_with_a_denial_is_written_down_and_nothing_else() -> None:
    path, denied = new_file(), set[str]()
    async with lived_in(Site(), audit_log=path) as running:
        await new_lines(running, path)
        for probe in PROBES:
            client = await connect(running, source=STRANGER)
            answer = await client.ask(
                probe.key, probe.version, **probe.given(THERE, {}), client_id=str(probe)
            )
            said = outcome(probe, answer, THERE).replace(NO_ACLS, "")
            await running.services.audit.flush()
            mine = (row for row in lines(path) if row["client_id"] == str(probe))
            found = [row for row in mine if row["event"] == "denied"]
            assert bool(found) == (DENIED in said), (str(probe), said, found)
            assert all(row["api"] == probe.api for row in found), found
            assert all(row["address"] == STRANGER for row in found), found
            denied |= {probe.api for _ in found}
            await client.close()
        counts = running.services.metrics.security.denials
        assert counts["WRITE", "TOPIC"] >= 2
        assert counts["READ", "GROUP"] >= 4
        assert sum(counts.values()) == sum(row["event"] == "denied" for row in lines(path))
    assert len(denied) > 30


CHANGES: list[tuple[int, int, dict[str, Any], list[tuple[str, str, str, str]]]] = [
    (
        19, 7,
        {
            "topics": [
                {
                    "name": name, "num_partitions": 2, "replication_factor": 1,
                    "assignments": [], "configs": [],
                }
                for name in ("new", "no/name")
            ],
            "timeout": 10_000, "validate_only": False,
        },
        [
            ("CREATE", "TOPIC:new", "NONE", "2 partitions"),
            ("CREATE", "TOPIC:no/name", "INVALID_TOPIC_EXCEPTION", ""),
        ],
    ),
    (
        37, 3,
        {
            "topics": [{"name": "new", "count": 3, "assignments": None}], "timeout": 10_000,
            "validate_only": False,
        },
        [("ALTER", "TOPIC:new", "NONE", "3 partitions")],
    ),
    (
        44, 1,
        {
            "resources": [
                {
                    "resource_type": 2, "resource_name": "new",
                    "configs": [
                        {"name": "retention.ms", "value": "1000", "config_operation": 0},
                        {"name": "segment.bytes", "value": None, "config_operation": 1},
                    ],
                }
            ],
            "validate_only": False,
        },
        [("ALTER_CONFIGS", "TOPIC:new", "NONE", "retention.ms=1000, segment.bytes removed")],
    ),
    (
        33, 2,
        {
            "resources": [
                {
                    "resource_type": 2, "resource_name": "new",
                    "configs": [{"name": "retention.ms", "value": "2000"}],
                }
            ],
            "validate_only": False,
        },
        [("ALTER_CONFIGS", "TOPIC:new", "NONE", "retention.ms=2000")],
    ),
    (
        21, 2,
        {
            "topics": [
                {"name": "new", "partitions": [{"partition_index": 0, "offset": 0}]}
            ],
            "timeout": 10_000,
        },
        [("DELETE", "TOPIC:new", "NONE", "partition 0 before offset 0")],
    ),
    (
        30, 3,
        {
            "creations": [
                {
                    "resource_type": 2, "resource_name": "new", "resource_pattern_type": 4,
                    "principal": "User:bob", "host": "*", "operation": 3, "permission_type": 2,
                }
            ]
        },
        [("ALTER", "TOPIC:new*", "NONE", "added: User:bob from *: DENY READ")],
    ),
    (
        31, 3,
        {
            "filters": [
                {
                    "resource_type_filter": 2, "resource_name_filter": "new",
                    "pattern_type_filter": 4, "principal_filter": None, "host_filter": None,
                    "operation": 1, "permission_type": 1,
                }
            ]
        },
        [("ALTER", "TOPIC:new*", "NONE", "removed: User:bob from *: DENY READ")],
    ),
    (
        49, 1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": None}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
                }
            ],
            "validate_only": False,
        },
        [("ALTER_CONFIGS", "USER:<default>", "NONE", "producer_byte_rate=1e+06")],
    ),
    (
        51, 0,
        {
            "deletions": [{"name": "bob", "mechanism": 1}],
            "upsertions": [
                {
                    "name": "alice", "mechanism": 2, "iterations": 8192, "salt": b"grain",
                    "salted_password": b"hushhush" * 8,
                }
            ],
        },
        [
            ("ALTER", "USER:bob", "RESOURCE_NOT_FOUND", "SCRAM-SHA-256 removed"),
            ("ALTER", "USER:alice", "NONE", "SCRAM-SHA-512 set"),
        ],
    ),
    (
        47, 0,
        {
            "group_id": THERE.group,
            "topics": [{"name": THERE.topic, "partitions": [{"partition_index": 0}]}],
        },
        [("DELETE", f"GROUP:{THERE.group}", "NONE", f"the offset of {THERE.topic}-0")],
    ),
    (
        42, 2, {"groups_names": [THERE.doomed_group]},
        [("DELETE", f"GROUP:{THERE.doomed_group}", "NONE", "")],
    ),
    (
        20, 6,
        {"topics": [{"name": "new", "topic_id": None}], "timeout": 10_000},
        [("DELETE", "TOPIC:new", "NONE", "")],
    ),
]  # fmt: skip


@story
async def test_every_change_is_written_down_with_what_it_changed() -> None:
    path = new_file()
    async with lived_in(Site(), audit_log=path) as running:
        client = await connect(running, source=OWNER)
        await new_lines(running, path)
        for key, version, given, expected in CHANGES:
            await client.ask(key, version, **given)
            found = await new_lines(running, path)
            rows = [
                tuple(row[name] for name in ("operation", "resource", "result", "detail"))
                for row in found
            ]
            assert rows == expected, (key, found)
            assert {row["event"] for row in found} == {"change"}
            assert b"hush" not in json.dumps(found).encode()
        await client.ask(
            3, 12, topics=[{"topic_id": None, "name": "by-the-way"}],
            allow_auto_topic_creation=True, include_topic_authorized_operations=False,
        )  # fmt: skip
        (made,) = await new_lines(running, path)
        assert (made["api"], made["resource"]) == ("Metadata", "TOPIC:by-the-way")
        await client.close()


@story
async def test_logins_are_written_down_with_how_they_ended_and_no_password() -> None:
    path, site = new_file(), with_users("alice")
    limits = Limits(drain_ms=1_000, failed_login_delay_ms=0)
    doors = sasl(mechanisms=("SCRAM-SHA-512", "PLAIN"))
    async with broker(site, listeners=doors, limits=limits, audit_log=path) as running:
        for log_in, password in ((plain, None), (scram, None), (plain, "hush"), (scram, "hush")):
            client = await connect(running)
            await log_in(client, "alice", password)
            await client.close()
        client = await connect(running)
        await client.ask(17, 1, mechanism="GSSAPI")
        await client.close()
        found = await new_lines(running, path)
    failed = ErrorCode.sasl_authentication_failed.name.upper()
    assert [(row["event"], row["principal"], row["result"]) for row in found] == [
        ("login", "User:alice", "NONE"),
        ("login", "User:alice", "NONE"),
        ("login", "User:alice", failed),
        ("login", "User:alice", failed),
        ("login", "", ErrorCode.unsupported_sasl_mechanism.name.upper()),
    ]
    assert "hush" not in json.dumps(found)
    assert [row["detail"].partition(":")[0] for row in found[:4]] == ["PLAIN", "SCRAM-SHA-512"] * 2


@story
async def test_what_goes_on_for_long_is_one_line() -> None:
    """A producer that is denied tries again at once; the log does not grow with it."""
    path, site = new_file(), Site()
    site.create("t")
    site.do(add_acls(owner(), new_id()))
    async with broker(site, authorizer=ON, audit_log=path) as running:
        client = await connect(running, source=STRANGER)
        for _ in range(200):
            found: Any = await client.produce("t", 0, batch(b"x"))
            assert found.error_code is ErrorCode.topic_authorization_failed
        rows = await new_lines(running, path)
        assert [row["resource"] for row in rows] == ["TOPIC:t"]
        assert running.services.metrics.security.denials["WRITE", "TOPIC"] == 200
        await client.close()

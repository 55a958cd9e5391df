"""Who did what, in a file: everything once, repeats counted, nothing waits, nothing is forged."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lakelog.broker.metrics.security import SecurityCounters
from lakelog.broker.security.audit_log import (
    AGAIN_MS,
    CHANGED,
    DENIAL,
    DENIED,
    FIELD_CHARS_MAX,
    LINES_MAX,
    LOGIN,
    OK,
    OTHERS,
    REPEATS_MAX,
    AuditLog,
    Event,
)
from lakelog.errors import InvalidInputError

COUNTS = SecurityCounters()


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


def event(what: str = DENIED, resource: str = "Topic:t", result: str = "") -> Event:
    result = result or (DENIAL if what == DENIED else OK)
    return Event(what, "User:bob", "10.0.0.7", "etl", "OUT", "Produce", "Write", resource, result)


def told(path: Path, story: Callable[[AuditLog, Clock], Awaitable[None]]) -> list[dict[str, Any]]:
    async def run() -> None:
        clock = Clock()
        await story(AuditLog(path, clock, structlog.get_logger(), COUNTS), clock)

    asyncio.run(run())
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_says_who_did_what_and_with_what_result(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _: Clock) -> None:
        audit.note(event(CHANGED, "Topic:new", "NONE"))
        await audit.flush()

    path = tmp_path / "audit"
    assert told(path, story) == [
        {
            "time": "2023-11-14T22:13:20.000Z",
            "event": "change",
            "principal": "User:bob",
            "address": "10.0.0.7",
            "client_id": "etl",
            "listener": "OUT",
            "api": "Produce",
            "operation": "Write",
            "resource": "Topic:new",
            "result": "NONE",
            "detail": "",
            "count": 1,
        }
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_denied_again_and_again_is_counted_and_changes_are_not(tmp_path: Path) -> None:
    async def story(audit: AuditLog, clock: Clock) -> None:
        for _ in range(3):
            for _ in range(1_000):
                audit.note(event())
                audit.note(event(CHANGED))
                audit.note(event(LOGIN, result="NONE"))
            clock.ms += AGAIN_MS
            await audit.flush()
        clock.ms += AGAIN_MS
        await audit.flush()
        audit.note(event())
        await audit.flush()

    rows = told(tmp_path / "audit", story)
    assert [row["count"] for row in rows if row["event"] == DENIED] == [1, 999, 1_000, 1_000, 1]
    assert [row["count"] for row in rows if row["event"] == CHANGED] == [1] * 3_000
    assert [row["count"] for row in rows if row["event"] == LOGIN] == [1] * 3_000


def test_memory_is_bounded_whatever_is_asked_for(tmp_path: Path) -> None:
    async def story(audit: AuditLog, clock: Clock) -> None:
        for number in range(3 * REPEATS_MAX):
            audit.note(event(resource=f"Topic:{number}"))
        clock.ms += AGAIN_MS
        await audit.flush()

    rows = told(tmp_path / "audit", story)
    others = [row for row in rows if row["resource"] == OTHERS]
    assert [row["count"] for row in others] == [2 * REPEATS_MAX]
    assert sum(row["count"] for row in rows) == 3 * REPEATS_MAX


def test_what_is_lost_is_told(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "audit"
    path.parent.mkdir()

    async def story(audit: AuditLog, _: Clock) -> None:
        before = COUNTS.audit_lines_lost
        for number in range(LINES_MAX + 5):
            audit.note(event(CHANGED, f"Topic:{number}"))
        assert COUNTS.audit_lines_lost - before == 5
        path.parent.rename(tmp_path / "away")
        with capture_logs() as logs:
            await audit.flush()
            audit.note(event(CHANGED))
            await audit.flush()
        assert [row["event"] for row in logs] == ["the audit log cannot be written"]
        assert COUNTS.audit_lines_lost - before == LINES_MAX + 6
        path.parent.mkdir()
        audit.note(event(CHANGED))
        with capture_logs() as logs:
            await audit.flush()
        assert [row["event"] for row in logs] == ["the audit log is written again"]
        audit.note(event(CHANGED))
        await audit.flush()

    rows = told(path, story)
    assert [(row["event"], row["count"]) for row in rows] == [
        ("lost", LINES_MAX + 6),
        (CHANGED, 1),
        (CHANGED, 1),
    ]


def test_a_file_that_was_renamed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit"

    async def story(audit: AuditLog, _: Clock) -> None:
        audit.note(event(CHANGED, "Topic:before"))
        await audit.flush()
        path.rename(tmp_path / "audit.1")
        audit.note(event(CHANGED, "Topic:after"))
        await audit.flush()

    assert [row["resource"] for row in told(path, story)] == ["Topic:after"]
    assert json.loads((tmp_path / "audit.1").read_text())["resource"] == "Topic:before"


def test_a_name_cannot_make_a_line_of_its_own(tmp_path: Path) -> None:
    forged = 'x"}\n{"event": "login", "principal": "User:admin\x1b[2J"}' + "y" * 10_000

    async def story(audit: AuditLog, _: Clock) -> None:
        audit.note(event(CHANGED)._replace(client_id=forged))
        await audit.flush()

    (row,) = told(tmp_path / "audit", story)
    assert row["client_id"] == forged[:FIELD_CHARS_MAX]
    assert "\x1b" not in (tmp_path / "audit").read_text()


def test_a_file_that_cannot_be_written_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _: Clock) -> None:
        raise AssertionError(audit)

    with pytest.raises(InvalidInputError, match="cannot be appended to: No such file"):
        told(tmp_path / "nowhere" / "audit", story)


def test_it_writes_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "audit"

    async def story(audit: AuditLog, _: Clock) -> None:
        running = asyncio.ensure_future(audit.run())
        audit.note(event())
        async with asyncio.timeout(60):
            while not path.read_text():
                await asyncio.sleep(0)
        running.cancel()

    assert len(told(path, story)) == 1

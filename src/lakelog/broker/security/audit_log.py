"""Who did what: a line for each login, each denial and each change, in a file of its own.

    {"time": "2026-11-18T10:20:30.123Z", "event": "denied", "principal": "User:bob",
     "address": "10.0.0.7", "client_id": "etl", "listener": "EXTERNAL", "api": "Produce",
     "operation": "WRITE", "resource": "TOPIC:orders", "result": "DENIED", "detail": "",
     "count": 1}

    note --> lines --> a thread that appends them, many at once

A client that is denied asks again at once, thousands of times. So what was denied is told at once,
and then, if it went on, every ten seconds with how often. What succeeded is never merged. Answers
do not wait for the file. When it cannot be written to, or more comes than can be written, lines are
lost: that is counted, and said by the next line that gets through.

The file may be renamed at any time, as logrotate does: then a new one is made.
"""

import asyncio
import json
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from structlog.typing import FilteringBoundLogger

from lakelog.broker.metrics.security import SecurityCounters
from lakelog.errors import InvalidInputError
from lakelog.ports import Clock

__all__ = ["CHANGED", "DENIAL", "DENIED", "LOGIN", "OK", "AuditLog", "Event"]

LOGIN, DENIED, CHANGED = "login", "denied", "change"
OK, DENIAL = "NONE", "DENIED"
"""Results: what Kafka calls the error that is none, and what its ACLs call their verdict."""

AGAIN_MS = 10_000
REPEATS_MAX = 1_000
"""What else is denied within ten seconds is told together."""
LINES_MAX = 10_000
FIELD_CHARS_MAX = 256
OTHERS = "~others"


class Event(NamedTuple):
    """What somebody did, or would have done."""

    event: str
    principal: str
    address: str
    client_id: str
    listener: str
    api: str
    operation: str
    resource: str
    result: str
    """Kafka's name of the error."""
    detail: str = ""
    """What was changed, or by which mechanism somebody logged in; never a secret."""


def _of(event: str, whoever: str, result: str) -> Event:
    return Event(event, *(whoever,) * 7, result)


class AuditLog:
    """Takes notes.

    Raises:
        InvalidInputError: the file cannot be appended to.
    """

    def __init__(
        self, path: Path, clock: Clock, log: FilteringBoundLogger, counts: SecurityCounters
    ) -> None:
        self._path, self._clock, self._log, self._counts = path, clock, log, counts
        self._lines: deque[str] = deque()
        self._repeats: dict[Event, int] = {}
        """What was told within these ten seconds, and how often it came since."""
        self._told_ms = clock.boot_ms()
        self._is_due = asyncio.Event()
        self._in_turn = asyncio.Lock()
        self._is_failing = False
        self._untold = 0
        """Lines that could not be written, and of which no line tells."""
        try:
            self._append([])
        except OSError as error:
            raise InvalidInputError(
                f"--audit-log {path} cannot be appended to: {error.strerror}: name a file in a "
                "folder that this user may write to"
            ) from error

    def note(self, event: Event) -> None:
        """Write it down, soon."""
        if event.result == OK:
            self._add(event, 1)
        elif event in self._repeats:
            self._repeats[event] += 1
        elif len(self._repeats) < REPEATS_MAX:
            self._repeats[event] = 0
            self._add(event, 1)
        else:
            other = _of(event.event, OTHERS, event.result)
            self._repeats[other] = self._repeats.get(other, 0) + 1

    async def run(self) -> None:
        """Write lines as they come, for ever."""
        while True:
            try:
                async with asyncio.timeout(AGAIN_MS / 1000):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Write what there is, after what is being written."""
        async with self._in_turn:
            await self._flush()

    async def _flush(self) -> None:
        self._is_due.clear()
        self._tell_repeats()
        if not self._lines:
            return
        lines, untold = [*self._lines], self._untold
        self._lines.clear()
        if untold:
            lines.insert(0, self._line(_of("lost", "", ""), untold))
        try:
            await asyncio.to_thread(self._append, lines)
        except OSError as error:
            if not self._is_failing:
                self._log.error("the audit log cannot be written", error=str(error))
            self._is_failing = True
            self._lose(len(lines) - bool(untold))
            return
        self._untold -= untold
        if self._is_failing:
            self._is_failing = False
            self._log.info("the audit log is written again", lost=untold)

    def _tell_repeats(self) -> None:
        now_ms = self._clock.boot_ms()
        if now_ms - self._told_ms < AGAIN_MS:
            return
        self._told_ms = now_ms
        for event, count in self._repeats.items():
            if count:
                self._add(event, count)
        # Whoever goes on is told of after ten more seconds, and not at once.
        self._repeats = {event: 0 for event, count in self._repeats.items() if count}

    def _add(self, event: Event, count: int) -> None:
        if len(self._lines) >= LINES_MAX:
            self._lose(1)
            return
        self._lines.append(self._line(event, count))
        self._is_due.set()

    def _lose(self, count: int) -> None:
        self._counts.audit_lines_lost += count
        self._untold += count

    def _line(self, event: Event, count: int) -> str:
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: text[:FIELD_CHARS_MAX] for name, text in event._asdict().items()}
        return json.dumps({"time": time, **fields, "count": count}) + "\n"

    def _append(self, lines: list[str]) -> None:
        """Append to the file of that name as it is now, whole lines at once."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        try:
            data = memoryview("".join(lines).encode())
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

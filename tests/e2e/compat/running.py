"""Runs the behaviours of a client, a few at a time, each with a time limit of its own.

A behaviour that hangs takes nobody with it: when its time is over, those that began on the same
worker go on with that, and whoever comes next gets a new one.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakelog.host import new_id
from tests.e2e.compat.behaviours import BEHAVIOURS
from tests.e2e.compat.operations import OPERATIONS
from tests.e2e.compat.stage import (
    AbsentError,
    Record,
    RefusedError,
    Stage,
    Steward,
    WrongError,
)
from tests.e2e.compat.workers import CLIENTS, Client
from tests.parts.process import mortal

__all__ = ["LATE", "PATIENCE_S", "SECOND_TRY", "Plan", "Result", "prepare", "run_client"]

LATE = "it did not end in time"
SECOND_TRY = "at the second try"
PATIENCE_S = 60.0
"""For one behaviour."""
_ROOT = Path(__file__).parents[3]
_SIDE_BY_SIDE = 4
_LINE_BYTES_MAX = 64 << 20
_WORDS_SHOWN = 2_000
_MANY = 1_000


@dataclass(frozen=True)
class Plan:
    """What is the same for all clients of a run."""

    bootstrap: str
    behaviours: tuple[str, ...]
    patience_s: float
    many: str
    """A topic of a thousand partitions, with a record in each."""


@dataclass(frozen=True)
class Result:
    """What came out of one behaviour of one client."""

    result: str
    """passes, fails or absent"""
    why: str = ""


async def prepare(bootstrap: str, behaviours: Iterable[str], patience_s: float) -> Plan:
    """Make what all clients share."""
    many = f"many-{new_id().hex()[:8]}"
    steward = Steward(bootstrap)
    await steward.create(many, _MANY, {})
    await steward.wake(many)
    await steward.send(many, [Record(value=f"{i}", partition=i) for i in range(_MANY)])
    return Plan(bootstrap, tuple(behaviours), patience_s, many)


class _Worker:
    """One process that has the client, and the questions it has not answered yet."""

    def __init__(self, process: asyncio.subprocess.Process, words: Path) -> None:
        self._process = process
        self._words = words
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, client: Client, bootstrap: str, words: Path) -> "_Worker":
        argv = mortal([*await asyncio.to_thread(client.command), bootstrap])
        env = {**os.environ, **client.env()}  # noqa: TID251 (a child inherits)
        with words.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *argv, cwd=_ROOT, env=env, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=errors, limit=_LINE_BYTES_MAX,
            )  # fmt: skip
        return cls(process, words)

    async def ask(self, op: str, **fields: object) -> Any:
        assert op in OPERATIONS, op
        self._next += 1
        number = self._next
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "op": op, **fields}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.drain()
        told = await answer
        if "absent" in told:
            raise AbsentError(told["absent"])
        if "error" in told:
            raise RefusedError(told["error"], told.get("words", ""))
        return told["ok"]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"{"):
                told = json.loads(line)
                answer = self._asked.pop(told["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(told)
        said = self._words.read_text(errors="replace")[-_WORDS_SHOWN:]
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(WrongError(f"the client's process has ended: {said}"))

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reader


class _Workers:
    """The worker of the day, and those that were given up."""

    def __init__(self, client: Client, bootstrap: str, words: Path) -> None:
        self._how = client, bootstrap, words
        self._all: list[_Worker] = []
        self._current: _Worker | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> _Worker:
        async with self._lock:
            if self._current is None:
                self._current = await _Worker.start(*self._how)
                self._all.append(self._current)
            return self._current

    def give_up(self, worker: _Worker) -> None:
        if self._current is worker:
            self._current = None

    async def stop(self) -> None:
        for one in self._all:
            await one.stop()


async def run_client(
    name: str, plan: Plan, tell: Callable[[str, str, Result], None] = lambda *_: None
) -> tuple[str, dict[str, Result]]:
    """Run a client's behaviours: its version, and what came out of each.

    Whatever was late is tried once more, when the machine has less to do.
    """
    steward = Steward(plan.bootstrap)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-compat-") as home:
        workers = _Workers(CLIENTS[name], plan.bootstrap, Path(home, "words"))
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def run(behaviour: str) -> None:
            async with turns:
                worker = await workers.get()
                prefix = f"{name}-{new_id().hex()[:8]}"
                stage = Stage(worker, steward, prefix, plan.bootstrap, plan.many)
                result = await _try(behaviour, stage, plan.patience_s)
                if result.why.startswith(LATE):
                    workers.give_up(worker)
                elif behaviour in results and result.result == "passes":
                    result = Result("passes", SECOND_TRY)
                results[behaviour] = result
                tell(name, behaviour, results[behaviour])

        try:
            version = await (await workers.get()).ask("version")
            await asyncio.gather(*map(run, plan.behaviours))
            late = [one for one, was in results.items() if was.why.startswith(LATE)]
            await asyncio.gather(*map(run, late))
        finally:
            await workers.stop()
    return version, {one: results[one] for one in plan.behaviours}


async def _try(behaviour: str, stage: Stage, patience_s: float) -> Result:
    try:
        async with asyncio.timeout(patience_s):
            await BEHAVIOURS[behaviour].act(stage)
    except AbsentError as error:
        return Result("absent", str(error))
    except (RefusedError, WrongError) as error:
        return Result("fails", str(error)[:_WORDS_SHOWN])
    except TimeoutError:
        return Result("fails", f"{LATE} ({patience_s:g} s)")
    except Exception as error:  # noqa: BLE001 (an answer in no known form is an answer that is wrong)
        return Result("fails", f"{type(error).__name__}: {error}"[:_WORDS_SHOWN])
    return Result("passes")

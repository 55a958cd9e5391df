"""Maintenance of the namespace while the broker runs: a process of its own, limited and expendable.

    broker                                        its process, spawned, nice, with a memory limit
      | -- StoreSpec, settings (a pipe) ---------->  every minute, about, a pass:
      | <------------ which lanes are led here? --  |
      | -- these -------------------------------->  |  over these
      | <---------------------------- a report ---  |
      | -- the pipe closes ---------------------->  ends at once

Sealing reads and writes as much as producers send, and it must not take the loop's time or the
broker's memory. A process of its own has its own lock, its own heap, and a limit that the kernel
enforces. Each verb is safe to kill anywhere, so the process is killed when the broker stops, and
what was half done the next pass does. When it ends by itself it is started again, later each time.

Credentials go through the pipe and never into arguments, which everybody on the machine can read.
"""

import asyncio
import json
import multiprocessing
import os
import resource
import secrets
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from types import TracebackType

from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.supervision import Supervisor, awaited
from lakelog.catalog import is_pipeline_claimed, open_namespace
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import THIS_HOST
from lakelog.journal import Lane, StoreTime, new_lanes
from lakelog.log import store_now
from lakelog.maintenance import MaintenanceReport, SealSettings, maintain
from lakelog.store import (
    Meter,
    StoreSpec,
    Usage,
    Work,
    metered_async,
    retrying_async,
    run_async,
    working_async,
)

__all__ = [
    "MaintenancePass",
    "MaintenanceProcess",
    "MaintenanceSettings",
    "maintain_led",
    "work",
]

REPORT_BYTES_MAX = 1 << 20
LANES_BYTES_MAX = 1 << 16
WHICH_LANES = b"?"
FAILURES_MAX = 20
FAILURE_CHARS_MAX = 256
DELAY_S_MIN = 1.0
DELAY_S_MAX = 60.0
KILL_S_MAX = 1.0
PASS_BYTES = 1 << 30
"""What is enough to be sealed soon."""
BEHIND_S = 1.0
"""Until the next pass, if this one did not reach the end of a lane."""
EXIT_MEMORY = 12
"""How it ends when the cap is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """How a broker has its namespace maintained."""

    every_s: float = 60.0
    """From one pass to the next, about: a quarter more or less, so that brokers spread out."""

    every_s_max: float | None = None
    """So much later, if there is less than ``PASS_BYTES`` to seal: where requests cost something. A
    pass asks for a few things in every partition, and seals what there is. None: never later."""

    memory_bytes: int = 1 << 30
    """What a pass may allocate. A pass that needs more is ended, and told."""

    nice: int = 10

    def __post_init__(self) -> None:
        later_s = self.every_s if self.every_s_max is None else self.every_s_max
        if (
            not 0 < self.every_s <= later_s
            or self.memory_bytes < 512 << 20
            or not 0 <= self.nice <= 19
        ):
            raise InvalidInputError(f"{self}: use a time above 0, 512 MiB or more, nice 0 to 19")

    def next_s(self, last_s: float, sealed_bytes: int, *, is_behind: bool = False) -> float:
        """Return how long to wait for the next pass, after one that has sealed so much of what came
        in the time before it: as long as it takes until there is enough to seal. One that left
        bundles behind is followed at once.
        """
        if is_behind:
            return min(self.every_s, BEHIND_S)
        enough_s = last_s * PASS_BYTES / max(sealed_bytes, 1)
        return max(self.every_s, min(enough_s, self.every_s_max or self.every_s))

    @property
    def seal(self) -> SealSettings:
        """Sizes with which a pass stays under the cap: what is sealed is held about four times."""
        return SealSettings(
            group_bytes=self.memory_bytes // 8,
            segment_bytes=min(128 << 20, self.memory_bytes // 16),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePass:
    """What one pass has done, as it crosses the pipe."""

    seconds: float = 0.0
    segments: int = 0
    records: int = 0
    size_bytes: int = 0
    trimmed: int = 0
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """At most some: a lane or a topic, and why."""
    failures_count: int = 0
    requests: dict[str, int] = field(default_factory=dict)


# ---------------------------------------------------------------------------- the broker's side


class MaintenanceProcess:
    """The process that maintains a broker's namespace. Leaving this context kills it."""

    def __init__(
        self,
        spec: StoreSpec,
        settings: MaintenanceSettings,
        metrics: Metrics,
        *,
        led: Callable[[], Iterable[int]],
        on_report: Callable[[MaintenancePass], None] = lambda _: None,
        on_error: Callable[[str], None] = lambda _: None,
        target: Callable[[StoreSpec, MaintenanceSettings, Connection], None] | None = None,
        tasks: Supervisor | None = None,
    ) -> None:
        if spec.url == "memory:":
            raise InvalidInputError(
                "storage memory: lies in this process, and no other one can maintain it: "
                "use --no-keep"
            )
        self._spec, self._settings, self._metrics = spec, settings, metrics
        self._led, self._on_report, self._on_error = led, on_report, on_error
        self._target = target or work
        self._tasks = tasks or Supervisor()
        self._task: asyncio.Task[None] | None = None
        self._process: BaseProcess | None = None
        self._trouble = ""

    async def __aenter__(self) -> "MaintenanceProcess":
        self._task = self._tasks.keep("keeper", self._run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def process_id(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    def trouble(self) -> str:
        """Say that the process has died, or that its last pass failed; nothing if all is well."""
        return self._trouble

    async def close(self) -> None:
        """End the process, wherever it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        delay_s = DELAY_S_MIN
        while True:
            passes = self._metrics.keep_passes
            code = await self._one()
            if self._metrics.keep_passes > passes:
                delay_s = DELAY_S_MIN
            self._trouble = _describe_end(code, self._settings, delay_s)
            self._on_error(self._trouble)
            await asyncio.sleep(delay_s)
            delay_s = min(DELAY_S_MAX, 2 * delay_s)
            self._metrics.keep_restarts += 1

    async def _one(self) -> int | None:
        """Run one process to its end, and return how it ended."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=self._target,
            args=(self._spec, self._settings, theirs),
            name="lakelog-keep",
            daemon=True,
        )
        starting = awaited(asyncio.to_thread(process.start))
        try:
            try:
                await asyncio.shield(starting)
            finally:
                await asyncio.gather(starting, return_exceptions=True)
                theirs.close()
            self._process = process
            await self._listen(ours)
        finally:
            ours.close()
            self._process = None
            if process.pid is not None:
                process.kill()
                process.join(KILL_S_MAX)
        return process.exitcode

    async def _listen(self, pipe: Connection) -> None:
        """Take in reports until the process is gone."""
        loop = asyncio.get_running_loop()
        while True:
            readable = asyncio.Event()
            loop.add_reader(pipe.fileno(), readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(pipe.fileno())
            try:
                # Small, and sent at once: what has begun to arrive does not keep the loop.
                body = pipe.recv_bytes(REPORT_BYTES_MAX)
            except (EOFError, OSError):
                return
            if body == WHICH_LANES:
                pipe.send_bytes(json.dumps(sorted(self._led())).encode())
            else:
                self._take(MaintenancePass(**json.loads(body)))

    def _take(self, report: MaintenancePass) -> None:
        metrics = self._metrics
        metrics.keep_passes += 1
        metrics.keep_failures += report.failures_count
        metrics.sealed_records += report.records
        metrics.sealed_bytes += report.size_bytes
        metrics.usage += Usage(requests=report.requests)
        self._trouble = ""
        if report.failures_count:
            what, why = next(iter(report.failures.items()))
            self._trouble = (
                f"the last maintenance pass failed for {report.failures_count}: {what}: {why}"
            )
        self._tasks.call("keeper", self._on_report, report)


def _describe_end(code: int | None, settings: MaintenanceSettings, delay_s: float) -> str:
    if code == EXIT_MEMORY or code == -signal.SIGABRT:
        why = f"a pass needs more than {settings.memory_bytes} bytes: give it more"
    else:
        why = f"it ended with {code}"
    return f"the maintenance process ended: {why}; it starts again in {delay_s:.0f} s"


# ---------------------------------------------------------------------------- the process's side


def work(spec: StoreSpec, settings: MaintenanceSettings, pipe: Connection) -> None:
    """Maintain a namespace for ever: what runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's, which ends us.
    os.nice(settings.nice)
    lanes: SimpleQueue[list[int]] = SimpleQueue()
    threading.Thread(target=_hear_the_broker, args=(pipe, lanes), daemon=True).start()
    try:
        asyncio.run(_maintain_forever(spec, settings, pipe, lanes))
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except OSError:
        os._exit(0)  # Nobody listens any more.


def _hear_the_broker(pipe: Connection, lanes: "SimpleQueue[list[int]]") -> None:
    """Take in which lanes are led; end at once when the other end of the pipe is closed, by
    whatever end the broker came to.
    """
    with suppress(EOFError, OSError):
        while True:
            lanes.put(json.loads(pipe.recv_bytes(LANES_BYTES_MAX)))
    os._exit(0)


async def _maintain_forever(
    spec: StoreSpec,
    settings: MaintenanceSettings,
    pipe: Connection,
    led: "SimpleQueue[list[int]]",
) -> None:
    store, lanes = spec.open(), dict[int, Lane]()
    uniform = secrets.SystemRandom().uniform
    _limit_memory(settings.memory_bytes)
    pause_s = settings.every_s
    await asyncio.sleep(uniform(0, pause_s))
    while True:
        meter, begun_s = Meter(), monotonic()
        perform = working_async(retrying_async(metered_async(store.perform_async, meter)))
        try:
            pipe.send_bytes(WHICH_LANES)
            mine = await asyncio.to_thread(led.get)
            rules = (await run_async(open_namespace(), perform)).rules
            if len(lanes) < rules.lanes:  # Some were added, and may be led here already.
                lanes = new_lanes(rules, *THIS_HOST, StoreTime())
            done = await run_async(maintain_led(lanes, settings.seal, mine), perform)
        except LakelogError as error:
            done = MaintenanceReport(failures={"pass": error})
        report = _report(done, meter.usage, monotonic() - begun_s)
        pipe.send_bytes(json.dumps(asdict(report)).encode())
        sealed = done.sealed.size_bytes
        pause_s = settings.next_s(pause_s, sealed, is_behind=done.is_behind)
        await asyncio.sleep(pause_s * uniform(0.75, 1.25))


def maintain_led(
    lanes: dict[int, Lane], settings: SealSettings, led: list[int]
) -> Work[MaintenanceReport]:
    """Maintain the lanes that are led here, unless a pipeline on a cluster does."""
    if not led:
        return MaintenanceReport()
    now_ms = yield from store_now(THIS_HOST.ids)
    if (yield from is_pipeline_claimed(now_ms)):
        return MaintenanceReport()
    return (yield from maintain(lanes, settings, led=led))


def _limit_memory(memory_bytes: int) -> None:
    """Let the kernel refuse what goes beyond what is allocated now and ``memory_bytes`` more.

    What counts is private memory that can be written. The limit on addresses would not do: each
    thread of the store's library reserves far more of them than it uses.
    """
    fields = Path("/proc/self/status").read_text().splitlines()
    now = next(int(line.split()[1]) << 10 for line in fields if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + memory_bytes, now + memory_bytes))


def _report(done: MaintenanceReport, usage: Usage, seconds: float) -> MaintenancePass:
    failures = [(what, str(error)[:FAILURE_CHARS_MAX]) for what, error in done.failures.items()]
    return MaintenancePass(
        seconds=seconds,
        segments=done.sealed.segments,
        records=done.sealed.records,
        size_bytes=done.sealed.size_bytes,
        trimmed=done.trimmed,
        deleted=done.reaped + done.swept,
        failures=dict(failures[:FAILURES_MAX]),
        failures_count=len(failures),
        requests=dict(usage.requests),
    )

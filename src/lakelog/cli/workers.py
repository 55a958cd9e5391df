"""The supervisor of `lakelog serve --workers N`: it starts brokers, and starts them again.

    supervisor -- link, log (worker_link) --> worker 0, a broker on port
       |                                      worker 1, a broker on port + 1
       |                                      ...
       +-- HTTP: health and metrics of all of them; one log on stderr

    a worker ends        by itself    it is started again, later each time; others lead its lanes
                         at its first start, before it served     all stop, with exit code 1
                         another broker has its node id           it stays away, the others go on
                         its disk failed (74)                     all stop, with that exit code
    SIGTERM, SIGINT      all workers are asked to stop at the same time, and waited for
    kill -9              the kernel ends the workers, too: see ``worker``

All stop together, because nobody is left whom lanes and groups could be handed to. One after
another, each would hand to the next what that one has to hand on at once: a bundle for each lane,
and a redirect for each client, for every worker but the last. If brokers on other machines serve
as well, those take over, from all workers at once.

No store is asked here, and nothing is decided that a broker decides: a supervisor without workers
knows nothing, and clients never talk to it.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import uvloop
from structlog.typing import FilteringBoundLogger

from lakelog.broker import (
    READY,
    HttpServer,
    ListenerTls,
    Supervisor,
    awaited,
    certificate_gauge,
    divide_maintenance,
    divide_settings,
    encode_workers,
    merge_pages,
)
from lakelog.cli.running import Plan, until_signal
from lakelog.cli.worker import EXIT_FENCED
from lakelog.cli.worker_link import read_frame, send_plan, write_frame
from lakelog.errors import InvalidInputError
from lakelog.host import THIS_HOST

__all__ = ["Relay", "Worker", "WorkersStatus", "divide_plan", "run_workers"]

DELAY_S_MIN, DELAY_S_MAX = 0.5, 30.0
"""From the end of a worker to its next start; the shortest again for one that served as long."""

EXIT_DISK = os.EX_IOERR
"""How a broker ends whose disk failed: 74. Nobody may start it again before it was looked at."""

METRICS_S_MAX = 4.0
"""For a worker to tell its metrics: whoever asks over HTTP waits for five seconds."""

HEALTH_S_MAX = 0.8
"""For a worker to say how it is. Probes wait for a second, and one worker that does not answer must
not be why a machine is believed dead."""

LAST_WORDS_S = 1.0
LOG_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 20

Relay = Callable[[int, str], None]
"""Takes a line of a worker's log."""


def divide_plan(plan: Plan, workers: int) -> tuple[Plan, ...]:
    """Return what each worker is to run.

    Raises:
        InvalidInputError: they would listen on each other's ports, or there are too few; or they
            could not share the storage.
    """
    if workers == 1:
        return (plan,)
    if plan.spec.url == "memory:":
        raise InvalidInputError(
            "storage memory: lies in one process, and workers are several: use --workers 1, or a "
            "folder"
        )
    keep = divide_maintenance(plan.keep, workers)
    return tuple(
        replace(plan, settings=settings, http=None, token=None, tls=None, keep=keep)
        for settings in divide_settings(plan.settings, workers, plan.http)
    )


def run_workers(
    plans: Sequence[Plan],
    whole: Plan,
    log: FilteringBoundLogger,
    relay: Relay,
) -> int:
    """Run a worker for each plan until a signal comes; return the exit code.

    Health and metrics of all are where the plan of the ``whole`` says.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(plans, whole, log, relay))


async def _run(
    plans: Sequence[Plan],
    whole: Plan,
    log: FilteringBoundLogger,
    relay: Relay,
) -> int:
    stop, tasks = until_signal(log), Supervisor(log)
    workers = [Worker(number, plan, log, relay) for number, plan in enumerate(plans)]
    async with AsyncExitStack() as stack:
        if whole.http is not None:
            status, (host, port) = WorkersStatus(workers, whole.tls), whole.http
            server = HttpServer(
                status, host=host, port=port, tasks=tasks, token=whole.token, tls=whole.tls, log=log
            )
            await stack.enter_async_context(server)
            log.info("health and metrics", address="{}:{}".format(*server.address))
        lives = [awaited(worker.live(stop)) for worker in workers]
        greeting, asked = awaited(_greet(workers, log)), awaited(stop.wait())
        left: set[asyncio.Task[Any]] = set(lives)
        while left and not stop.is_set() and not _worst(lives):
            done, _ = await asyncio.wait({asked, *left}, return_when=asyncio.FIRST_COMPLETED)
            left -= done
        is_asked = stop.is_set()
        stop.set()
        greeting.cancel()
        log.info("draining", workers=len(workers))
        for worker in workers:
            worker.signal(signal.SIGTERM)
        await asyncio.gather(*lives, asked)
    log.info("stopped")
    # If nobody asked for it, every one of them has lost its node id.
    return _worst(lives) or (0 if is_asked else 1)


def _worst(lives: Sequence["asyncio.Task[int]"]) -> int:
    return max((life.result() for life in lives if life.done()), default=0)


async def _greet(workers: Sequence["Worker"], log: FilteringBoundLogger) -> None:
    for worker in workers:
        await worker.served.wait()
    log.info(
        "all workers are ready",
        bootstrap=",".join(worker.address for worker in workers),
        nodes=",".join(str(worker.node) for worker in workers),
    )


class Worker:
    """One worker, over all its lives."""

    def __init__(self, number: int, plan: Plan, log: FilteringBoundLogger, relay: Relay) -> None:
        self.number, self._plan = number, plan
        self._log, self._relay = log, relay
        self.starts = 0
        self.node: int | None = None
        """The node id that it served under, last."""
        self.serves = False
        self.served = asyncio.Event()
        """Whether it ever did."""
        self._trouble = "starting"
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._asks, self._answers = count(), dict[int, asyncio.Future[dict[str, Any]]]()

    @property
    def address(self) -> str:
        """Where clients find it."""
        one = self._plan.settings.listeners[0]
        return f"{one.advertised_host or one.host}:{one.advertised_port or one.port}"

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to it, if it runs."""
        if self._process is not None:
            self._process.send_signal(what)

    async def live(self, stop: asyncio.Event) -> int:
        """Start it again and again until all stop. Return 0, or the code that all end with.

        One whose node id another broker has stays away: the two would end each other by turns.
        """
        loop, delay_s = asyncio.get_running_loop(), DELAY_S_MIN
        while not stop.is_set():
            begun_s = loop.time()
            self._trouble = "starting"
            code = await self._run()
            if code == EXIT_DISK or not (stop.is_set() or self.served.is_set()):
                self._log.error("a worker cannot run, so all stop", worker=self.number, code=code)
                return EXIT_DISK if code == EXIT_DISK else 1
            if code == EXIT_FENCED:
                self._trouble = f"another broker was started with its node id {self.node}"
                self._log.error(self._trouble, worker=self.number)
                return 0
            if stop.is_set():
                break
            if loop.time() - begun_s >= DELAY_S_MAX:
                delay_s = DELAY_S_MIN
            self._trouble = f"it ended with {code}, and starts again in {delay_s:g} s"
            self._log.error(
                "a worker ended; others lead what it led until it is back",
                worker=self.number,
                node=self.node,
                code=code,
                next=f"it starts again in {delay_s:g} s",
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await stop.wait()
            delay_s = min(2 * delay_s, DELAY_S_MAX)
        return 0

    # ------------------------------------------------------------------------ one life

    async def _run(self) -> int:
        """Run a process to its end, and return how it ended."""
        ours, theirs = socket.socketpair()
        output, its_output = os.pipe()
        writing = awaited(self._write_log(output))
        try:
            process = _start(theirs, its_output)
        except OSError as error:
            self._log.error("cannot start a worker", worker=self.number, error=str(error))
            ours.close()
            return 1
        finally:
            theirs.close()
            os.close(its_output)
        self.starts += 1
        self._process = process
        self._log.info("started a worker", worker=self.number, process=process.pid)
        try:
            with suppress(OSError):  # It is gone already; how, its exit code says.
                send_plan(ours, self._plan)
            listening = awaited(self._listen(ours))
            code = await _ended(process)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        finally:
            self.serves, self._process = False, None
            ours.close()
            # What it has started may still have its output, and say nothing more.
            await asyncio.wait({writing}, timeout=LAST_WORDS_S)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return code

    async def _listen(self, link: socket.socket) -> None:
        """Take in what it says, until it is gone."""
        reader, self._writer = await asyncio.open_unix_connection(sock=link)
        try:
            while (frame := await read_frame(reader)) is not None:
                if "serving" in frame:
                    self.node, self.serves = frame["serving"], True
                    self.served.set()
                elif (answer := self._answers.pop(frame["ask"], None)) and not answer.done():
                    answer.set_result(frame)
        finally:
            self._writer.close()
            self._writer = None
            for answer in self._answers.values():
                answer.cancel()
            self._answers.clear()

    async def _write_log(self, output: int) -> None:
        """Hand on its log, whole lines at a time."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb", 0)
        )
        rest = b""
        try:
            while data := await reader.read(LOG_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._relay(self.number, line.decode(errors="replace"))
        finally:
            if rest:
                self._relay(self.number, rest.decode(errors="replace"))
            transport.close()

    # ------------------------------------------------------------------------ what it says

    async def health(self) -> tuple[bool, str]:
        """Say whether clients should come to it, and if not, why."""
        if not self.serves:
            return False, self._trouble
        told = await self._ask({"what": "health"}, HEALTH_S_MAX)
        if told is None:
            return False, f"it does not answer within {HEALTH_S_MAX:g} s"
        return bool(told.get("ready")), str(told.get("why", told.get("failed", "")))

    async def scrape(self, accept: str) -> str | None:
        """Return its metrics; None: it does not tell them."""
        told = await self._ask({"what": "metrics", "accept": accept}, METRICS_S_MAX)
        return None if told is None else told.get("text")

    async def _ask(self, what: dict[str, Any], within_s: float) -> dict[str, Any] | None:
        if self._writer is None or not self.serves:
            return None
        number = next(self._asks)
        answer = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        write_frame(self._writer, {"ask": number, **what})
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wait({answer})
        except TimeoutError:
            self._answers.pop(number, None)
            return None
        return None if answer.cancelled() else answer.result()


def _start(link: socket.socket, output: int) -> "subprocess.Popen[bytes]":
    """Start a process that has one end of a link, and writes all it has to say to one place.

    Raises:
        OSError: the system has no room for one more.
    """
    return subprocess.Popen(  # noqa: S603 (ourselves)
        [
            sys.executable, "-P", "-m", "lakelog.cli.worker",
            str(link.fileno()), str(os.getpid()),
        ],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=(link.fileno(),),
    )  # fmt: skip


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a process, and return its exit code; below 0 the signal that ended it."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    handle = os.pidfd_open(process.pid)
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return process.wait()


class WorkersStatus:
    """Health and metrics of all workers as one."""

    def __init__(self, workers: Sequence[Worker], tls: ListenerTls | None) -> None:
        self._workers = workers
        secured = {} if tls is None else {tls.name: tls}
        self._certificates = certificate_gauge(secured, THIS_HOST.clock)
        self._scraping = asyncio.Lock()

    async def health(self) -> tuple[bool, str]:
        """Say whether clients should come to all of them, and to which not."""
        told = await asyncio.gather(*(worker.health() for worker in self._workers))
        said = [
            f"worker {worker.number}: {why}"
            for worker, (is_ready, why) in zip(self._workers, told, strict=True)
            if not is_ready or why not in ("", READY)
        ]
        return all(is_ready for is_ready, _ in told), "; ".join(said) or READY

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics of all in a format that is accepted, and its name."""
        async with self._scraping:  # One at a time: each may be megabytes of text.
            asked: list[Awaitable[str | None]] = [one.scrape(accept) for one in self._workers]
            told = await asyncio.gather(*asked)
        own, kind = encode_workers(
            {worker.number: worker.serves for worker in self._workers},
            {worker.number: worker.starts for worker in self._workers},
            accept,
            [self._certificates],
        )
        pages = {
            worker.number: page
            for worker, page in zip(self._workers, told, strict=True)
            if page is not None
        }
        text = await asyncio.to_thread(partial(merge_pages, pages, own.decode()))
        return text.encode(), kind

"""A broker, its honest crowd and its attacker: what is measured, and how it is judged.

    quiet               attack                        what comes of the records sent meanwhile
    |- p99, requests -|- memory, p99, requests ------|- waited for -|

    p99        of what honest records took to be acknowledged, and to be seen by a consumer:
               at most twice that of a quiet time, or FLOOR_MS more. If it is more than in the
               quiet time before, one after it is measured as well, and the worse of the two counts
    memory     the most that the broker's process had: at most BUDGET_BYTES, what an idle one has,
               and a fifth more
    requests   to the store, without as many as the honest clients caused in the quiet time: at most
               what the attack's row says, a second
    honest     no error, no lost connection, no rebalance, no record that nobody saw

A machine that is shared has bad moments, which make things worse and never better. So an attack
that seems to have done harm is tried again, twice at most, and the best of the three counts. Errors
and lost connections count at once.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.broker import Limits
from tests.e2e.broker.readings import metrics, rss_bytes
from tests.e2e.hostile import crowd
from tests.e2e.hostile.on_data import BIG, COMPACTED, EMPTY, VICTIM
from tests.e2e.hostile.rows import Row
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import mortal
from tests.patience import in_time

__all__ = ["ATTEMPTS", "Arena", "Result", "running_arena", "table"]

ATTEMPTS = 3
FLOOR_MS = 50.0
"""Twice of little is noise: so much more harms nobody."""
TIMES = 2.0
SLACK_S = 15.0
"""For records that were sent during an attack to be acknowledged and seen."""
NOISE_SHARE = 0.5
"""By so much the honest clients' own requests to the store may differ from second to second."""

MEMORY_BYTES, CACHE_BYTES = 64 << 20, 32 << 20
BUDGET_BYTES = 2 * MEMORY_BYTES + CACHE_BYTES + Limits().answer_bytes
"""Requests, as much again of those that are not whole, answers, and the cache: see the page on
limits. A process without any of it is measured before."""
MEMORY_SHARE = 1.2

MANY = 300
BIG_BYTES = 24 << 20


@dataclass(frozen=True, slots=True)
class Span:
    """What honest records met that were sent within a time."""

    acked_ms: float
    """p99."""
    seen_ms: float
    missing: int
    """Those that were not acknowledged, or not seen."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an attack did."""

    row: Row
    quiet: Span
    during: Span
    peak_bytes: int
    memory_bytes_max: int
    store_requests_s: float
    store_requests_s_max: float
    errors: tuple[str, ...]

    def harms(self) -> list[str]:
        """Say what honest clients, or the owner, had to suffer."""
        found = list(self.errors[:5])
        for what, before, during in (
            ("acknowledged", self.quiet.acked_ms, self.during.acked_ms),
            ("seen", self.quiet.seen_ms, self.during.seen_ms),
        ):
            if during > _bound(before):
                found.append(f"records were {what} after {during:.0f} ms, not {before:.0f} (p99)")
        if self.during.missing:
            found.append(f"{self.during.missing} records were not acknowledged or not seen")
        if self.peak_bytes > self.memory_bytes_max:
            found.append(f"{_mib(self.peak_bytes)} of {_mib(self.memory_bytes_max)} MiB memory")
        if self.store_requests_s > self.store_requests_s_max:
            found.append(
                f"{self.store_requests_s:.0f} store requests a second, "
                f"not {self.store_requests_s_max:.0f}"
            )
        return found


class Arena:
    """What runs."""

    def __init__(self, broker: Lakelog, told: Path, attacker: subprocess.Popen[str]) -> None:
        self._broker, self._told, self._attacker = broker, told, attacker
        self._idle_bytes = rss_bytes(broker)
        self._lines: list[tuple[str, float, float, str]] = []
        self._read = 0

    @property
    def memory_bytes_max(self) -> int:
        return int((self._idle_bytes + BUDGET_BYTES) * MEMORY_SHARE)

    def attack(self, row: Row, quiet_s: float, attack_s: float) -> Result:
        """Measure a quiet time, then an attack."""
        before, requests = time.monotonic(), self._store_requests()
        time.sleep(quiet_s)  # noqa: TID251 (the quiet)
        begun, quiet_requests = time.monotonic(), self._store_requests()
        Path(f"/proc/{self._broker.pid}/clear_refs").write_text("5")
        self._tell(f"{attack_s} {row.name}")
        ended = time.monotonic()
        quiet, during = self._span(before, begun), self._span(begun, ended)
        peak_bytes = self._peak_bytes()
        rate = (quiet_requests - requests) / (begun - before)
        caused = (self._store_requests() - quiet_requests) / (time.monotonic() - begun) - rate
        bound = _bound(min(quiet.acked_ms, quiet.seen_ms))
        if max(during.acked_ms, during.seen_ms) > bound:
            quiet = self._quiet_after(quiet, quiet_s)
        return Result(
            row=row,
            quiet=quiet,
            during=during,
            peak_bytes=peak_bytes,
            memory_bytes_max=self.memory_bytes_max,
            store_requests_s=max(caused, 0.0),
            store_requests_s_max=row.store_requests + NOISE_SHARE * rate,
            errors=self._errors(begun),
        )

    def _quiet_after(self, before: Span, quiet_s: float) -> Span:
        """Return the worse of a quiet time before and one that begins now."""
        begun = time.monotonic()
        time.sleep(quiet_s)  # noqa: TID251 (the quiet)
        after = self._span(begun, time.monotonic())
        acked_ms = max(before.acked_ms, after.acked_ms)
        return Span(acked_ms, max(before.seen_ms, after.seen_ms), before.missing)

    def settle(self, within_s: float = 30.0) -> None:
        """Wait until the crowd sends, sees, and is through with joining its group."""
        until = time.monotonic() + within_s
        while True:
            now = time.monotonic()
            self._take()
            recent = [line for line in self._lines if line[1] > now - 1.0]
            if sum(line[0] == "seen" for line in recent) > crowd.RATE * crowd.CLIENTS * 0.7:
                return
            in_time(now < until, "the honest clients do not get to work")
            time.sleep(0.1)  # noqa: TID251 (for another process)

    # ------------------------------------------------------------------------ telling, asking

    def _tell(self, line: str) -> None:
        assert self._attacker.stdin is not None
        assert self._attacker.stdout is not None
        self._attacker.stdin.write(line + "\n")
        self._attacker.stdin.flush()
        said = self._attacker.stdout.readline().strip()
        assert said == "done", said or "the attacker is gone"

    def _store_requests(self) -> float:
        """Ask until there is an answer: an attack may have taken all connections for that."""
        until = time.monotonic() + SLACK_S
        while True:
            try:
                said = metrics(self._broker)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)  # noqa: TID251 (for another process)
            else:
                return sum(
                    n for name, n in said.items() if name.startswith("lakelog_store_requests_total")
                )

    def _peak_bytes(self) -> int:
        lines = Path(f"/proc/{self._broker.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))

    # ------------------------------------------------------------------------ the crowd

    def _take(self) -> None:
        with self._told.open() as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read += len(whole.encode())
        for line in whole.splitlines():
            what, moment, *rest = line.split(" ", 3)
            ms = float(rest[0]) if rest else 0.0
            self._lines.append((what, float(moment), ms, rest[1] if len(rest) > 1 else ""))

    def _span(self, start: float, end: float) -> Span:
        """Return what records met that were sent then; wait until all of them are through."""
        until = time.monotonic() + SLACK_S
        while True:
            self._take()
            there = [line for line in self._lines if start <= line[1] < end]
            acked = sorted(line[2] for line in there if line[0] == "acked")
            seen = sorted(line[2] for line in there if line[0] == "seen")
            sent = sum(line[0] == "sent" for line in there)
            missing = sent - min(len(acked), len(seen))
            if missing <= 0 or time.monotonic() > until:
                return Span(_p99(acked), _p99(seen), missing)
            time.sleep(0.02)  # noqa: TID251 (for another process)

    def _errors(self, start: float) -> tuple[str, ...]:
        heard_s = 2 * crowd.STATISTICS_MS / 1000
        time.sleep(heard_s)  # noqa: TID251 (clients tell of their connections now and then)
        self._take()
        errors = [line for line in self._lines if line[0] == "error" and line[1] >= start]
        found = tuple(line[3] for line in errors)
        self._lines = [line for line in self._lines if line[1] > start - 5]
        return found


def _bound(quiet_ms: float) -> float:
    """Return how long records may take during an attack."""
    return max(TIMES * quiet_ms, quiet_ms + FLOOR_MS)


def _p99(values: list[float]) -> float:
    return values[min(len(values) - 1, int(len(values) * 0.99))] if values else float("inf")


def _mib(size: int) -> int:
    return size >> 20


def table(results: list[Result]) -> str:
    """Return what is printed at the end."""
    head = f"{'attack':55} {'p99 ms acked':>15} {'p99 ms seen':>15} {'MiB':>5} {'store/s':>8}"
    rows = [
        f"{one.row.name:55} {one.quiet.acked_ms:6.1f} > {one.during.acked_ms:6.1f} "
        f"{one.quiet.seen_ms:6.1f} > {one.during.seen_ms:6.1f} {_mib(one.peak_bytes):5} "
        f"{one.store_requests_s:8.1f}{'   HARM' if one.harms() else ''}"
        for one in results
    ]
    allowed = f"{'allowed':55} {'x2, or +50':>15} {'x2, or +50':>15}"
    allowed += f" {_mib(results[0].memory_bytes_max):5}" if results else ""
    return "\n".join([head, *rows, allowed])


@contextmanager
def running_arena(home: Path) -> Iterator[Arena]:
    """All of it, gone afterwards."""
    arguments = ["--no-keep", "--flush-interval-ms", "10"]
    arguments += ["--memory-bytes", str(MEMORY_BYTES), "--cache-bytes", str(CACHE_BYTES)]
    with running_lakelog(None, None, arguments) as broker:
        _prepare(broker)
        told = home / "told.txt"
        told.touch()
        port, http_port = (one.rpartition(":")[2] for one in (broker.bootstrap, broker.http))
        with (
            _child("crowd", broker.bootstrap, str(told)),
            _child("attacker", port, http_port) as attacker,
        ):
            assert attacker.stdout is not None
            assert attacker.stdout.readline().strip() == "ready"
            arena = Arena(broker, told, attacker)
            arena.settle()
            yield arena


def _prepare(broker: Lakelog) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = [NewTopic(crowd.TOPIC, crowd.CLIENTS, 1), NewTopic(VICTIM, 4, 1)]
    topics += [NewTopic(BIG, 1, 1), NewTopic(EMPTY, 1, 1)]
    topics += [NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact"})]
    topics += [NewTopic(f"many-{one}", 1, 1) for one in range(MANY)]
    for made in admin.create_topics(topics).values():
        made.result(timeout=60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(BIG_BYTES // 500_000):
        producer.produce(BIG, bytes(500_000))
    assert producer.flush(60) == 0


@contextmanager
def _child(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of this package, which ends when its input does."""
    program = [sys.executable, "-m", f"tests.e2e.hostile.{name}", *arguments]
    child = subprocess.Popen(
        mortal(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()

"""The stories, told by kcat as far as it goes: every producer and consumer is a process of its own.

kcat creates no topics and sets no timestamps, so confluent-kafka lends a hand there. It commits by
itself what it has printed: every few seconds, when it loses partitions, and when it ends. So
`commit` has nothing to do, and what a member leaves behind must be committed all the same.
"""

import json
import os
import re
import select
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.clients.plan import PARTITIONS, Plan, told_plan
from tests.e2e.clients.python.confluent import Confluent
from tests.e2e.clients.python.stories import Client, Member, Place, Sending, Sight, tell
from tests.parts.kcat import kcat
from tests.parts.process import mortal

__all__ = ["Kcat"]

_FORMAT = r"%p %o %T %s\n"
_MOMENT_S = 0.02
_REBALANCED = re.compile(r"% Group .* rebalanced .*: (assigned|revoked): (.*)")
_PARTITION = re.compile(r"\[(\d+)\]")


class Kcat(Client):
    def __init__(self, plan: Plan, home: Path) -> None:
        super().__init__(plan)
        self._home = home
        self._other = Confluent(plan)

    def create(self, topics: Sequence[str]) -> None:
        self._other.create(topics)

    def partitions(self) -> dict[str, int]:
        listed = json.loads(self._run("-L", "-J"))["topics"]
        return {one["topic"]: len(one["partitions"]) for one in listed}

    def send(
        self,
        topic: str,
        records: Sequence[Sending],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[Place] | None:
        if any(record.timestamp is not None for record in records):
            self._other.send(topic, records)
            return None
        how = ["-P", "-t", topic]
        how += ["-z", codec] if codec else []
        how += ["-X", "enable.idempotence=true"] if idempotent else []
        for partition in sorted(
            {-1 if one.partition is None else one.partition for one in records}
        ):
            where = ["-p", str(partition)] if partition >= 0 else ["-K", "\\t"]
            lines = [
                one.value if one.key is None else f"{one.key}\t{one.value}"
                for one in records
                if partition < 0 or one.partition == partition
            ]
            self._run(*how, *where, stdin="\n".join(lines))
        return None

    def join(self, group: str, topic: str, count: int | None = None) -> Member:
        until = ["-c", str(count)] if count else []
        settings = ["-X", "auto.offset.reset=earliest"]
        return self._start(*settings, *until, "-G", group, topic)

    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        wanted = [f"{topic}:{partition}:{time_ms}" for partition in range(PARTITIONS)]
        answer = self._run("-Q", *(word for one in wanted for word in ("-t", one)))
        lines = re.findall(r"\[(\d+)\] offset (-?\d+)", answer)
        assert len(lines) == PARTITIONS, answer
        return {int(at): int(offset) if int(offset) >= 0 else None for at, offset in lines}

    def read_from(self, topic: str, starts: Mapping[int, int]) -> Member:  # noqa: ARG002
        # It finds the offsets again, by the time, in all partitions.
        return self._start("-C", "-t", topic, "-o", f"s@{self.plan.target_ms}")

    def _start(self, *arguments: str) -> Member:
        with tempfile.NamedTemporaryFile(dir=self._home, delete=False) as errors:
            words = Path(errors.name)
        return _Member([*self._kcat(), "-u", "-f", _FORMAT, *arguments], words)

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            mortal([*self._kcat(), *arguments]),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.plan.patience_s,
        )
        assert done.returncode == 0, f"kcat {arguments}: {done.stderr}"
        return done.stdout

    def _kcat(self) -> list[str]:
        return [kcat(), "-b", self.plan.bootstrap]


class _Member(Member):
    """A process that prints records, and says on standard error which partitions it has."""

    def __init__(self, argv: Sequence[str], words: Path) -> None:
        self._words = words
        self._rest = b""
        with words.open("wb") as errors:
            self._process = subprocess.Popen(
                mortal(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()

    def poll(self, most: int = 100) -> list[Sight]:  # noqa: ARG002
        if not select.select([self._output], [], [], _MOMENT_S)[0]:
            return []
        read = os.read(self._output, 1 << 16)
        assert read or self._process.wait(30) == 0, self._words.read_text()
        *lines, self._rest = (self._rest + read).split(b"\n")
        return [self._sight(line.decode()) for line in lines]

    def _sight(self, line: str) -> Sight:
        partition, offset, timestamp, value = line.split(" ", 3)
        return Sight(int(partition), int(offset), value, int(timestamp))

    def owned(self) -> list[int]:
        owned: set[int] = set()
        for line in self._words.read_text().splitlines():
            if found := _REBALANCED.match(line):
                some = {int(partition) for partition in _PARTITION.findall(found[2])}
                owned = owned | some if found[1] == "assigned" else owned - some
        return list(owned)

    def commit(self, next_offsets: Mapping[int, int] | None = None) -> None:
        """Leave it to kcat."""

    def close(self) -> None:
        # One that was to read a number of records may be at its end already.
        self._process.terminate()
        status = self._process.wait(30)
        assert status == 0, f"{status}: {self._words.read_text()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="lakelog-kcat-") as home:
        tell(Kcat(told_plan(), Path(home)))

"""Real clients in processes of their own: what each is to do, and how it is started.

A worker takes its plan as JSON and the path of its diary, and then lines on its standard input:
``quiet`` and ``end``. There is one with librdkafka (``rdkafka``) and one with the Java client
(``java/Worker.java``), and they do the same. One needs no broker (``library``), one makes and
deletes topics of its own (``admin``), and one reads everything with Spark (``spark_reader``).
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.history import Diary
from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.process import mortal
from tests.patience import LateError

__all__ = ["COMMIT_S", "KINDS", "LARGE_BYTES", "OBSERVE_S", "READERS", "SENDERS", "Plan", "Worker"]

COMMIT_S = 0.5
"""How often a member commits."""
OBSERVE_S = 0.2
"""How long after an answer offsets are asked for again."""
LARGE_BYTES = 100_000
"""Of a record that no topic takes which allows fewer; what it says stands at its beginning."""
_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a worker does; ``Load`` says which one it is."""

    name: str = ""
    """Of the producer: what its records begin with."""
    bootstrap: str = ""
    storage: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the store, for those that need no broker."""
    topic: str = "t"
    partitions: int = 12
    rate: float = 100.0
    """Records in a second; 0: there is no producer."""
    members: int = 2
    group: str = ""
    protocol: str = "classic"
    assign: bool = False
    """Whether each member takes all partitions from their start, and commits nothing."""
    idempotent: bool = True
    bounds: bool = False
    """Whether somebody asks where partitions begin and end."""
    large_every: int = 0
    """One record in so many is larger than the topic allows; 0: none is. Of librdkafka alone: a
    batch of such a record and a small one Java's producer splits into the same batch again, until
    its time is over (KAFKA-8350)."""
    expires: bool = False
    """Whether records may be gone before they are read: where a member begins to read says nothing
    of what is committed then."""
    librdkafka: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)
    """More settings, by what the client is made of."""
    reconnect_ms_max: int = 0
    """How long it waits before it connects again; 0: as long as its library likes."""
    retry_ms: int = 0
    """How long it waits before it tries again or asks for Metadata again; 0: as it likes."""


def _java() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    classes = compiled("cluster", _HERE / "java" / "Worker.java")
    return [java(), *quick_kafka(), "-Xmx256m", quiet, "-cp", classes, "Worker"]


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.cluster.{name}"]


KINDS: Mapping[str, Callable[[], list[str]]] = {
    "rdkafka": _python("rdkafka"),
    "java": _java,
    "library": _python("library"),
    "admin": _python("admin"),
    "spark": _python("spark_reader"),
}
READERS = ("rdkafka", "java")
"""Those that read the topic in groups."""
SENDERS = (*READERS, "library")
"""Those that send to all of its partitions."""


class Worker:
    """One process that runs, and its diary."""

    def __init__(self, kind: str, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.diary = Diary(folder / f"{plan.name}.diary")
        self._errors = folder / f"{plan.name}.err"
        argv = mortal([*KINDS[kind](), json.dumps(asdict(plan)), str(self.diary.path)])
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=errors, stderr=errors, text=True
            )

    def tell(self, what: str) -> None:
        """Tell it to be quiet, or to end."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def check(self) -> None:
        """It runs: one that has ended by itself is a broken test, and is quoted."""
        status = self._process.poll()
        assert status is None, f"{self.plan.name} ended with {status}: {self._last_words()}"

    def end(self, within_s: float = 60) -> None:
        """Let it end in good order."""
        self.tell("end")
        try:
            status = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LateError(f"{self.plan.name} did not end: {self._last_words()}") from None
        assert status == 0, f"{self.plan.name} ended with {status}: {self._last_words()}"

    def signal(self, what: signal.Signals) -> None:
        """Send it a signal, as SIGSTOP and SIGCONT."""
        self._process.send_signal(what)

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-2000:]

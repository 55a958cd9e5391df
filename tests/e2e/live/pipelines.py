"""`lakelog pipeline run` as its users start it: a driver, its JVM, and Python workers.

    setpriv -> python -m lakelog        the group that is killed: the driver, and java
                 java
                   pyspark.daemon       makes itself a group of its own, in the same session
                     pyspark.daemon     ... a worker

So what is killed with the group leaves workers behind, for as long as they take to notice. They may
still write what nobody waits for: that is part of the story. What a run tells is read from its log.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from types import TracebackType
from typing import Any

from lakelog.store import StoreSpec
from tests.parts.process import LOOPBACK, Process
from tests.parts.spark_cluster import python_workers, wait_for_the_end
from tests.patience import in_time

__all__ = ["Pipeline", "run_to_the_end"]

_START_S = 480
_PATIENCE_S = 120.0


class Pipeline:
    """One process and what it started; leaving the context kills it all."""

    def __init__(self, home: Path, place: StoreSpec, *arguments: str) -> None:
        self.log = home / f"pipeline-{len([*home.glob('pipeline-*')])}.log"
        argv = [sys.executable, "-m", "lakelog", "pipeline", "run", place.url, "--json", *arguments]
        for name, value in place.options.items():
            argv += ["--store-option", f"{name}={value}"]
        self._process = Process(argv, self.log, {"SPARK_LOCAL_IP": LOOPBACK})

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def passes(self) -> list[dict[str, Any]]:
        """What it has told, a pass each. A line that is not whole yet is left out."""
        lines = self.log.read_text(errors="replace").split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith('{"good"')]

    def wait_for_passes(self, count: int) -> None:
        """Wait until it has told of so many; one that ends before is quoted."""
        self.wait_until(lambda: len(self.passes) >= count)

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until something holds, while it runs."""
        self._process.wait_until(ready, within_s=_START_S)

    def kill(self) -> None:
        """SIGKILL for its group; return when all it had started has noticed."""
        self._process.stop(grace_s=0)
        wait_for_the_end(self._process.pid)

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to the driver and its JVM, as SIGSTOP; workers are left alone."""
        if self._process.is_running:
            os.killpg(self._process.pid, what)

    def kill_worker(self, chance: Random) -> int:
        """SIGKILL for one Python worker, as soon as there is one; return which."""
        last = time.monotonic() + _PATIENCE_S
        while not (workers := python_workers(self._process.pid)):
            in_time(time.monotonic() < last, "there is no worker")
            time.sleep(0.01)  # noqa: TID251 (for another process)
        chosen = chance.choice(sorted(workers))
        os.kill(chosen, signal.SIGKILL)
        return chosen

    def counts(self) -> Counter[str]:
        """How many units of each verb ended how, over all passes."""
        found: Counter[str] = Counter()
        for one in self.passes:
            found["passes"] += 1
            found["failures"] += len(one["failures"])
            for verb, told in one["verbs"].items():
                for outcome, count in told["outcomes"].items():
                    found[f"{verb}: {outcome}"] += count
        return found


def run_to_the_end(home: Path, place: StoreSpec, *arguments: str) -> Pipeline:
    """Run what is due once; it must be good."""
    with Pipeline(home, place, *arguments) as pipeline:
        pipeline.wait_for_passes(1)
    (told,) = pipeline.passes
    assert told["good"], told
    return pipeline

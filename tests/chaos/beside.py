"""Who else works on the log beside brokers and clients, and what befalls them.

freeze-writer                    the library that appends to lanes which brokers lead
kill-keeper                      ``lakelog keep``
kill-pipeline, freeze-pipeline   ``lakelog pipeline run``, on a Spark of its own
last-release                     a broker is started as the last release was, and back again
"""

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

from lakelog.store import StoreSpec
from release.versions import previous
from tests.chaos.faults import BESIDE, LEAST_S
from tests.chaos.plan import Run
from tests.chaos.stage import Stage
from tests.chaos.workloads import WORKLOADS
from tests.cluster.faults import Fault
from tests.cluster.planted import environment
from tests.cluster.workers import Worker
from tests.e2e.live.pipelines import Pipeline
from tests.e2e.upgrade.released import environment_of
from tests.parts.process import Process

__all__ = ["Beside", "module_of", "working_beside"]

STOP_S = 20.0
"""For a broker to leave in good order; then it is killed."""
_PIPELINE = ("--every", "4s", "--now", "--master", "local[1]")


class Beside:
    """Those that keep the namespace."""

    def __init__(self, stage: Stage, asked: Run, home: Path) -> None:
        self._stage, self._asked, self._home = stage, asked, home
        self._keeper: Process | None = None
        self._pipeline: Pipeline | None = None
        self.faults: dict[str, Fault] = {}
        self.passes = 0
        """Of pipelines, that have ended in good order."""

    def keep(self) -> None:
        """Keep the namespace, in a process of its own."""

        def start(_: int = 0) -> None:
            if self._keeper is None:
                self._keeper = self._new_keeper()

        def kill(_: int, __: Random) -> None:
            if self._keeper is not None:
                self._keeper.stop(grace_s=0)
                self._keeper = None

        start()
        self.faults["kill-keeper"] = Fault(kill, start)

    def run_pipeline(self) -> None:
        """Keep the namespace with Spark."""

        def start(_: int = 0) -> None:
            self._pipeline = self._new_pipeline()

        def kill(_: int, __: Random) -> None:
            self._end_pipeline()
            start()

        def tell(what: signal.Signals) -> None:
            if self._pipeline is not None:
                self._pipeline.signal(what)

        def is_working() -> bool:
            return self._pipeline is not None and bool(self._pipeline.passes)

        start()
        self.faults["kill-pipeline"] = Fault(kill, lambda _: None, may_begin=is_working)
        self.faults["freeze-pipeline"] = Fault(
            lambda *_: tell(signal.SIGSTOP), lambda _: tell(signal.SIGCONT), may_begin=is_working
        )

    def freeze_writer(self, writer: Worker) -> None:
        """Let a worker that needs no broker be frozen."""
        self.faults["freeze-writer"] = Fault(
            lambda *_: writer.signal(signal.SIGSTOP), lambda _: writer.signal(signal.SIGCONT)
        )

    def told(self) -> dict[str, Fault]:
        """Return what may befall them."""
        return {
            kind: replace(fault, least_s=LEAST_S[kind], is_beside=kind in BESIDE)
            for kind, fault in self.faults.items()
        }

    def wait(self) -> None:
        """Wait until Spark has started, and has done what was due."""
        if self._pipeline is not None:
            self._pipeline.wait_for_passes(1)

    def _new_keeper(self) -> Process:
        cluster = self._stage.cluster
        argv = [sys.executable, "-m", module_of(self._asked), "keep", cluster.storage]
        argv += ["--every", "1"]
        for name, value in cluster.options.items():
            argv += ["--store-option", f"{name}={value}"]
        env = environment([self._asked.bug]) if self._asked.bug else {}
        return Process(argv, self._home / "keeper.log", env)

    def _new_pipeline(self) -> Pipeline:
        cluster = self._stage.cluster
        return Pipeline(self._home, StoreSpec(cluster.storage, cluster.options), *_PIPELINE)

    def _end_pipeline(self) -> None:
        if self._pipeline is not None:
            self.passes += sum(one["good"] for one in self._pipeline.passes)
            self._pipeline.kill()
            self._pipeline = None

    def stop(self) -> None:
        """End all of them."""
        if self._keeper is not None:
            self._keeper.stop(grace_s=0)
            self._keeper = None
        self._end_pipeline()


@contextlib.contextmanager
def working_beside(stage: Stage, asked: Run, home: Path) -> Iterator[Beside]:
    """Start who else works on the log, as the workload says; none is left behind."""
    found, workload = Beside(stage, asked, home), WORKLOADS[asked.workload]
    if workload.versions:
        found.faults["last-release"] = _last_release(stage)
    try:
        if workload.keeps:
            found.keep()
        if workload.pipeline:
            found.run_pipeline()
        yield found
    finally:
        found.stop()


def module_of(asked: Run) -> str:
    """Return what Python runs as lakelog."""
    return "tests.cluster.planted" if asked.bug else "lakelog"


def _last_release(stage: Stage) -> Fault:
    """One broker at a time: version 0.1.0 is for one, and does not notice at once when another of
    its kind replaces it. What it tells of offsets until then is of before.
    """
    last, old = previous(), set[int]()
    assert last is not None, "release/versions.toml names no release before this version"
    released, clocks = environment_of(last)["PYTHONPATH"], stage.clocks

    def restart(node: int, env: Mapping[str, str], grace_s: float) -> None:
        broker = stage.cluster.brokers[node]
        broker.stop(grace_s)
        broker.env = env
        broker.launch()

    def begin(node: int, chance: Random) -> None:
        env = clocks[node].env(released)
        old.add(node)
        restart(node, env, chance.choice((0.0, STOP_S)))

    def end(node: int) -> None:
        restart(node, clocks[node].env(), STOP_S)
        old.discard(node)

    return Fault(begin, end, may_begin=lambda: not old)

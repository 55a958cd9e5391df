"""One run: brokers, clients, faults, the end of faults, and what is wrong afterwards."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakelog.catalog import make_namespace
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import open_store, run, working
from tests.cluster.checker import Findings
from tests.cluster.faults import Storm
from tests.cluster.history import History
from tests.cluster.load import TOPIC, loaded
from tests.parts.cluster import running_cluster
from tests.parts.seaweedfs import SeaweedFS

__all__ = ["BOTH", "Outcome", "fault_run", "new_namespace"]

BOTH = ("rdkafka", "java")


@dataclass(frozen=True)
class Outcome:
    """What a run has shown."""

    findings: Findings
    history: History
    faults: Counter[str]

    def figures(self) -> dict[str, object]:
        """Return what is printed of it."""
        history = self.history
        return {
            "faults": dict(self.faults),
            "acked": len(history.acked),
            "reads": len(history.reads),
            "commits": len(history.commits),
            "offsets_told": len(history.fetches),
            "rebalances": len(history.assignments),
            "errors": history.error_kinds(),
            **self.findings.counts(),
        }


def new_namespace(seaweedfs: SeaweedFS, lanes: int | None = None) -> str:
    """Return the URL of a place in which nothing is yet; or of a namespace of so many lanes."""
    url = f"s3://{seaweedfs.bucket('cluster')}/{new_id().hex()}"
    if lanes is not None:
        store = open_store(url, seaweedfs.options)
        run(make_namespace(new_id(), Rules(lanes=lanes)), working(store.perform))
    return url


def fault_run(
    seaweedfs: SeaweedFS,
    home: Path,
    *,
    faults: str,
    seed: int,
    seconds: float,
    heartbeat_ms: int,
    kinds: Sequence[str] = BOTH,
    arguments: Sequence[str] = ("--no-keep",),
) -> Outcome:
    """Let faults of one set befall three brokers for so long."""
    url = new_namespace(seaweedfs)
    with (
        running_cluster(
            url,
            seaweedfs.options,
            heartbeat_ms=heartbeat_ms,
            home=home,
            arguments=arguments,
        ) as cluster,
        loaded(cluster, home, kinds=kinds) as load,
    ):
        storm = Storm(cluster, faults, seed, heartbeat_ms / 1000)
        storm.rage(seconds, load.tail)
        healed = storm.heal()
        cluster.wait_until_whole(TOPIC)
        return Outcome(load.finish(healed), load.history, storm.done)

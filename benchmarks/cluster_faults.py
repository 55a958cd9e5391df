"""Three brokers on SeaweedFS, whose clients notice nothing while brokers are killed and stopped.

Idempotent producers, groups that commit and an observer of their offsets, of librdkafka and of
Java, with settings as they come. Each run has faults of one set, by its seed: kill -9, SIGSTOP,
SIGTERM, and all of them mixed. Then all brokers run again, all records are read by every group, and
the history that the clients wrote is compared with what is in the store (``tests/cluster``).

The value is the number of runs in which nothing is lost, twice, elsewhere than was told, or not
read a minute after the faults have ended, and no commit goes back. The bar is all of them. Errors
that reached the applications are printed.
"""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from tests.cluster.checker import RULES
from tests.cluster.story import fault_run
from tests.parts.seaweedfs import running_seaweedfs

SETS = ("mixed", "kill", "freeze", "leave", "mixed")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=120.0, help="of faults, in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    parser.add_argument("--faults", choices=sorted(set(SETS)), help="of all runs")
    parser.add_argument("--keep", action="store_true", help="let brokers maintain the log as well")
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    runs, seconds = (1, 8.0) if asked.quick else (asked.runs, asked.seconds)
    keeping = ("--keep-every", "5") if asked.keep else ("--no-keep",)
    figures, good = [], 0
    with running_seaweedfs() as seaweedfs, tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            seed = asked.seed + number
            faults = asked.faults or SETS[number % len(SETS)]
            home = (asked.logs or Path(folder)) / f"run-{seed}"
            home.mkdir(parents=True)
            outcome = fault_run(
                seaweedfs,
                home,
                faults=faults,
                seed=seed,
                seconds=seconds,
                heartbeat_ms=asked.heartbeat_ms,
                arguments=keeping,
            )
            good += not outcome.findings
            figures.append({"set": faults, "seed": seed, **outcome.figures()})
            shown = outcome.findings.shown()
            print(json.dumps(figures[-1] | ({"found": shown} if shown else {})), flush=True)
    totals = {
        name: sum(one[name] for one in figures if isinstance(one[name], int))
        for name in ("acked", *RULES)
    }
    closing_line(name="cluster_faults", value=good, bar=runs, seconds=seconds, **totals)


if __name__ == "__main__":
    main()

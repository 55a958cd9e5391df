"""Runs of the campaign, each added to the ledger.

python -m tests.chaos                               the run that is next
python -m tests.chaos --runs 60 --seconds 120       so many of them
python -m tests.chaos --walls                       the next one, with TLS, SCRAM and ACLs
python -m tests.chaos --workload maintenance        the next one of that workload
python -m tests.chaos --seed 7 --workload group     a certain one, which is not added
python -m tests.chaos --summary                     what all of them have shown
python -m tests.chaos --check history.jsonl         a history by itself
python -m tests.chaos --planted                     every planted bug is found
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos import ledger
from tests.chaos.campaign import chaos_run
from tests.chaos.faults import SETS
from tests.chaos.plan import BEATS_MS, MEMBERS, Run, following
from tests.chaos.planted import FOUND, run_of
from tests.chaos.workloads import WORKLOADS
from tests.cluster.checker import check
from tests.cluster.edn import edn_of
from tests.cluster.operations import history_of, read_operations
from tests.cluster.workers import SENDERS
from tests.parts.jars import cache
from tests.parts.seaweedfs import SeaweedFS, running_seaweedfs

_WORKLOAD = "group"
"""Of a certain run, or of a history, of which nobody says."""


def main() -> None:
    asked = _arguments()
    if asked.summary:
        entries = [one for one in ledger.read() if asked.members in (None, one["members"])]
        print(ledger.summary(entries))  # noqa: T201
        return
    if asked.write:
        _write_page()
        return
    if asked.check is not None:
        history = history_of(read_operations(asked.check))
        is_exact = WORKLOADS[asked.workload or _WORKLOAD].plan.idempotent
        repeating = () if is_exact else SENDERS
        found = check(history, {}, groups=(), healed=0.0, repeating=repeating)
        print(json.dumps({"counts": found.counts(), "found": found.shown()}))  # noqa: T201
        sys.exit(1 if found else 0)
    if asked.edn is not None:
        for operation in read_operations(asked.edn):
            print(edn_of(operation))  # noqa: T201
        return
    if asked.planted is not None:
        bugs = list(FOUND) if asked.planted == "all" else [asked.planted]
        with running_seaweedfs() as seaweedfs:
            are_found = [_find(seaweedfs, bug, asked) for bug in bugs]
        sys.exit(0 if all(are_found) else 1)
    runs = [_certain(asked)] if asked.seed is not None else _next(asked)
    with running_seaweedfs() as seaweedfs:
        good = [_one(seaweedfs, run, asked) for run in runs]
    sys.exit(0 if all(good) else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0, help="of faults, in each run")
    parser.add_argument("--heartbeat-ms", type=int, help="instead of what the plan says")
    parser.add_argument("--members", choices=MEMBERS, help="where they are; else by turns")
    parser.add_argument("--walls", action="store_true", help="with TLS, logins by SCRAM, and ACLs")
    parser.add_argument("--seed", type=int, help="of a certain run, which is not in the ledger")
    parser.add_argument("--workload", choices=list(WORKLOADS), help="else as planned")
    parser.add_argument("--faults", choices=list(SETS), default="mixed")
    parser.add_argument(
        "--planted", nargs="?", const="all", choices=["all", *FOUND], metavar="BUG",
        help="find a planted bug, or all of them",
    )  # fmt: skip
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER",
        help="keep logs and histories there; else only those of runs in which something is wrong, "
        "in the cache of tests",
    )  # fmt: skip
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--write", action="store_true", help="the sum into RELIABILITY.md")
    parser.add_argument("--check", type=Path, metavar="HISTORY")
    parser.add_argument("--edn", type=Path, metavar="HISTORY")
    return parser.parse_args()


def _write_page() -> None:
    ledger.PAGE.write_text(ledger.page(ledger.PAGE.read_text(), ledger.read()))


def _certain(asked: argparse.Namespace) -> Run:
    members = asked.members or "bucket"
    return Run(
        seed=asked.seed,
        workload=asked.workload or _WORKLOAD,
        faults=asked.faults,
        seconds=asked.seconds,
        heartbeat_ms=asked.heartbeat_ms or BEATS_MS[members],
        members=members,
        walls=asked.walls,
    )


def _next(asked: argparse.Namespace) -> list[Run]:
    # One that broke down has shown nothing, and one that found something was mended: made again.
    done = [(one["members"], one["seed"]) for one in ledger.read() if ledger.is_good(one)]
    runs = following(done, asked.runs, asked.seconds, asked.members, asked.workload)
    if asked.heartbeat_ms is not None:
        runs = [replace(one, heartbeat_ms=asked.heartbeat_ms) for one in runs]
    if asked.walls:
        # The last release knows no walls.
        runs = [replace(one, walls=not WORKLOADS[one.workload].versions) for one in runs]
    return runs


def _find(seaweedfs: SeaweedFS, bug: str, asked: argparse.Namespace) -> bool:
    """Run brokers with a bug, and say whether it was found."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) if asked.logs is None else asked.logs / bug
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        begun = time.monotonic()
        outcome = chaos_run(seaweedfs, home, run_of(bug))
        row = {
            "bug": bug,
            **FOUND[bug]._asdict(),
            "is_found": any(outcome.findings[rule] for rule in FOUND[bug].rules),
            "broken": outcome.anomalies(),
            "fired": outcome.fired,
            "took_s": round(time.monotonic() - begun, 1),
            "phases": outcome.phases,
        }
        print(json.dumps(row), flush=True)  # noqa: T201
        return bool(row["is_found"])


def _one(seaweedfs: SeaweedFS, run: Run, asked: argparse.Namespace) -> bool:
    """Make a run, print what it has shown, and add it to the ledger; False: something is wrong."""
    home = (asked.logs or cache() / "chaos") / f"{run.members}-{run.seed}-{run.workload}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    begun = time.monotonic()
    try:
        outcome = chaos_run(seaweedfs, home, run)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told, and the next run comes)
        line = ledger.failure(run, error, time.monotonic() - begun)
        shown: dict[str, object] = {"error": str(error)}
    else:
        line = ledger.entry(run, outcome, time.monotonic() - begun)
        shown = {"errors": outcome.history.error_kinds(), "exits": outcome.exits[:3]}
        shown["phases"] = outcome.phases
        shown |= outcome.findings.shown()
    is_good = ledger.is_good(line)
    if asked.seed is None:
        ledger.append(line)
        _write_page()
    kept = {} if is_good and asked.logs is None else {"kept": str(home)}
    print(json.dumps(line | {"shown": shown} | kept), flush=True)  # noqa: T201
    if not kept:
        shutil.rmtree(home)
    return is_good


if __name__ == "__main__":
    main()

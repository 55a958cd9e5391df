"""What the runs have shown: a line each, in a file of the repository, and their sum on a page.

A line is written once and never changed. A run that broke down is one, too, with its reason. The
page, RELIABILITY.md, has the sum of all lines between two marks; a test holds it to that.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.campaign import Outcome
from tests.chaos.faults import ETCD, KINDS
from tests.chaos.plan import DEFAULT_BEATS_MS, Run
from tests.chaos.workloads import WORKLOADS

__all__ = ["LEDGER", "PAGE", "append", "entry", "failure", "is_good", "page", "read", "summary"]

ROOT = Path(__file__).parents[2]
LEDGER, PAGE = ROOT / "RELIABILITY.jsonl", ROOT / "RELIABILITY.md"
_MARKS = ("<!-- the sum of all runs -->\n```text\n", "```\n<!-- its end -->\n")
_EVERY = (*KINDS, *ETCD, *(kind for one in WORKLOADS.values() for kind in one.faults))
"""Kinds of faults."""

Entry = dict[str, Any]


def read(path: Path = LEDGER) -> list[Entry]:
    """Return all lines."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def append(one: Entry, path: Path = LEDGER) -> None:
    """Add a line."""
    with path.open("a") as file:
        file.write(json.dumps(one) + "\n")


def page(text: str, entries: Sequence[Entry]) -> str:
    """Return the page with the sum of all lines in its place."""
    before, rest = text.split(_MARKS[0])
    _, after = rest.split(_MARKS[1])
    return f"{before}{_MARKS[0]}{summary(entries)}\n{_MARKS[1]}{after}"


def is_good(one: Entry) -> bool:
    """Say whether a run went to its end, and nothing was wrong."""
    return not (one.get("broken") or one.get("anomalies") or one.get("late"))


def _head(asked: Run) -> Entry:
    return {
        "commit": _commit(),
        "members": asked.members,
        "seed": asked.seed,
        "workload": asked.workload,
        "faults": asked.faults,
        "heartbeat_ms": asked.heartbeat_ms,
        "seconds": asked.seconds,
        **({"walls": True} if asked.walls else {}),
    }


def entry(asked: Run, outcome: Outcome, took_s: float) -> Entry:
    """Return the line of a run."""
    return {
        **_head(asked),
        "fired": dict(sorted(outcome.fired.items())),
        "operations": outcome.operations,
        "acked": len(outcome.history.acked),
        "reads": len(outcome.history.reads),
        "ok_during_faults": round(outcome.share, 4),
        "anomalies": outcome.anomalies(),
        "late": outcome.late(),
        "exits": len(outcome.exits),
        **({"pipeline_passes": outcome.passes} if outcome.passes else {}),
        "took_s": round(took_s, 1),
    }


def failure(asked: Run, error: BaseException, took_s: float) -> Entry:
    """Return the line of a run that broke down."""
    what = (str(error).splitlines() or [""])[0][:200]
    return {
        **_head(asked),
        "broken": f"{type(error).__name__}: {what}",
        "took_s": round(took_s, 1),
    }


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    is_changed = bool(git("status", "--porcelain", "--", "src", "tests"))
    return git("rev-parse", "--short=12", "HEAD") + ("+" if is_changed else "")


def summary(entries: Sequence[Entry]) -> str:
    """Return what all runs together have shown, as text."""
    if not entries:
        return "There was no run yet."
    whole = [one for one in entries if "broken" not in one]
    fired, anomalies, late = (_summed(whole, name) for name in ("fired", "anomalies", "late"))
    shares = sorted(one["ok_during_faults"] for one in whole if sum(one["fired"].values()))
    rows = [
        ("runs", f"{len(entries)}, of which {len(entries) - len(whole)} broke down"),
        ("members", _counted(one["members"] for one in entries)),
        ("with beats as they come", str(sum(map(_has_default_beats, entries)))),
        ("with TLS, SCRAM and ACLs", str(sum("walls" in one for one in entries))),
        ("workloads", _counted(one["workload"] for one in entries)),
        ("sets of faults", _counted(one["faults"] for one in entries)),
        ("minutes of faults", f"{sum(one['seconds'] for one in whole) / 60:.0f}"),
        ("operations", f"{sum(one['operations'] for one in whole):,}"),
        ("records acknowledged", f"{sum(one['acked'] for one in whole):,}"),
        ("faults", f"{sum(fired.values()):,}"),
        *((f"  {kind}", f"{fired[kind]:,}") for kind in sorted({*_EVERY, *fired})),
        ("ok during faults", f"{shares[0]:.1%} at least" if shares else "-"),
        ("brokers that ended by themselves", f"{sum(one['exits'] for one in whole):,}"),
        ("safety anomalies", _told(anomalies)),
        ("late after a minute", _told(late)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _has_default_beats(one: Entry) -> bool:
    return bool(one["heartbeat_ms"] == DEFAULT_BEATS_MS[one["members"]])


def _summed(entries: Iterable[Entry], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in entries:
        found.update(one[name])
    return found


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(Counter(names).items()))


def _told(found: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items()) or "0"

"""What a run of the pipeline shows: its plan, how far it is, and its report.

Progress goes to stderr and only to a terminal, so that stdout can be piped. A report closes with
what was found, and with a command to try next.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from lakelog.cli.tables import counted

if TYPE_CHECKING:
    from lakelog.pipeline import Plan, Report
    from lakelog.spark.jobs import Progress as Done

__all__ = ["RunView", "plan_json"]

FINDINGS_SHOWN = 20
_NEXT = {
    "verify": "lakelog inspect PATH shows a damaged file; lakelog pipeline reindex mends indexes",
    "reindex": "lakelog pipeline verify shows what is wrong with the data",
    "convert": "--lose WHAT allows a loss; lakelog pipeline verify shows what is damaged",
    "seal": "lakelog pipeline verify shows what is damaged",
    "merge": "lakelog pipeline verify shows what is damaged",
    "compact": "lakelog pipeline verify shows what is damaged",
    "retain": "lakelog pipeline verify shows what is damaged",
    "import": "lakelog inspect PATH shows a damaged file; the topics stay closed until all is well",
    "compare": "lakelog dump PATH shows the records of either side",
}
_NO_SEGMENTS = ("missing", "unsealed")
"""Outcomes that are shown as a sentence, and not counted as segments."""
_LOOKS = ("verify", "reindex")
_COLOURS = {"good": "green", "unverifiable": "yellow"}
_UNVERIFIABLE = (
    "nothing wrong was found, but this format has no checksum: a changed payload or time would not "
    "show. --against URL compares with another copy"
)


def plan_json(verb: str, plan: "Plan") -> dict[str, Any]:
    """Return a plan as JSON has it."""
    return {
        "verb": verb,
        "dry_run": True,
        "units": len(plan.units),
        "objects_read": plan.objects_read,
        "objects_written": plan.objects_written,
        "bytes_read": plan.expected.bytes_read,
        "requests": dict(plan.expected.requests),
        "price_usd": round(plan.expected.price_usd, 6),
        "missing": _sentences(plan, "missing"),
        "unsealed": _sentences(plan, "unsealed"),
    }


def _sentences(plan: "Plan", outcome: str) -> list[str]:
    found = (result.findings for result in plan.results if result.outcome == outcome)
    return [finding.what for findings in found for finding in findings]


class RunView:
    """What one run shows."""

    def __init__(self, verb: str, url: str, *, quiet: bool) -> None:
        self._verb, self._url = verb, url
        self._out = Console(highlight=False)
        self._err = Console(file=sys.stderr, highlight=False)
        self._bar: Progress | None = None
        self._draws = self._err.is_terminal and not quiet

    def plan(self, plan: "Plan") -> None:
        """Show what a run would take."""
        figures = plan_json(self._verb, plan)
        rows = {
            "segments": f"{figures['units']:,}",
            "read": f"{figures['objects_read']:,} objects, {_size(figures['bytes_read'])}",
            "write": f"{figures['objects_written']:,} objects"
            if figures["objects_written"]
            else "nothing",
            "requests": _requests(figures["requests"]),
            "price": _price(plan.expected.price_usd),
        }
        self._print(f"[bold]{self._verb}[/] {self._url}, a dry run", rows)
        for what in figures["missing"] + figures["unsealed"]:
            self._say(what)

    @contextmanager
    def running(self, plan: "Plan") -> Iterator[None]:
        """Draw progress while the block runs, from the start of Spark on."""
        if not self._draws:
            yield
            return
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TextColumn("{task.fields[records]:,} records"),
            TimeRemainingColumn(),
            console=self._err,
            transient=True,
        )
        with self._bar:
            total = sum(unit.size for unit in plan.units)
            self._task = self._bar.add_task("starting Spark", total=total, records=0)
            yield

    def progress(self, done: "Done") -> None:
        """Show how far the run is."""
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=self._verb,
                completed=done.bytes_done,
                records=done.records,
            )

    def report(self, report: "Report") -> None:
        """Show how the run ended."""
        usage = report.usage
        rows = {
            "segments": ", ".join(
                f"{n:,} {outcome}"
                for outcome, n in report.outcomes.items()
                if outcome not in _NO_SEGMENTS
            )
            or "none",
            "records": f"{report.records:,}",
            "read": _size(usage.bytes_read),
        }
        if report.verb in _LOOKS:
            segments, topics = counted(report.segments, "segment"), counted(report.topics, "topic")
            rows["looked at"] = f"{segments} of {topics}"
        if usage.bytes_written:
            rows["written"] = _size(usage.bytes_written)
        rows["requests"] = f"{_requests(usage.requests)}, {_price(usage.price_usd)}"
        rows["took"] = _took(report.seconds)
        end = f"[{_COLOURS.get(report.verdict, 'red')}]{report.verdict}[/]"
        self._print(f"[bold]{report.verb}[/] {self._url}: {end}", rows)
        if report.findings_count:
            self._findings(report)
        if report.verdict == "unverifiable":
            self._say(_UNVERIFIABLE)

    def _findings(self, report: "Report") -> None:
        for found in report.findings(FINDINGS_SHOWN):
            lost = f"; {found.size:,} bytes lost" if found.size else ""
            position = f"{found.object} at {found.position}: " if found.position >= 0 else ""
            self._say(f"{position}{found.what}{lost}")
        more = report.findings_count - FINDINGS_SHOWN
        if more > 0:
            self._say(f"... and {more:,} more; --report PATH saves them")
        if report.verdict == "not good":
            self._say(f"next: {_NEXT[report.verb]}")

    def _say(self, line: str) -> None:
        """Print a line as it is: not folded, and without looking for markup in it."""
        self._out.print(line, soft_wrap=True, markup=False)

    def _print(self, title: str, rows: Mapping[str, str]) -> None:
        self._out.print(title, soft_wrap=True)
        for name, text in rows.items():
            self._say(f"  {name:<10} {text}")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{count:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError


def _requests(requests: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind.upper()}" for kind, count in sorted(requests.items()))


def _price(usd: float) -> str:
    if usd < 0.0001:
        return "under $0.0001" if usd else "$0"
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:.4f}"


def _took(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)} min {rest:.0f} s" if minutes else f"{rest:.1f} s"

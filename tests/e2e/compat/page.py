"""What came out, kept as results.json, and told as docs/compatibility.md.

The page is made of the results and of the tables in the code, and of nothing else.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.compat.behaviours import BEHAVIOURS, SECTIONS
from tests.e2e.compat.known import DIFFERENCES, LIMITS, REMARKS
from tests.e2e.compat.running import SECOND_TRY, Result
from tests.e2e.compat.workers import CLIENTS

__all__ = ["PAGE", "RESULTS", "Report", "explanation", "read_report", "render", "write_report"]

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
RESULTS = Path(__file__).with_name("results.json")
_WORDS_MAX = 240


@dataclass(frozen=True)
class Report:
    """All of it: versions by name, results by cluster, client and behaviour."""

    brokers: Mapping[str, str]
    clients: Mapping[str, str]
    results: Mapping[str, Mapping[str, Mapping[str, Result]]]

    def cell(self, behaviour: str, client: str) -> tuple[Result, Result]:
        """On Kafka, and on lakelog."""
        on = self.results
        return on["kafka"][client][behaviour], on["lakelog"][client][behaviour]

    def cells(self) -> Iterator[tuple[str, str, Result, Result]]:
        for behaviour in BEHAVIOURS:
            for client in CLIENTS:
                yield behaviour, client, *self.cell(behaviour, client)


def write_report(report: Report) -> None:
    """Keep it, and write the page anew."""
    tidy = {
        cluster: {
            client: {name: dataclasses.asdict(_tidy(one)) for name, one in some.items()}
            for client, some in clients.items()
        }
        for cluster, clients in report.results.items()
    }
    kept = {"brokers": report.brokers, "clients": report.clients, "results": tidy}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(render(read_report()))


def _tidy(result: Result) -> Result:
    """Leave out what differs from run to run: names, addresses, folders."""
    why = re.sub(r"[\w.-]*-[0-9a-f]{8}[\w-]*", "…", " ".join(result.why.split()))
    why = re.sub(r"\d+\.\d+\.\d+\.\d+:\d+|/tmp/\S+", "…", why)
    return Result(result.result, why if len(why) <= _WORDS_MAX else f"{why[:_WORDS_MAX]} …")


def read_report() -> Report:
    """What was kept last time."""
    kept = json.loads(RESULTS.read_text())
    results = {
        cluster: {
            client: {name: Result(**one) for name, one in some.items()}
            for client, some in clients.items()
        }
        for cluster, clients in kept["results"].items()
    }
    return Report(kept["brokers"], kept["clients"], results)


def explanation(behaviour: str, client: str, kafka: Result, lakelog: Result) -> str | None:
    """What there is to say of a cell; None if it should be said why it fails, and nobody can."""
    if kafka.result == lakelog.result == "passes":
        remark = REMARKS.get((behaviour, client))
        return f"{CLIENTS[client].title}: {remark}" if remark else ""
    if kafka.result == lakelog.result == "absent":
        return f"{CLIENTS[client].title}: {lakelog.why}."
    if kafka.result == "passes":
        return DIFFERENCES.get(behaviour)
    return LIMITS.get((behaviour, client))


def _cell(kafka: Result, lakelog: Result) -> str:
    if kafka.result == lakelog.result:
        return {"fails": "fails on both"}.get(kafka.result, kafka.result)
    return f"Kafka {kafka.result}, lakelog {lakelog.result}"


def _second_tries(report: Report) -> str:
    again = [
        f"{name} by {CLIENTS[client].title} on {broker}"
        for name, client, *both in report.cells()
        for broker, one in zip(("Kafka", "lakelog"), both, strict=True)
        if one.why == SECOND_TRY
    ]
    return ", ".join(again) or "this time nothing was"


class _Notes:
    """Explanations, each with its number."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all) + 1)


def render(report: Report) -> str:
    """Return the page."""
    notes = _Notes()
    tables = [line for title in SECTIONS for line in _table(title, report, notes)]
    lines = [
        "# Compatibility with Kafka's clients",
        "",
        "<!-- Made by make compat: change the tables in tests/e2e/compat instead. -->",
        "",
        "What unmodified Kafka clients can do with lakelog, tried one behaviour at a time, on a",
        "real Apache Kafka and on lakelog. Each behaviour is a small program that checks what it",
        "gets: values, offsets, headers, and errors by their names. It is the same for all.",
        "",
        *_counts(report),
        "",
        "*passes*: on Kafka and on lakelog. *absent*: the client has no such call. Where the two",
        "differ, a cell says both. A number is that of a [note](#notes). What takes longer than a",
        f"minute is tried once more, on whichever broker: {_second_tries(report)}.",
        "",
        *tables,
        "## Notes",
        "",
        *(f"{number}. {text}" for text, number in notes.all.items()),
        "",
        "## Versions",
        "",
        "| what | version |",
        "|---|---|",
        f"| Apache Kafka | {report.brokers['kafka']} |",
        f"| lakelog | {report.brokers['lakelog']} |",
        *(f"| {CLIENTS[name].title} | {report.clients[name]} |" for name in CLIENTS),
        "",
        "## How to run it",
        "",
        "```console",
        "$ make compat                                # both brokers, and this page anew",
        "$ python -m tests.e2e.compat --on lakelog --clients java --only seek regex",
        "$ python -m pytest tests/e2e/compat          # lakelog is still what this page says",
        "```",
        "",
        "Both brokers run on one machine: Kafka as one node, lakelog on a folder. They have the",
        "same settings: topics are created by asking for them, groups wait for nobody.",
        "",
    ]
    return "\n".join(lines)


def _counts(report: Report) -> list[str]:
    pairs = [(kafka.result, lakelog.result) for _, _, kafka, lakelog in report.cells()]
    both = sum(pair == ("passes", "passes") for pair in pairs)
    absent = sum(pair == ("absent", "absent") for pair in pairs)
    only = sum(kafka == "passes" != lakelog for kafka, lakelog in pairs)
    others = len(pairs) - both - absent - only
    return [
        f"{len(BEHAVIOURS)} behaviours of {len(CLIENTS)} clients are {len(pairs)} cells.",
        f"{both} pass on both, {absent} are absent from the client, {only} pass on Kafka only,",
        f"and {others} fail on both.",
    ]


def _table(title: str, report: Report, notes: _Notes) -> Iterator[str]:
    names = [client.title for client in CLIENTS.values()]
    yield from (f"## {title}", "", f"| behaviour | {' | '.join(names)} |")
    yield f"|---|{'---|' * len(names)}"
    for name, behaviour in SECTIONS[title].items():
        cells = []
        for client in CLIENTS:
            kafka, lakelog = report.cell(name, client)
            why = explanation(name, client, kafka, lakelog)
            if why is None:
                why = f"Not explained. {CLIENTS[client].title}: {lakelog.why or kafka.why}"
            cells.append(f"{_cell(kafka, lakelog)}{f' ({notes.number(why)})' if why else ''}")
        yield f"| **{name}**: {behaviour.sentence} | {' | '.join(cells)} |"
    yield ""

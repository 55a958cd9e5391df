"""doctor: what usually breaks, looked at before it does.

Ends with 0 if all is well, 1 if not.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lakelog.cli.arguments import exit_on_error, missing, named_values, store_option
from lakelog.cli.storage import spec_of, try_store
from lakelog.store import PROBE_THOROUGH, Finding, ProbeSize, Verdict

if TYPE_CHECKING:
    from lakelog.spark.doctor import Check

__all__ = ["doctor"]


@click.group()
def doctor() -> None:
    """Find out what is wrong with an installation."""


@doctor.command("spark")
@click.option("--master", help="The Spark master; local[*] unless given.")
@click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark; may be repeated.",
)
@click.option("--path", "url", help="A store that executors are to reach.")
@store_option()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def _spark(
    master: str | None,
    settings: tuple[str, ...],
    url: str | None,
    store_options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Look at Spark, here and on its workers.

    Python, Java and packages on both sides, data sources that cannot be imported, kernels that are
    not cached yet, and a store that executors do not reach.
    """
    checks = list(_spark_checks(master, named_values(settings), url, named_values(store_options)))
    good = all(one.good for one in checks)
    if not as_json:
        _show(checks)
    _end(checks, good=good, as_json=as_json)


def _end(checks: Sequence[Any], *, good: bool, as_json: bool) -> NoReturn:
    """End the command, with the checks as JSON if that was asked for."""
    if as_json:
        click.echo(json.dumps({"good": good, "checks": [asdict(one) for one in checks]}))
    sys.exit(0 if good else 1)


def _spark_checks(
    master: str | None, settings: dict[str, str], url: str | None, store_options: dict[str, str]
) -> Iterator["Check"]:
    try:
        from lakelog.spark.doctor import Check, check_here, check_workers
        from lakelog.spark.session import spark_session
    except ImportError as error:
        raise click.UsageError(missing(error)) from error
    here = list(check_here(os.environ.get("JAVA_HOME")))  # noqa: TID251 (Java's own setting)
    yield from here
    if any(not one.good for one in here if one.name in ("pyspark", "java")):
        return
    try:
        with spark_session(master, settings) as session:
            yield from check_workers(session, url, store_options)
    except Exception as error:  # noqa: BLE001 (Spark has many ways to fail, and all are findings)
        found = str(error).strip().partition("\n")[0]
        remedy = "try whether a plain spark-shell starts"
        yield Check(name="spark", good=False, found=found, remedy=remedy)


def _show(checks: Iterable["Check"]) -> None:
    table = Table(box=SIMPLE, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in checks:
        mark = "[green]ok[/]" if one.good else "[red]bad[/]"
        text = one.found if one.good else f"{one.found}\n[dim]{one.remedy}[/]"
        table.add_row(mark, one.name, text)
    Console(highlight=False).print(table)


# ---------------------------------------------------------------------------- store

_COLOURS = {Verdict.GOOD: "green", Verdict.UNCHECKED: "yellow"}


@doctor.command("store")
@click.argument("url")
@store_option()
@click.option(
    "--writers",
    default=PROBE_THOROUGH.writers,
    show_default=True,
    help="How many writers race for one key.",
)
@click.option(
    "--keys", default=PROBE_THOROUGH.keys, show_default=True, help="How many keys they race for."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def _store(
    url: str, store_options: tuple[str, ...], writers: int, keys: int, as_json: bool
) -> None:
    """Find out whether a store can carry a log.

    Writers race for keys below URL, and exactly one may win each; reads have to see what was
    written, and the bucket may not delete by itself. What this writes is in lakelog-probe/, and is
    taken away again.
    """
    spec = spec_of(url, store_options)
    with exit_on_error():
        size = ProbeSize(writers=writers, keys=keys)
        store = spec.open()
    with Console(stderr=True).status(f"{writers} writers race for each of {keys} keys"):
        findings = try_store(spec, store, size)
    if not as_json:
        _show_findings(url, findings)
    _end(findings, good=all(one.is_fine for one in findings), as_json=as_json)


def _show_findings(url: str, findings: list[Finding]) -> None:
    console = Console(highlight=False)
    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("seen", overflow="fold")
    table.add_column("took", justify="right", no_wrap=True)
    for one in findings:
        result = f"[{_COLOURS.get(one.verdict, 'red')}]{one.verdict}[/]"
        table.add_row(one.check, result, escape(one.seen), f"{one.took_s:.2f} s")
    console.print(table)
    console.print(_sentence(url, findings), soft_wrap=True, markup=False)


def _sentence(url: str, findings: list[Finding]) -> str:
    """Return the verdict on all of them."""
    by_verdict = {one.verdict: one for one in reversed(findings)}
    if wrong := by_verdict.get(Verdict.BAD):
        return f"Do not keep a log in {url}: {wrong.next_step}."
    if Verdict.REFUSED in by_verdict:
        return f"{url} could not be tried: the store refuses what was asked of it."
    if silent := by_verdict.get(Verdict.UNANSWERED):
        return f"Nothing is known of {url} yet: {silent.next_step}."
    if unknown := by_verdict.get(Verdict.UNCHECKED):
        if unknown.next_step:
            return f"{url} can carry a log, on one machine: {unknown.next_step}."
        return f"{url} can carry a log, if nothing in the bucket expires: look at its rules."
    return f"{url} can carry a log."

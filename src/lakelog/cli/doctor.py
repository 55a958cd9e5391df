"""doctor: what usually breaks, looked at before it does.

Ends with 0 if all is well, 1 if not.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from lakelog.cli.arguments import missing, named_values

if TYPE_CHECKING:
    from lakelog.spark.doctor import Check

__all__ = ["doctor"]


@click.group()
def doctor() -> None:
    """Find out what is wrong with an installation."""


@doctor.command("spark")
@click.option("--master", help="A Spark master; local[*] unless given.")
@click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="Spark setting.")
@click.option("--path", "url", help="A store that executors are to reach.")
@click.option("--store", "options", multiple=True, metavar="NAME=VALUE", help="Of that store.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def _spark(
    master: str | None,
    settings: tuple[str, ...],
    url: str | None,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Look at Spark, here and on its workers.

    Python, Java and packages on both sides, data sources that cannot be imported, kernels that are
    not cached yet, and a store that executors do not reach.
    """
    checks = list(_spark_checks(master, named_values(settings), url, named_values(options)))
    if as_json:
        click.echo(json.dumps({"good": _good(checks), "checks": [asdict(one) for one in checks]}))
    else:
        _show(checks)
    sys.exit(0 if _good(checks) else 1)


def _spark_checks(
    master: str | None, settings: dict[str, str], url: str | None, options: dict[str, str]
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
            yield from check_workers(session, url, options)
    except Exception as error:  # noqa: BLE001 (Spark has many ways to fail, and all are findings)
        said = str(error).strip().partition("\n")[0]
        yield Check(name="spark", good=False, found=said, remedy="does a plain spark-shell start?")


def _good(checks: Iterable["Check"]) -> bool:
    return all(one.good for one in checks)


def _show(checks: list["Check"]) -> None:
    console = Console(highlight=False)
    table = Table(box=SIMPLE, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in checks:
        mark = "[green]ok[/]" if one.good else "[red]bad[/]"
        text = one.found if one.good else f"{one.found}\n[dim]{one.remedy}[/]"
        table.add_row(mark, one.name, text)
    console.print(table)

"""Runs of the pipeline: the options that all verbs have, and what all of them do.

Each verb plans first. With --dry-run the plan is all there is. Else the plan is run, on Spark in
this process or on the cluster that --master names, and a report closes the run.
"""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from lakelog.cli.arguments import missing, named_values
from lakelog.cli.view import RunView, plan_json
from lakelog.errors import InvalidInputError, LakelogError

if TYPE_CHECKING:
    from lakelog.pipeline import Job, Plan, Report
    from lakelog.store import Usage

__all__ = ["EXIT_CODES", "failure_of", "run_options", "run_verb", "together", "told_errors"]

F = TypeVar("F", bound=Callable[..., Any])

EXIT_CODES = {"good": 0, "not good": 1, "nothing found": 4, "unverifiable": 5}
"""By the verdict of a report. 2 is a wrong call, 3 a run that failed. What comes from a place where
there was nothing to look at, or nothing to check it by, is not taken for good by a script."""


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return decorators as one."""

    def apply(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


run_options: Callable[[Any], Any] = together(
    click.option("--master", help="A Spark master; local[*] unless given."),
    click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="Spark setting."),
    click.option("--task-bytes", type=click.IntRange(1), help="What a task reads, about."),
    click.option("--dry-run", is_flag=True, help="Say what it would take, and do nothing."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout."),
    click.option(
        "--report", "report_path", metavar="PATH",
        help="Save a row for each segment, as Parquet by Spark.",
    ),
)  # fmt: skip


def run_verb(
    job: "Job",
    url: str,
    *,
    master: str | None,
    settings: tuple[str, ...],
    task_bytes: int | None,
    dry_run: bool,
    as_json: bool,
    report_path: str | None,
) -> None:
    """Plan, then run, then report; or plan only."""
    from lakelog.pipeline import Committing, plan_job

    view = RunView(job.verb, url, quiet=as_json)
    planned = plan_job(job)
    if dry_run:
        told = plan_json(job.verb, planned[0])
        if as_json:
            _print_json(told)
        else:
            view.plan(planned[0])
        sys.exit(EXIT_CODES["nothing found"] if told["missing"] else 0)
    if planned[0].units or isinstance(job, Committing) or report_path is not None:
        with view.running(planned[0]):
            report = _run_on_spark(
                job, planned, view, master=master, settings=settings, task_bytes=task_bytes,
                report_path=report_path,
            )  # fmt: skip
    else:
        report = _run_nothing(job, planned)
    if as_json:
        found = [finding._asdict() for finding in report.findings(1000)]
        _print_json({**report.summary(), "found": found})
    else:
        view.report(report)
    sys.exit(EXIT_CODES[report.verdict])


def _run_on_spark(
    job: "Job",
    planned: "tuple[Plan, Usage]",
    view: RunView,
    *,
    master: str | None,
    settings: tuple[str, ...],
    task_bytes: int | None,
    report_path: str | None,
) -> "Report":
    from lakelog.spark.jobs import report_table, run_job
    from lakelog.spark.session import spark_session

    with spark_session(master, named_values(settings)) as spark:
        report = run_job(spark, job, task_bytes=task_bytes, watch=view.progress, planned=planned)
        if report_path is not None:
            report_table(spark, report).write.mode("overwrite").parquet(report_path)
    return report


def _run_nothing(job: "Job", planned: "tuple[Plan, Usage]") -> "Report":
    """Return the report of a plan without units: the plan knows all, and Spark need not start."""
    from lakelog.pipeline import run_planned

    def no_units(*_: Any) -> NoReturn:
        raise AssertionError("there are no units")

    return run_planned(job, planned, no_units)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))


class told_errors:  # noqa: N801 (it reads as a statement)
    """Turn errors into a line and an exit code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, InvalidInputError):
            raise click.UsageError(str(error)) from error
        if isinstance(error, ImportError):
            raise click.UsageError(missing(error)) from error
        if error is not None and (why := failure_of(error)) is not None:
            _fail(why)


def failure_of(error: BaseException) -> str | None:
    """Return how a run failed, in a line; None: it is a fault of this program."""
    if isinstance(error, LakelogError):
        return str(error)
    if type(error).__module__.startswith(("pyspark", "py4j")):
        return _said(str(error))
    return None


def _fail(why: str) -> NoReturn:
    click.echo(f"Error: {why}", err=True)
    sys.exit(3)


def _said(text: str) -> str:
    """Return the line of a failure on an executor that tells what it was."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = ("lakelog.", "pyspark.", "java.", "org.apache.spark.", "Caused by:")
    named = [line for line in lines if line.startswith(causes)]
    return (named or lines or ["Spark failed without a word"])[-1 if named else 0]

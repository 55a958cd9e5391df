"""Commands that run a job of the pipeline: the options that all of them have, and what all do.

    @job_command              a function of the options of a verb makes the job
    plan_job                  with --dry-run, that is all
      run_here                where the plan has no units: it knows all, and Spark need not start
      spark.jobs.run_job      on Spark in this process, or on the cluster that --master names
    view.report               the verdict of the report is the exit code

Errors become a line and an exit code; those of this program keep their frames.
"""

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from lakelog.cli.arguments import missing, named_values
from lakelog.cli.view import RunView, plan_json
from lakelog.errors import InvalidInputError, LakelogError

if TYPE_CHECKING:
    from lakelog.pipeline import Job, Plan, Report
    from lakelog.store import Usage

__all__ = ["EXIT_CODES", "failure_of", "job_command", "together", "told_errors", "topic_option"]

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


topic_option: Callable[[Any], Any] = click.option(
    "--topic", "topics", multiple=True, help="Only this one; may be repeated."
)

_run_options: Callable[[Any], Any] = together(
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


class _RunOptions(NamedTuple):
    """What every verb can be told."""

    master: str | None
    settings: tuple[str, ...]
    task_bytes: int | None
    dry_run: bool
    as_json: bool
    report_path: str | None


def job_command(make_job: "Callable[..., tuple[Job, str]]") -> Callable[..., None]:
    """Return a command that runs a job: ``make_job`` returns it, and what the report calls it.

    It is called with the options of the verb alone; those of stores are NAME: VALUE by then.
    """

    @wraps(make_job)
    def command(**given: Any) -> None:
        options = _RunOptions(**{name: given.pop(name) for name in _RunOptions._fields})
        with told_errors():
            for name in given:
                if name.endswith("store_options"):
                    given[name] = named_values(given[name])
            _run(*make_job(**given), options)

    return _run_options(command)  # type: ignore[no-any-return]


def _run(job: "Job", title: str, options: _RunOptions) -> NoReturn:
    """Plan, then run, then report; or plan only."""
    from lakelog.pipeline import Committing, plan_job, run_here

    view = RunView(job.verb, title, quiet=options.as_json)
    planned = plan_job(job)
    plan = planned[0]
    if options.dry_run:
        told = plan_json(job.verb, plan)
        if options.as_json:
            _print_json(told)
        else:
            view.plan(plan)
        sys.exit(EXIT_CODES["nothing found"] if told["missing"] else 0)
    if plan.units or isinstance(job, Committing) or options.report_path is not None:
        with view.running(plan):
            report = _run_on_spark(job, planned, view, options)
    else:
        report = run_here(job, planned)  # The plan knows all, and Spark need not start.
    if options.as_json:
        found = [finding._asdict() for finding in report.findings(1000)]
        _print_json({**report.summary(), "found": found})
    else:
        view.report(report)
    sys.exit(EXIT_CODES[report.verdict])


def _run_on_spark(
    job: "Job", planned: "tuple[Plan, Usage]", view: RunView, options: _RunOptions
) -> "Report":
    from lakelog.spark.jobs import report_table, run_job
    from lakelog.spark.session import spark_session

    with spark_session(options.master, named_values(options.settings)) as spark:
        report = run_job(
            spark, job, task_bytes=options.task_bytes, watch=view.progress, planned=planned
        )
        if options.report_path is not None:
            report_table(spark, report).write.mode("overwrite").parquet(options.report_path)
    return report


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

"""pipeline: the verbs that work on whole topics, run by Spark.

Each verb plans first. With --dry-run the plan is all there is: how many objects, bytes and requests
it would take, and their price. Else the plan is run, on Spark in this process or on the cluster
that --master names, and a report closes the run.

Ends with 0 if all is as it should be, 1 if something is damaged, different or refused, 2 if the
call is wrong, 3 if the run failed.
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
    from lakelog.pipeline import Job

__all__ = ["pipeline"]

F = TypeVar("F", bound=Callable[..., Any])

LAYOUTS = ("kafka", "kafs", "strm", "rustlog")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.group()
def pipeline() -> None:
    """Verify, reindex and convert whole topics, on Spark."""


def _options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_source: Callable[[Any], Any] = _options(
    click.argument("url"),
    click.option("--layout", type=click.Choice(LAYOUTS), required=True, help="How segments lie."),
    click.option("--topic", "topics", multiple=True, help="Only this one; may be repeated."),
    click.option(
        "--store", "store_options", multiple=True, metavar="NAME=VALUE",
        help="An option of the store: endpoint, region, ...; may be repeated.",
    ),
)  # fmt: skip
_run: Callable[[Any], Any] = _options(
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


@pipeline.command("verify")
@_source
@click.option("--records", is_flag=True, help="Decode every record, too.")
@click.option("--closed", is_flag=True, help="Nobody writes: a torn end is damage, too.")
@click.option("--against", metavar="URL", help="Compare with this, record by record.")
@click.option(
    "--against-layout", type=click.Choice([*LAYOUTS, "parquet"]), help="As --layout unless given."
)
@click.option(
    "--against-store", "against_options", multiple=True, metavar="NAME=VALUE",
    help="An option of that store, or of the Kafka client.",
)  # fmt: skip
@_run
def _verify(
    url: str,
    layout: str,
    topics: tuple[str, ...],
    store_options: tuple[str, ...],
    records: bool,
    closed: bool,
    against: str | None,
    against_layout: str | None,
    against_options: tuple[str, ...],
    **run: Any,
) -> None:
    """Check every byte of the segments below URL.

    Every CRC, the order of offsets, counts, and every entry of the indexes. With --against the
    records are compared with those in another place, or with a running Kafka: kafka://host:port.
    """
    with _errors():
        from lakelog.spark.jobs import compare_job, verify_job

        job: Job
        common: dict[str, Any] = {
            "layout": layout,
            "topics": topics or None,
            "options": named_values(store_options),
        }
        if against is None:
            job = verify_job(url, records=records, closed=closed, **common)
        else:
            is_live = against.startswith("kafka:")
            job = compare_job(
                url,
                against=against,
                against_layout="live" if is_live else against_layout or layout,
                against_options=named_values(against_options),
                **common,
            )
        _go(job, url, **run)


@pipeline.command("reindex")
@_source
@click.option("--closed", is_flag=True, help="Nobody writes: the last segment, too.")
@_run
def _reindex(
    url: str,
    layout: str,
    topics: tuple[str, ...],
    store_options: tuple[str, ...],
    closed: bool,
    **run: Any,
) -> None:
    """Make indexes again where they are missing or wrong.

    They follow from the segments alone. Sound ones are left as they are.
    """
    with _errors():
        from lakelog.spark.jobs import reindex_job

        job = reindex_job(
            url,
            layout=layout,
            topics=topics or None,
            closed=closed,
            options=named_values(store_options),
        )
        _go(job, url, **run)


@pipeline.command("convert")
@click.argument("url")
@click.argument("target")
@click.option("--layout", type=click.Choice([*LAYOUTS, "parquet"]), required=True, help="Of URL.")
@click.option("--to", type=click.Choice([*LAYOUTS, "parquet"]), required=True, help="Of TARGET.")
@click.option("--topic", "topics", multiple=True, help="Only this one; may be repeated.")
@click.option("--codec", type=click.Choice(CODECS), help="How to compress what is encoded again.")
@click.option("--level", type=int, help="Of the codec.")
@click.option("--block-bytes", type=click.IntRange(1), help="Of a batch or an STRM block.")
@click.option("--segment-bytes", type=click.IntRange(1), help="About how large segments become.")
@click.option("--lose", multiple=True, metavar="WHAT", help="Allow a loss; see the manual.")
@click.option("--store", "store_options", multiple=True, metavar="NAME=VALUE", help="Of URL.")
@click.option("--to-store", "to_options", multiple=True, metavar="NAME=VALUE", help="Of TARGET.")
@_run
def _convert(
    url: str,
    target: str,
    layout: str,
    to: str,
    topics: tuple[str, ...],
    codec: str | None,
    level: int | None,
    block_bytes: int | None,
    segment_bytes: int | None,
    lose: tuple[str, ...],
    store_options: tuple[str, ...],
    to_options: tuple[str, ...],
    **run: Any,
) -> None:
    """Convert the segments below URL into another layout at TARGET.

    Offsets are kept. Segments keep their bounds unless --segment-bytes is given. What the target
    cannot hold is refused, unless --lose allows it: keys, null-values, headers, time-order,
    timestamp-types, producers, transactions.
    """
    with _errors():
        from lakelog.spark.jobs import convert_job

        job = convert_job(
            url,
            layout=layout,
            target=target,
            target_layout=to,
            topics=topics or None,
            codec=codec,
            level=level,
            block_bytes=block_bytes,
            segment_bytes=segment_bytes,
            lose=lose,
            options=named_values(store_options),
            target_options=named_values(to_options),
        )
        _go(job, url, **run)


# ---------------------------------------------------------------------------- what all verbs do


def _go(
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
    from lakelog.pipeline import plan_job
    from lakelog.spark.jobs import report_table, run_job
    from lakelog.spark.session import spark_session

    view = RunView(job.verb, url, quiet=as_json)
    planned = plan_job(job)
    if dry_run:
        if as_json:
            _print_json(plan_json(job.verb, planned[0]))
        else:
            view.plan(planned[0])
        return
    with view.running(planned[0]), spark_session(master, named_values(settings)) as spark:
        report = run_job(spark, job, task_bytes=task_bytes, watch=view.progress, planned=planned)
        if report_path is not None:
            report_table(spark, report).write.mode("overwrite").parquet(report_path)
    if as_json:
        found = [finding._asdict() for finding in report.findings(1000)]
        _print_json({**report.summary(), "found": found})
    else:
        view.report(report)
    sys.exit(0 if report.is_good else 1)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))


class _errors:  # noqa: N801 (it reads as a statement)
    """Turn errors into a line and an exit code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, InvalidInputError):
            raise click.UsageError(str(error)) from error
        if isinstance(error, ImportError):
            raise click.UsageError(missing(error)) from error
        if isinstance(error, LakelogError):
            _fail(str(error))
        if error is not None and type(error).__module__.startswith(("pyspark", "py4j")):
            _fail(_said(str(error)))


def _fail(why: str) -> NoReturn:
    click.echo(f"Error: {why}", err=True)
    sys.exit(3)


def _said(text: str) -> str:
    """Return the line of a failure on an executor that tells what it was."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("lakelog.", "pyspark.", "java."))]
    return (named or lines or ["Spark failed without a word"])[-1 if named else 0]

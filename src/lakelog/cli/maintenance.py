"""pipeline seal, merge, compact, retain, run: a namespace maintained by a cluster.

    lakelog pipeline run URL                     what is due, once
    lakelog pipeline run URL --every 5m          again and again, with /health and /metrics

``run`` does the verbs one after the other. What fails is told, and does not keep it from the rest;
the next pass tries again. While it runs, brokers that would maintain the namespace themselves stand
back: it says so in a cell of the bucket before each pass.
"""

import json
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lakelog.cli.arguments import named_values, store_option
from lakelog.cli.runs import failure_of, job_command, together, told_errors, topic_option
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import THIS_HOST

if TYPE_CHECKING:
    from lakelog.pipeline import Job, Report

__all__ = ["MAINTENANCE"]

CLAIM_PASSES = 3
"""A claim lasts for so many times the time from one pass to the next..."""
CLAIM_MS = 600_000
"""... and this much longer."""

_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, None: 1}

_storage: Callable[[Any], Any] = together(click.argument("url"), store_option())
_segment_bytes = click.option(
    "--segment-bytes", type=click.IntRange(1), help="About how large segments become."
)


@click.command("seal")
@_storage
@_segment_bytes
@click.option("--group-bytes", type=click.IntRange(1), help="What a task holds in memory, about.")
@click.option("--now", "is_now", is_flag=True, help="Every lane, not only those that are due.")
@click.option("--idle", is_flag=True, help="Nobody appends: empty the journal altogether.")
@job_command
def _seal(url: str, is_now: bool, **options: Any) -> "tuple[Job, str]":
    """Make segments of the bundles of the namespace at URL, and trim its lanes.

    A lane is due with 1 GiB, or when the oldest of it has waited for ten minutes.
    """
    from lakelog.pipeline.jobs import seal_job

    return seal_job(url, host=THIS_HOST, **_due(is_now=is_now), **options), url


@click.command("merge")
@_storage
@topic_option
@_segment_bytes
@click.option("--rows-min", type=click.IntRange(2), help="Merge so many, however small.")
@job_command
def _merge(url: str, topics: tuple[str, ...], **options: Any) -> "tuple[Job, str]":
    """Make few large segments of many small ones."""
    from lakelog.pipeline.jobs import merge_job

    return merge_job(url, host=THIS_HOST, topics=topics or None, **options), url


@click.command("compact")
@_storage
@topic_option
@_segment_bytes
@click.option("--map-bytes", type=click.IntRange(1024), help="Memory for keys, 32 bytes each.")
@click.option("--now", "always", is_flag=True, help="Whatever is dirty, not only what is due.")
@job_command
def _compact(url: str, topics: tuple[str, ...], **options: Any) -> "tuple[Job, str]":
    """Keep of each key the newest record, in topics with cleanup.policy=compact.

    What is due is said by min.cleanable.dirty.ratio, min.compaction.lag.ms and
    max.compaction.lag.ms of the topic; tombstones go after delete.retention.ms.
    """
    from lakelog.pipeline.jobs import compact_job

    return compact_job(url, host=THIS_HOST, topics=topics or None, **options), url


@click.command("retain")
@_storage
@topic_option
@job_command
def _retain(url: str, topics: tuple[str, ...], **options: Any) -> "tuple[Job, str]":
    """Delete what is too old or too much, what was deleted, and what nobody names."""
    from lakelog.pipeline.jobs import retain_job

    return retain_job(url, host=THIS_HOST, topics=topics or None, **options), url


def _due(*, is_now: bool) -> dict[str, Any]:
    """Return when a lane is due: always, or as the job has it."""
    return {"backlog_ms": 0} if is_now else {}


# ---------------------------------------------------------------------------- all of it


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass over a namespace has done."""

    reports: dict[str, "Report"]
    failures: dict[str, str]

    @property
    def is_good(self) -> bool:
        return not self.failures and all(report.is_good for report in self.reports.values())


@click.command("run")
@_storage
@click.option("--every", metavar="TIME", help="Again after 30s, 5m, 1h, ..., for ever.")
@click.option("--http", metavar="HOST:PORT", help="Answer /health and /metrics there.")
@click.option("--now", "is_now", is_flag=True, help="Seal every lane, not only those that are due.")
@click.option("--master", help="A Spark master; local[*] unless given.")
@click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="Spark setting.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a pass on stdout.")
def _run(
    url: str,
    store_options: tuple[str, ...],
    every: str | None,
    http: str | None,
    is_now: bool,
    master: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Seal, merge, compact and retain the namespace at URL: what is due, once or for ever.

    Safe to kill at any instant, and to run twice at once. With --every the brokers stand back.
    """
    with told_errors():
        from lakelog.cli.probes import Probes
        from lakelog.spark.session import spark_session

        every_s = None if every is None else _seconds(every)
        given = named_values(store_options)
        probes = Probes(stale_s=None if every_s is None else CLAIM_PASSES * every_s + 600)
        with probes.serving(http), spark_session(master, named_values(settings)) as spark:
            while True:
                if every_s is not None:
                    _claim(url, given, every_s)
                done = _one_pass(spark, url, given, is_now=is_now)
                probes.take(done.reports, done.failures)
                _tell(done, as_json=as_json)
                if every_s is None:
                    sys.exit(0 if done.is_good else 1)
                time.sleep(_jittered(every_s))  # noqa: TID251 (between two passes)


def _jobs(url: str, store_options: dict[str, str], *, is_now: bool) -> "dict[str, Job]":
    from lakelog.pipeline.jobs import compact_job, merge_job, retain_job, seal_job

    common: dict[str, Any] = {"host": THIS_HOST, "store_options": store_options}
    return {
        "seal": seal_job(url, **common, **_due(is_now=is_now)),
        "merge": merge_job(url, **common),
        "compact": compact_job(url, **common),
        "retain": retain_job(url, **common),
    }


def _one_pass(spark: Any, url: str, store_options: dict[str, str], *, is_now: bool) -> _Pass:
    from lakelog.spark.jobs import run_job

    done = _Pass({}, {})
    for verb, job in _jobs(url, store_options, is_now=is_now).items():
        try:
            done.reports[verb] = run_job(spark, job)
        except Exception as error:
            why = failure_of(error)
            if why is None:
                raise
            done.failures[verb] = why
    return done


def _claim(url: str, store_options: dict[str, str], every_s: float) -> None:
    """Say that this pipeline maintains the namespace."""
    from lakelog.catalog import claim_pipeline
    from lakelog.log import store_now
    from lakelog.store import open_store, retrying, run, working

    perform = working(retrying(open_store(url, store_options).perform))
    try:
        now_ms = run(store_now(THIS_HOST.ids), perform)
        until_ms = now_ms + round(CLAIM_PASSES * every_s * 1000) + CLAIM_MS
        run(claim_pipeline(THIS_HOST.ids(), until_ms), perform)
    except InvalidInputError:
        raise
    except LakelogError as error:
        click.echo(
            f"The claim was not stored: {error}. Brokers may maintain the namespace as well.",
            err=True,
        )


def _tell(done: _Pass, *, as_json: bool) -> None:
    if as_json:
        verbs = {verb: report.summary() for verb, report in done.reports.items()}
        click.echo(json.dumps({"good": done.is_good, "verbs": verbs, "failures": done.failures}))
        return
    for verb, report in done.reports.items():
        outcomes = ", ".join(f"{n:,} {what}" for what, n in report.outcomes.items()) or "nothing"
        requests = sum(report.usage.requests.values())
        click.echo(
            f"{verb:8}{outcomes}; {report.records:,} records, {requests:,} requests, "
            f"{report.seconds:.1f} s"
        )
        for found in report.findings(20):
            click.echo(f"  {found.object} at {found.position}: {found.what}", err=True)
    for verb, why in done.failures.items():
        click.echo(f"{verb:8}failed: {why}", err=True)


def _seconds(text: str) -> float:
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise InvalidInputError(f"--every {text}: use a time like 30s, 5m or 1h")
    return seconds


def _jittered(seconds: float) -> float:
    """Pipelines that were started together spread out."""
    return seconds * secrets.SystemRandom().uniform(0.9, 1.1)


MAINTENANCE = (_run, _seal, _merge, _compact, _retain)
"""The verbs that maintain a namespace."""

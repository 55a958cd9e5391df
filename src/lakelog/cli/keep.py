"""`lakelog keep`: do for a namespace what is due, in this process, once or again and again."""

import json
import sys
import time
from dataclasses import asdict

import click

from lakelog.catalog import open_namespace
from lakelog.cli.arguments import named_values, store_option
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import THIS_HOST
from lakelog.journal import Lane, StoreTime, new_lanes
from lakelog.maintenance import MaintenanceReport, SealSettings, maintain
from lakelog.store import (
    Meter,
    Store,
    metered,
    open_store,
    retrying,
    run,
    working,
    working_by_threads,
)

__all__ = ["keep"]


@click.command()
@click.argument("url")
@store_option()
@click.option("--every", "every_s", type=float, help="Again after so many seconds, for ever.")
@click.option("--idle", is_flag=True, help="Nobody appends: empty the journal altogether.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a pass on stdout.")
def keep(
    url: str, store_options: tuple[str, ...], every_s: float | None, idle: bool, as_json: bool
) -> None:
    """Seal, trim, retain and sweep the namespace at URL.

    Safe to kill at any instant, and to run twice at once. What fails is told, and does not keep it
    from the rest; the exit code is 1 then.
    """
    try:
        store = open_store(url, named_values(store_options))
    except InvalidInputError as error:
        raise click.UsageError(str(error)) from error
    try:
        lanes: dict[int, Lane] = {}
        while True:
            rules = run(open_namespace(), working(retrying(store.perform))).rules
            if len(lanes) < rules.lanes:
                lanes = new_lanes(rules, *THIS_HOST, StoreTime())
            failed = _one_pass(store, lanes, idle=idle, as_json=as_json)
            if every_s is None:
                sys.exit(int(failed))
            time.sleep(every_s)  # noqa: TID251 (between two passes)
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)


def _one_pass(store: Store, lanes: dict[int, Lane], *, idle: bool, as_json: bool) -> bool:
    meter = Meter()
    perform = working_by_threads(retrying(metered(store.perform, meter)))
    report = run(maintain(lanes, SealSettings(), idle=idle), perform)
    failures = {what: str(error) for what, error in report.failures.items()}
    if as_json:
        fields = {
            "sealed": asdict(report.sealed),
            "trimmed": report.trimmed,
            "reaped": report.reaped,
            "swept": report.swept,
            "failures": failures,
            "requests": dict(meter.usage.requests),
            "price_usd": meter.usage.price_usd,
        }
        click.echo(json.dumps(fields))
    else:
        _show(report, meter)
    for what, why in failures.items():
        click.echo(f"{what}: {why}", err=True)
    return bool(failures)


def _show(report: MaintenanceReport, meter: Meter) -> None:
    sealed = report.sealed
    click.echo(
        f"sealed {sealed.segments} segments ({sealed.records} records, {sealed.size_bytes} bytes), "
        f"trimmed {report.trimmed} bundles, deleted {report.reaped + report.swept} objects; "
        f"{sum(meter.usage.requests.values())} requests, about ${meter.usage.price_usd:.4f}"
    )

"""`lakelog plan`: what a log of some size costs in a month, and how long its records take."""

import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import click

from lakelog.cli.arguments import exit_on_error, json_option, missing
from lakelog.cli.tables import show_rows

__all__ = ["plan"]

LOCAL_S = 6 * 3600.0
"""What tiered storage keeps on disks."""
CELLS_MS = (0, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000)
"""Budgets of a plot, from none: how long one put of a lane has to last."""
WIDTH, HEIGHT, LEFT, TOP = 640, 360, 70, 30


@click.command()
@click.option("--rate", type=click.FloatRange(0), required=True, help="Megabytes in a second.")
@click.option("--partitions", type=click.IntRange(1), default=12, show_default=True)
@click.option("--lanes", type=click.IntRange(1, 1024), default=4, show_default=True)
@click.option("--brokers", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--retention-days",
    type=click.FloatRange(0),
    default=7.0,
    show_default=True,
    help="How long records are kept.",
)
@click.option(
    "--readers",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Consumer groups that read everything, and keep up.",
)
@click.option(
    "--request-bytes",
    type=click.IntRange(1),
    default=16_384,
    show_default=True,
    help="Of each produce request: what linger.ms and batch.size of clients make of it.",
)
@click.option(
    "--policy",
    type=click.Choice(["latency", "balanced", "cost"]),
    help="When to flush.  [default: latency where requests are free, else balanced]",
)
@click.option("--prices", default="s3", show_default=True, help="As the option of a store.")
@click.option("--put-ms", type=click.FloatRange(0), default=60.0, show_default=True)
@click.option("--put-p99-ms", type=click.FloatRange(0), default=200.0, show_default=True)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw latency against dollars, as SVG.",
)
@json_option
def plan(
    as_json: bool,
    plot: Path | None,
    rate: float,
    retention_days: float,
    prices: str,
    policy: str | None,
    **sizes: Any,
) -> None:
    """Tell what a log costs in a month, line by line, and how long its records take.

    Beside it stands what the same costs on Kafka, with disks in three zones and with tiered
    storage. Prices are those of AWS in us-east-1; every assumption is printed with its line, and in
    docs/reference/plan.md.
    """
    try:
        from lakelog.cli.costs import Rates, Workload, bill, expected_ms, kafka_bill
        from lakelog.journal import FlushPolicy
        from lakelog.store import parse_prices
    except ImportError as error:
        raise click.UsageError(missing(error, "server")) from error
    with exit_on_error():
        load = Workload(
            bytes_s=rate * 1e6,
            retention_s=retention_days * 86_400,
            prices=parse_prices(prices),
            policy=None if policy is None else FlushPolicy(policy),
            **sizes,
        )
    rates = Rates()
    bills = {
        "lakelog": bill(load, rates),
        "kafka": kafka_bill(load, rates),
        "kafka, tiered": kafka_bill(load, rates, LOCAL_S),
    }
    p50_ms, p99_ms = expected_ms(load)
    in_force = load.settings.flush.policy_in_force.value
    points = [_point(load, rates, cell_ms) for cell_ms in CELLS_MS]
    if plot is not None:
        plot.write_text(_drawn(points, [_named(load, rates, one) for one in FlushPolicy]))
    if as_json:
        for whose, lines in bills.items():
            for one in lines:
                usd = round(one.usd_month, 2)
                row = {"system": whose, "what": one.what, "usd_month": usd, "why": one.why}
                click.echo(json.dumps(row))
        told = {"policy": in_force, "p50_ms": round(p50_ms), "p99_ms": round(p99_ms)}
        click.echo(json.dumps({"system": "lakelog", **told}))
        return
    rows = [
        (whose, one.what, f"{one.usd_month:,.2f}", one.why)
        for whose, lines in bills.items()
        for one in (*lines, _sum(lines))
    ]
    show_rows(("SYSTEM", "WHAT", "USD A MONTH", ""), rows)
    click.echo(f"\nAn acknowledgement by {in_force}: p50 {p50_ms:.0f} ms, p99 {p99_ms:.0f} ms.\n")
    most = max(usd for _, _, usd in points) or 1.0
    for cell_ms, late_ms, usd in points:
        budget = f"a put in {cell_ms} ms" if cell_ms else "no budget"
        bar = "#" * max(1, round(40 * usd / most))
        click.echo(f"{budget:>16}  p99 {late_ms:>6.0f} ms  ${usd:>10,.2f}  {bar}")


def _sum(lines: Sequence[Any]) -> Any:
    from lakelog.cli.costs import Line

    return Line("all", sum(one.usd_month for one in lines))


_Point = tuple[Any, float, float]
"""What it is called, p99 in milliseconds, dollars a month for requests."""


def _point(load: Any, rates: Any, cell_ms: int) -> _Point:
    """Return p99, and what requests cost in a month, with a budget."""
    from lakelog.cli.costs import bill, expected_ms

    planned = replace(load, cell_ms=cell_ms)
    lines = bill(planned, rates)
    usd = sum(one.usd_month for one in lines if one.what.startswith("requests"))
    return cell_ms, expected_ms(planned)[1], usd


def _named(load: Any, rates: Any, policy: Any) -> _Point:
    planned = replace(load, policy=policy)
    _, late_ms, usd = _point(planned, rates, planned.settings.flush.cell_ms)
    return policy.value, late_ms, usd


def _drawn(points: list[_Point], named: list[_Point]) -> str:
    """Return latency against dollars as SVG, with the policies where they stand."""
    every = [*points, *named]
    most_ms, most_usd = (max(one[at] for one in every) * 1.1 or 1.0 for at in (1, 2))
    wide, high = WIDTH - LEFT - 30, HEIGHT - TOP - 50

    def at_xy(one: _Point) -> tuple[float, float]:
        return LEFT + wide * one[1] / most_ms, TOP + high * (1 - one[2] / most_usd)

    path = " ".join("{:.1f},{:.1f}".format(*at_xy(one)) for one in sorted(points, key=_late))
    bottom = TOP + high
    box = f"0 0 {WIDTH} {HEIGHT}"
    axes = f"{LEFT},{TOP} {LEFT},{bottom} {LEFT + wide},{bottom}"
    across = f"p99 of an acknowledgement, to {most_ms:,.0f} ms"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f7f8fa"/>',
        f'<polyline points="{axes}" fill="none" stroke="#999"/>',
        f'<text x="{LEFT + wide}" y="{HEIGHT - 12}" text-anchor="end">{across}</text>',
        f'<text x="8" y="18">dollars a month for requests, to {most_usd:,.0f}</text>',
        f'<polyline points="{path}" fill="none" stroke="#3274d9" stroke-width="1.5"/>',
    ]
    for one in named:
        x, y = at_xy(one)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#e0752d"/>')
        label = f"{one[0]}: {one[1]:,.0f} ms, ${one[2]:,.0f}"
        side, anchor = (x - 8, "end") if x > WIDTH / 2 else (x + 8, "start")
        where = f'x="{side:.1f}" y="{y - 8:.1f}" text-anchor="{anchor}"'
        parts.append(f"<text {where}>{escape(label)}</text>")
    return "\n".join([*parts, "</svg>\n"])


def _late(one: _Point) -> float:
    return one[1]

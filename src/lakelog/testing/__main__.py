"""Run many seeds: ``python -m lakelog.testing --seeds 0:2000``, of towns, clusters or spools.

Ends with a table of what happened, and fails if the log was not what it promised, if a kind of
fault or a way through W1 to W4 was hit less often than asked for, or, with ``--bug``, if the bug
was not found. A seed that fails prints the command that repeats it.
"""

import gc
import json
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from time import monotonic
from typing import Any

import click

from lakelog.testing.cluster import CLUSTER_BUGS, CLUSTER_WAYS, planted_in_cluster, simulate_cluster
from lakelog.testing.planted import BUGS, planted
from lakelog.testing.simulation import Report, simulate
from lakelog.testing.spool_bugs import SPOOL_BUGS, planted_in_spool
from lakelog.testing.spooling import SPOOL_WAYS, simulate_spool
from lakelog.testing.world import KINDS

__all__ = ["WAYS", "main", "run_seeds"]

WAYS = (
    "W1 tail", "W1 tail stale", "W1 gallop", "W1 from the first", "W1 from the floor",
    "W1 learned", "floor passed walk", "W3 created", "W3 unknown", "W3 mine", "W3 another's",
    "W3 exists, then absent", "W4 holds", "W4 passed", "fate stored", "fate lost",
    "fate unknown", "refusal stale", "seal committed", "trimmed",
    "merged", "compacted", "rewrite moved", "bulk committed", "bulk committed before", "bulk void",
    "bulk task again", "bulk stage again", "W3 too large", "W3 given up", "too old to judge",
    "producer gave up", "read beside", "damage told", "damage spared",
)  # fmt: skip
"""Ways that a run of all seeds must have taken."""

_CHUNK = 20


@dataclass(frozen=True, slots=True)
class _Found:
    """A seed at which the log was not what it promised."""

    seed: int
    what: str


_Running = Future[tuple[Report, _Found | None]]


def _simulate(seed: int, bug: str, of: str) -> Report:
    if of == "cluster":
        with planted_in_cluster(bug):
            return simulate_cluster(seed)
    if of == "spool":
        logging.getLogger("lakelog.spool").setLevel(logging.ERROR)
        with planted_in_spool(bug):
            return Report(seeds=1, ways=simulate_spool(seed))
    with planted(bug):
        return simulate(seed, faults=BUGS[bug].faults if bug else None)


def _run_chunk(start: int, stop: int, bug: str, of: str) -> tuple[Report, _Found | None]:
    total = Report()
    gc.disable()  # A run is short, and makes few cycles.
    for seed in range(start, stop):
        try:
            total.add(_simulate(seed, bug, of))
        except Exception as error:  # noqa: BLE001 (with a bug planted, anything may break)
            return total, _Found(seed, f"{type(error).__name__}: {error}"[:300])
    gc.collect()
    return total, None


def run_seeds(
    start: int, stop: int, bug: str, workers: int, seconds: float, *, of: str = "town"
) -> tuple[Report, _Found | None]:
    """Run seeds on several cores until one fails, or the time is over."""
    total, deadline = Report(), monotonic() + seconds
    chunks = iter(range(start, stop, _CHUNK))
    with ProcessPoolExecutor(workers) as pool:

        def more(count: int) -> Iterator[_Running]:
            for _ in range(count):
                at = next(chunks, None)
                if at is not None and monotonic() < deadline:
                    end = min(at + _CHUNK, stop)
                    yield pool.submit(_run_chunk, at, end, bug, of)

        running = set(more(2 * workers))
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                report, found = one.result()
                total.add(report)
                if found is not None:
                    pool.shutdown(cancel_futures=True)
                    return total, found
            running |= set(more(len(done)))
            if sys.stderr.isatty():
                click.echo(f"\r{total.seeds} seeds", nl=False, err=True)
    return total, None


@click.command()
@click.option("--seeds", default="0:200", help="FROM:TO, the second not included; or one seed.")
@click.option("--cluster", "of", flag_value="cluster", help="Simulate brokers of a cluster.")
@click.option("--spool", "of", flag_value="spool", help="Simulate a spool on a disk that forgets.")
@click.option("--bug", default="", help="Plant a bug, which must be found. 'list' names them.")
@click.option("--workers", default=os.cpu_count() or 1)
@click.option("--seconds", default=86_400.0, help="Begin no more seeds after so long.")
@click.option("--at-least", default=0, help="How often each fault and each way must be hit.")
@click.option("--json", "as_json", is_flag=True)
def main(
    seeds: str,
    of: str | None,
    bug: str,
    workers: int,
    seconds: float,
    at_least: int,
    as_json: bool,
) -> None:
    """Run seeds of the simulator."""
    kinds: dict[str, dict[str, Any]] = {"cluster": CLUSTER_BUGS, "spool": SPOOL_BUGS}
    bugs = kinds.get(of or "", BUGS)
    ways = {"cluster": CLUSTER_WAYS, "spool": SPOOL_WAYS}.get(of or "", (*KINDS, *WAYS))
    if bug == "list":
        for name, one in bugs.items():
            click.echo(f"{name:24} {one.what}")
        return
    if bug and bug not in bugs:
        raise click.UsageError(f"{bug!r} is no planted bug: see --bug list")
    first, _, last = seeds.partition(":")
    start, stop = int(first), int(last or int(first) + 1)
    began = monotonic()
    total, found = run_seeds(start, stop, bug, workers, seconds, of=of or "")
    took = monotonic() - began
    rare = [] if bug else [
        name
        for name in ways
        if total.faults[name] + total.ways[name] < at_least
    ]  # fmt: skip
    if as_json:
        click.echo(json.dumps(_fields(total, found, rare, took)))
    else:
        _print(
            total, found, rare, took, (f" --{of}" if of else "") + (f" --bug {bug}" if bug else "")
        )
    wrong = found is None if bug else found is not None or bool(rare)
    raise SystemExit(int(wrong))


def _fields(total: Report, found: _Found | None, rare: list[str], took: float) -> dict[str, object]:
    return {
        "seeds": total.seeds,
        "seconds": round(took, 1),
        "virtual_hours": round(total.minutes / 60, 1),
        "bundles": total.bundles,
        "acknowledged": total.acks,
        "unknown": total.unknown,
        "reads": total.reads,
        "faults": dict(total.faults),
        "ways": dict(total.ways),
        "rare": rare,
        "found": None if found is None else {"seed": found.seed, "what": found.what},
    }


def _print(total: Report, found: _Found | None, rare: list[str], took: float, how: str) -> None:
    click.echo(
        f"{total.seeds} seeds in {took:.0f} s: {total.minutes / 60:.0f} virtual hours, "
        f"{total.bundles} bundles, {total.acks} acknowledged, {total.unknown} unknown, "
        f"{total.reads} reads"
    )
    for title, counts in (("fault", total.faults), ("way", total.ways)):
        for name in sorted(counts):
            click.echo(f"  {title:5} {name:26} {counts[name]:>10}")
    if found is not None:
        again = f"python -m lakelog.testing --seeds {found.seed}{how}"
        click.echo(f"seed {found.seed}: {found.what}\nrepeat it with: {again}")
    else:
        click.echo("0 anomalies")
    if rare:
        click.echo(f"too rare: {', '.join(rare)}: run more seeds, or look why")


if __name__ == "__main__":
    main()

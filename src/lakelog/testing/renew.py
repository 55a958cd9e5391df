"""Find the seeds that find the planted bugs: ``python -m lakelog.testing.renew findings.json``.

Whatever changes the number or the order of requests changes what happens at a seed. So the seeds
that are recorded are renewed then: one that still finds its bug is kept, and the others are looked
for, from seed 0 on, in the towns in which their bug can show.
"""

import gc
import json
from pathlib import Path
from time import monotonic

import click

from lakelog.testing.planted import BUGS, planted
from lakelog.testing.simulation import simulate
from lakelog.testing.truth import Anomaly
from lakelog.testing.world import World

__all__ = ["finds", "main", "search"]

SEEDS_MAX = 10_000


def finds(bug: str, seed: int) -> bool:
    """Say whether a seed finds a bug."""
    try:
        with planted(bug):
            simulate(seed, faults=BUGS[bug].faults)
    except Anomaly:
        return True
    return False


def search(bug: str, seeds: range, seconds: float) -> int | None:
    """Return the first seed that finds a bug; None if there is none, or it takes too long."""
    deadline = monotonic() + seconds
    for seed in seeds:
        if monotonic() > deadline:
            return None
        if BUGS[bug].shows_in(World(seed, BUGS[bug].faults)) and finds(bug, seed):
            return seed
        gc.collect(0)
    return None


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--bug", "names", multiple=True, help="Only this one; may be repeated.")
@click.option("--seeds", default=SEEDS_MAX, help="Look no further than this seed.")
@click.option("--seconds", default=86_400.0, help="Look no longer than this for each bug.")
def main(path: Path, names: tuple[str, ...], seeds: int, seconds: float) -> None:
    """Renew the seeds of planted bugs in the file at PATH."""
    known: dict[str, int] = json.loads(path.read_text())
    gc.disable()
    missing = []
    for bug in names or sorted(BUGS):
        if bug in known and finds(bug, known[bug]):
            continue
        found = search(bug, range(seeds), seconds)
        if found is None:
            missing.append(bug)
            continue
        click.echo(f"{bug}: {known.get(bug)} -> {found}")
        known = {**json.loads(path.read_text()), bug: found}
        ordered = {name: known[name] for name in sorted(known) if name in BUGS}
        path.write_text(json.dumps(ordered, indent=2) + "\n")
    if missing:
        click.echo(f"not found: {', '.join(missing)}: look further, or at what hides them")
    raise SystemExit(bool(missing))


if __name__ == "__main__":
    main()

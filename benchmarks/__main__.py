"""Every figure, one after another: ``python -m benchmarks [--quick]``.

A figure that is missed is taken once more: neighbours come and go on a shared machine, and a real
loss of speed misses twice. ``--some 3 --seed 7`` takes three of them, others for other seeds.

``--against REVISION`` takes each that another revision has as well, by turns, and prints both:

    figure      bar   REVISION   now   now/REVISION
"""

import argparse
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import benchmarks

SUPPORT = {"__main__", "counted", "data", "load", "measure", "served", "spark"}
ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="take each in its short form")
    parser.add_argument("--some", type=int, metavar="N", help="take only so many of them")
    parser.add_argument("--seed", type=int, default=0, help="which ones --some takes")
    parser.add_argument("--against", metavar="REVISION", help="take another revision's as well")
    asked = parser.parse_args()
    names = sorted({m.name for m in pkgutil.iter_modules(benchmarks.__path__)} - SUPPORT)
    if asked.some is not None:
        names = sorted(Random(asked.seed).sample(names, min(asked.some, len(names))))
    if asked.against:
        sys.exit(_compare(names, asked.against, quick=asked.quick))
    missed = []
    for name in names:
        command = _command(name, quick=asked.quick)
        print(f"--- {name}", flush=True)
        if subprocess.call(command) and subprocess.call(command):
            missed.append(name)
    print(f"figures: {len(names) - len(missed)} reached, {len(missed)} missed", *missed)
    sys.exit(1 if missed else 0)


def _command(name: str, *, quick: bool) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] * quick)]


def _compare(names: list[str], revision: str, *, quick: bool) -> int:
    """Print the figures of two revisions side by side, and return how many are missed now."""
    missed = 0
    with _checked_out(revision) as other:
        print(f"{'figure':12} {'bar':>8} {revision:>12} {'now':>12} {'ratio':>8}", flush=True)
        for name in names:
            if not (other / "benchmarks" / f"{name}.py").exists():
                continue
            before, now = (_figure(name, tree, quick=quick) for tree in (other, ROOT))
            missed += not now["pass"]
            row = f"{name:12} {now['bar']:8g} {before['value']:12g} {now['value']:12g}"
            ratio = now["value"] / before["value"] if before["value"] else 0.0
            print(f"{row} {ratio:8.2f}{'' if now['pass'] else '  missed'}", flush=True)
    return missed


@contextmanager
def _checked_out(revision: str) -> Iterator[Path]:
    """Check out another revision, beside this one."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _figure(name: str, tree: Path, *, quick: bool) -> dict[str, Any]:
    """Take a figure with the code of a tree."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        _command(name, quick=quick),
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    nothing: dict[str, Any] = {"value": 0.0, "bar": 0.0, "pass": False}
    if not lines or not lines[-1].startswith("{"):
        return nothing
    figure: dict[str, Any] = json.loads(lines[-1])
    return figure


if __name__ == "__main__":
    main()

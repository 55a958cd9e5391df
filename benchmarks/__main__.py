"""Every figure, one after another: ``python -m benchmarks [--quick]``.

A figure that is missed is taken once more: neighbours come and go on a shared machine, and a real
loss of speed misses twice. ``--some 3 --seed 7`` takes three of them, others for other seeds.
"""

import argparse
import pkgutil
import subprocess
import sys
from random import Random

import benchmarks

SUPPORT = {"__main__", "data", "load", "measure", "served", "spark"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="take each in its short form")
    parser.add_argument("--some", type=int, metavar="N", help="take only so many of them")
    parser.add_argument("--seed", type=int, default=0, help="which ones --some takes")
    asked = parser.parse_args()
    names = sorted({m.name for m in pkgutil.iter_modules(benchmarks.__path__)} - SUPPORT)
    if asked.some is not None:
        names = sorted(Random(asked.seed).sample(names, min(asked.some, len(names))))
    missed = []
    for name in names:
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] * asked.quick)]
        print(f"--- {name}", flush=True)
        if subprocess.call(command) and subprocess.call(command):
            missed.append(name)
    print(f"figures: {len(names) - len(missed)} reached, {len(missed)} missed", *missed)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

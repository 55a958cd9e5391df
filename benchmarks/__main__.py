"""Every figure, one after another: ``python -m benchmarks [--quick]``.

A figure that is missed is taken once more: neighbours come and go on a shared machine, and a real
loss of speed misses twice.
"""

import pkgutil
import subprocess
import sys

import benchmarks

SUPPORT = {"__main__", "data", "load", "measure", "served", "spark"}


def main() -> None:
    names = sorted({m.name for m in pkgutil.iter_modules(benchmarks.__path__)} - SUPPORT)
    missed = []
    for name in names:
        command = [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]
        print(f"--- {name}", flush=True)
        if subprocess.call(command) and subprocess.call(command):
            missed.append(name)
    print(f"figures: {len(names) - len(missed)} reached, {len(missed)} missed", *missed)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

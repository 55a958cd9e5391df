"""Every figure, one after another: ``python -m benchmarks [--quick]``."""

import pkgutil
import subprocess
import sys

import benchmarks

SUPPORT = {"__main__", "data", "measure"}


def main() -> None:
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__))
    failed = []
    for name in names:
        if name not in SUPPORT:
            print(f"--- {name}", flush=True)
            command = [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]
            if subprocess.call(command):
                failed.append(name)
    print(f"{len(names) - len(SUPPORT & set(names)) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

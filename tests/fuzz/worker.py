"""One target under atheris, in this process: ``python -m tests.fuzz.worker TARGET [flags] [dirs]``.

Atheris watches which branches an input takes by rewriting the bytecode of what is imported under
its eyes. It is shown lakelog and nothing else: the tests need no coverage, and compiled kernels
must not be rewritten, for Numba compiles the bytecode that it finds.
"""

import sys
from pathlib import Path

import atheris

from tests.fuzz.targets import load

ROOT = Path(__file__).parents[2] / "src"


def kernels() -> list[str]:
    """Every module of lakelog that Numba compiles, by name."""
    files = [*ROOT.glob("lakelog/**/kernels/*.py"), *ROOT.glob("lakelog/**/kernels*.py")]
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names]


def main() -> None:
    name = sys.argv[1]
    with atheris.instrument_imports(include=["lakelog"], exclude=kernels()):
        target = load(name)

    def once(data: bytes) -> None:
        target(data)

    atheris.Setup([name, *sys.argv[2:]], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

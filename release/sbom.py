"""``make sbom``: a CycloneDX list of what a server consists of, the same bytes each time.

    wheel + requirements/server.txt --> an environment of its own --> lakelog-0.1.0.cdx.json

Made from what is installed and not from the requirement file: only there are licences and what
needs what. Dates and random numbers are left out, so that two can be compared.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lakelog
from release.build import build
from release.versions import ROOT

__all__ = ["write_sbom"]


def write_sbom(wheel: Path, into: Path) -> Path:
    """Install a wheel with the locked requirements of a server, list them, and return the file."""
    target = into / f"lakelog-{lakelog.__version__}.cdx.json"
    with tempfile.TemporaryDirectory() as place:
        python = Path(place, "bin", "python")
        uv = [sys.executable, "-m", "uv"]
        _run(*uv, "venv", "-q", "--python", sys.executable, place)
        install = [*uv, "pip", "install", "-q", "--python", str(python), "--no-deps"]
        _run(*install, "--require-hashes", "-r", str(ROOT / "requirements" / "server.txt"))
        _run(*install, str(wheel))
        listing = [sys.executable, "-m", "cyclonedx_py", "environment", str(python)]
        listing += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
        _run(*listing, "--output-reproducible", "--of", "JSON", "-o", str(target))
    bill = json.loads(target.read_text())
    # pyproject.toml does not say it: src/lakelog/__init__.py does.
    bill["metadata"]["component"]["version"] = lakelog.__version__
    target.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")
    return target


def _run(*argv: str) -> None:
    # What the caller's environment is must not decide what is listed.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # noqa: TID251
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Build the wheel of this checkout, and write its list to dist/."""
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        print(write_sbom(build(ROOT, Path(place)).wheel, dist))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``make release``: everything of a release but publishing it.

    HEAD --> two folders --> two builds, equal --> dist/  --> every extra on every Python
                                                     |
                            wheel, sdist, locked requirements, SBOM, SHA256SUMS

It changes nothing but dist/, and ends with the commands that are left to a person
(docs/how-to/release.md says what each is for).
"""

import filecmp
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lakelog
from release.build import Built, build
from release.sbom import write_sbom
from release.versions import ROOT, released, unpack_commit
from release.vulnerabilities import check_locked

DIST = ROOT / "dist"
VERSION = lakelog.__version__


def main() -> int:
    """Make it; return the exit code."""
    wrong = findings()
    for one in wrong:
        print(f"Error: {one}", file=sys.stderr)
    if wrong:
        return 1
    commit = git("rev-parse", "HEAD")
    built = build_twice(commit)
    print(f"Built twice from {commit[:12]}, the same bytes both times:")
    for path, digest in sums(built).items():
        print(f"  {path.name}  {path.stat().st_size:,} bytes  sha256 {digest}")
    tests = ["tests/e2e/packages", "-s", "-p", "no:randomly"]
    tried = subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT)
    if tried.returncode:
        print("Error: what was built does not install as it should, see above", file=sys.stderr)
        return 1
    print(LEFT.format(version=VERSION, commit=commit))
    return 0


def findings() -> list[str]:
    """Return what keeps this commit from being a release."""
    wrong = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", VERSION):
        wrong.append(f"{VERSION} is no version of a release: change src/lakelog/__init__.py")
    if VERSION in released():
        wrong.append(f"{VERSION} was released already: a version is never built anew")
    code, text = check_locked()
    if code:
        wrong.append(f"of what a server is installed with:\n{text}")
    if git("status", "--porcelain"):
        wrong.append("there are changes that are not committed: git status shows them")
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if heading is None or heading[1].partition(",")[0] != VERSION:
        wrong.append(f"CHANGELOG.md does not begin with {VERSION}: say there what has changed")
    return wrong


def build_twice(commit: str) -> Built:
    """Build what was committed, in two places, into dist/; raise if the results differ."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        for number in "12":
            unpack_commit(commit, Path(place, number))
        built = build(Path(place, "1"), DIST)
        again = build(Path(place, "2"), Path(place, "dist"))
        for one, other in zip(built, again, strict=True):
            if not filecmp.cmp(one, other, shallow=False):
                raise RuntimeError(f"two builds of {one.name} differ")
    return built


def sums(built: Built) -> dict[Path, str]:
    """Put the locked requirements, the SBOM and the checksums of all files beside them."""
    locked = DIST / f"lakelog-{VERSION}-server-requirements.txt"
    shutil.copyfile(ROOT / "requirements" / "server.txt", locked)
    bill = write_sbom(built.wheel, DIST)
    files = (*built, locked, bill)
    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    lines = "".join(f"{digest}  {path.name}\n" for path, digest in digests.items())
    (DIST / "SHA256SUMS").write_text(lines)
    return digests


def git(*words: str) -> str:
    """Return what git says."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


LEFT = """
Everything is in dist/. What is left is yours:

  git tag --sign v{version} {commit}
  git push origin v{version}
  python -m twine upload dist/*.whl dist/*.tar.gz

and in a commit behind it: in release/versions.toml
  "{version}" = "{commit}"
and the next version, with .dev0, in src/lakelog/__init__.py."""


if __name__ == "__main__":
    sys.exit(main())

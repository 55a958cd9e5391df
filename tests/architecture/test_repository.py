"""The files of the repository: what they may not mention, and that what they point to is there."""

import ast
import re
import subprocess
import tomllib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from lakelog.formats import FORMATS
from tests.architecture.house import ROOT

PAGES = {"kafkalog": "kafka-log-directory"}
"""Where the page of a format is not called like the format."""

PARTS = ("record-batch", "bundle", "checkpoint")
"""Formats that are not of segments."""

# Put together here, so that this file does not mention them either.
_SHARED = "../" + "shared"
_HOMES = re.compile(rb"(?<![\w.-])/(home|Users|root|work)/[A-Za-z0-9_.-]+")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


@cache
def files() -> tuple[Path, ...]:
    """Every file that is in the repository, or would be after ``git add``."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = (name.decode() for name in done.stdout.split(b"\0") if name)
    return tuple(path for path in (ROOT / name for name in names) if path.is_file())


def pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page can be reached."""
    text = _FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def test_files_are_found() -> None:
    assert ROOT / "pyproject.toml" in files()
    assert len(pages()) > 3


def test_no_file_points_outside_the_repository() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in files()
        if _SHARED.encode() in (data := path.read_bytes()) or _HOMES.search(data)
    ]
    assert found == []


@pytest.mark.parametrize("name", [*FORMATS, *PARTS])
def test_every_format_has_a_page(name: str) -> None:
    page = ROOT / "docs/reference/formats" / f"{PAGES.get(name, name)}.md"
    assert page.is_file()
    assert page.read_text().startswith("# ")


def test_every_page_of_a_format_belongs_to_one() -> None:
    known = {PAGES.get(name, name) for name in (*FORMATS, *PARTS, "README", "index")}
    found = {page.stem for page in (ROOT / "docs/reference/formats").glob("*.md")}
    assert found <= known


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        name, _, anchor = unquote(target).partition("#")
        if re.match(r"[a-z]+:", name):
            continue
        other = page.parent / name if name else page
        is_there = ROOT in other.resolve().parents and other.exists()
        if is_there and anchor and other.suffix == ".md":
            is_there = anchor in anchors(other)
        if not is_there:
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_on_pages_import_what_is_there(page: Path) -> None:
    """A name that a page imports must not rot when the code is renamed."""
    missing: list[str] = []
    for program in _PROGRAM.findall(page.read_text()):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakelog"):
                missing += [one.name for one in node.names if not _is_there(node, one.name)]
    assert missing == []


def _is_there(node: ast.ImportFrom, name: str) -> bool:
    found = hasattr(import_module(node.module or ""), name)
    return found or find_spec(f"{node.module}.{name}") is not None


def test_pages_name_files_that_exist() -> None:
    """Modules and tests mention pages by path; those paths must not rot either."""
    missing = [
        (str(path.relative_to(ROOT)), name)
        for path in files()
        if path.suffix == ".py"
        for name in re.findall(r"docs/[\w/.-]+\.md", path.read_text())
        if not (ROOT / name).is_file()
    ]
    assert missing == []


def test_what_the_linter_points_to_is_there() -> None:
    """A message that sends its reader to a file names one that exists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    said = [one["msg"] for one in settings["flake8-tidy-imports"]["banned-api"].values()]
    named = re.findall(r"[\w/]+\.py\b", " ".join(said))
    assert named
    assert [name for name in named if not (ROOT / "src/lakelog" / name).is_file()] == []

"""``make vulnerabilities``: what is known against the versions that a server is installed with.

    requirements/server.txt --> the index's page of each version --> none known, some, or no page

Exit codes: 0, every version has a page and none of them names a vulnerability; 1, some do; 3, of
some versions nothing is known. A scan without data has shown nothing and is never green: the usual
scanner, pip-audit, skips a version that it finds nothing about, and ends with 0. Where an index has
pages of the newest versions only, ``--at-least 0.5`` is content with half, and names the others:
so CI does not fail on the day on which somebody publishes a version.
"""

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pip._internal.models.index import PyPI

from release.versions import ROOT

__all__ = ["Known", "Pin", "ask_index", "check_locked", "look_up", "pins", "told"]

LOCKED = ROOT / "requirements" / "server.txt"
PAGE_BYTES_MAX = 64 << 20
"""A page lists every file of every version there was; the largest today have 20 MB."""
TRIES, TIMEOUT_S, AT_ONCE = 3, 30.0, 8
NO_DATA = 3

Page = dict[str, Any]


class Pin(NamedTuple):
    """A package at one version."""

    name: str
    version: str


class Known(NamedTuple):
    """What the index says of one: the vulnerabilities, or None if it says nothing."""

    pin: Pin
    found: tuple[str, ...] | None


def pins(locked: str) -> list[Pin]:
    """Return what a locked requirement file installs."""
    return [Pin(*one) for one in re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s\\;]+)", locked, re.M)]


def look_up(pin: Pin, ask: Callable[[str], Page | None]) -> Known:
    """Ask for the page of the version; an index that has none may have it as its newest one."""
    for path in (f"{pin.name}/{pin.version}/json", f"{pin.name}/json"):
        page = ask(path)
        if page is None or page.get("info", {}).get("version") != pin.version:
            continue
        listed = page.get("vulnerabilities")
        if isinstance(listed, list):
            valid = [one for one in listed if not one.get("withdrawn")]
            return Known(pin, tuple(_sentence(one) for one in valid))
    return Known(pin, None)


def told(known: Iterable[Known], at_least: float = 1.0) -> tuple[int, str]:
    """Return the exit code, and what there is to say."""
    rows = list(known)
    bad = [row for row in rows if row.found]
    dark = [row.pin for row in rows if row.found is None]
    lines = [
        f"Error: {row.pin.name} {row.pin.version}: {one}" for row in bad for one in row.found or ()
    ]
    code = 1 if bad else 0
    if dark or not rows:
        names = ", ".join(f"{pin.name} {pin.version}" for pin in dark) or "an empty list"
        lines.append(
            f"Error: of {names} the index says nothing. `make lock` takes newer versions, which it "
            "may have; otherwise ask where osv.dev can be reached"
        )
        if not rows or len(rows) - len(dark) < at_least * len(rows):
            code = code or NO_DATA
    if not lines:
        lines = [f"{len(rows)} packages, each with data of its version: no known vulnerability"]
    return code, "\n".join(lines)


def ask_index(path: str) -> Page | None:
    """Return a page of the index that pip asks; None if there is no such page."""
    url = f"{PyPI.pypi_url}/{path}"
    for left in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                page: Page = json.loads(answer.read(PAGE_BYTES_MAX))
                return page
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if not left:
                raise
        except (OSError, ValueError):
            if not left:
                raise
        time.sleep(1)  # noqa: TID251 (a script)
    return None


def check_locked(locked: Path = LOCKED, at_least: float = 1.0) -> tuple[int, str]:
    """Look everything up that a locked requirement file installs."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        known = pool.map(lambda pin: look_up(pin, ask_index), pins(locked.read_text()))
        return told(known, at_least)


def main() -> int:
    """Look, tell, and return the exit code."""
    parser = argparse.ArgumentParser(description="What is known against the locked versions.")
    parser.add_argument("locked", nargs="?", type=Path, default=LOCKED)
    parser.add_argument("--at-least", type=float, default=1.0, help="the share that must be known")
    options = parser.parse_args()
    code, text = check_locked(options.locked, options.at_least)
    print(text)
    return code


def _sentence(one: dict[str, Any]) -> str:
    names = [one.get("id", "?"), *one.get("aliases", ())]
    mended = ", ".join(one.get("fixed_in") or ()) or "no version yet"
    return f"{' '.join(names)}, mended in {mended}: {one.get('summary') or one.get('link')}"


if __name__ == "__main__":
    sys.exit(main())

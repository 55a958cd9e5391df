"""A scan of what a server is installed with: it tells, and it is not green without data."""

from typing import Any

from release.vulnerabilities import LOCKED, NO_DATA, Known, Pin, look_up, pins, told

PIN = Pin("lz4", "4.4.5")
HOLE = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["4.4.6"], "summary": "Reads too far."}


def page(version: str, *found: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"version": version}, "vulnerabilities": list(found)}


def test_every_package_of_a_server_is_looked_up() -> None:
    text = LOCKED.read_text()
    assert {"kio", "obstore", "uvloop"} < {pin.name for pin in pins(text)}
    assert len(pins(text)) == sum("==" in line for line in text.splitlines())


def test_the_page_of_the_version_counts() -> None:
    asked: list[str] = []

    def ask(path: str) -> dict[str, Any]:
        asked.append(path)
        return page("4.4.5", HOLE)

    code, text = told([look_up(PIN, ask)])
    assert asked == ["lz4/4.4.5/json"]
    assert code == 1
    assert text == "Error: lz4 4.4.5: PYSEC-1 CVE-1, mended in 4.4.6: Reads too far."


def test_the_newest_page_counts_if_it_is_of_that_version() -> None:
    pages = {"lz4/json": page("4.4.5")}
    assert look_up(PIN, pages.get) == Known(PIN, ())
    pages = {"lz4/json": page("4.5.0")}
    assert look_up(PIN, pages.get) == Known(PIN, None)


def test_what_was_withdrawn_does_not_count() -> None:
    pages = {"lz4/4.4.5/json": page("4.4.5", {**HOLE, "withdrawn": "2026-01-01"})}
    assert look_up(PIN, pages.get) == Known(PIN, ())


def test_a_page_that_lists_nothing_is_no_data() -> None:
    pages = {"lz4/4.4.5/json": {"info": {"version": "4.4.5"}}}
    assert look_up(PIN, pages.get) == Known(PIN, None)


def test_a_scan_without_data_is_not_green() -> None:
    dark, clean = Known(PIN, None), Known(Pin("click", "8"), ())
    assert told([])[0] == NO_DATA
    assert told([dark, clean])[0] == NO_DATA
    assert told([dark, clean], at_least=0.5)[0] == 0
    assert "lz4 4.4.5" in told([dark, clean], at_least=0.5)[1]
    assert told([dark, dark, clean], at_least=0.5)[0] == NO_DATA
    assert told([dark, Known(PIN, ("a hole",))])[0] == 1
    assert told([clean])[0] == 0

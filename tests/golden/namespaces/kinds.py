"""The kinds of objects there are, by templates of keys: what ``docs/reference/objects.md`` says."""

import re
from pathlib import Path

__all__ = ["KINDS", "kind_of"]

_PAGE = Path(__file__).parents[3] / "docs/reference/objects.md"
_ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \|", re.MULTILINE)
_HEX = "[0-9a-f]{32}"
_PLACES = {
    "topic": r"[a-zA-Z0-9._-]{1,249}(?:~[1-9][0-9]*)?",
    "partition": r"(?:0|[1-9][0-9]*)",
    "base:020": r"[0-9]{20}(?:-[0-9a-f]{32})?",
    "part:06": r"[0-9]{6,10}",
    "lane:04": r"[0-9]{4}",
    "shard:02": r"[0-9]{2}",
    "page:05": r"[0-9]{5}",
    "seq:020": r"[0-9]{20}",
    "number:020": r"[0-9]{20}",
    "write": _HEX,
    "query": _HEX,
    "broker": _HEX,
    "id": _HEX,
}


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"\{([^}]+)\}", template)
    return re.compile(
        "".join(_PLACES[one] if at % 2 else re.escape(one) for at, one in enumerate(pieces))
    )


KINDS: dict[str, tuple[str, re.Pattern[str]]] = {
    template: (what, _pattern(template)) for template, what in _ROW.findall(_PAGE.read_text())
}
"""A template, what it is of (cell, journal, ...), and a pattern of its keys."""


def kind_of(key: str) -> str | None:
    """Return the template that a key is of; None: nobody has named it."""
    return next((one for one, (_, keys) in KINDS.items() if keys.fullmatch(key)), None)

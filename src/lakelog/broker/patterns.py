"""Topics by expression: which names fit, found in a time that grows with the name and no faster.

Expressions come from clients. A matcher that tries and goes back can be made to try for years, so
RE2 does it, which cannot. Where that library is not installed no expression is understood, and
clients are told so.

What fits is kept as long as the names are the same. To find it takes microseconds for each name, so
one search at a time is made, a slice of names between what others do on the loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from lakelog.broker.turns import in_turns
from lakelog.groups import REGEX_MAX

__all__ = ["Patterns", "re2_compile"]

Fits = Callable[[str], object]
Compile = Callable[[str], Fits | None]
"""An expression to a function that says whether a name fits as a whole; None: it is none."""

KEPT_MAX = 256
"""Expressions that are kept compiled, with what fitted last."""

NAMES_KEPT_MAX = 1_000_000
"""Names that all of these have found, together."""

MEMORY_BYTES_MAX = 1 << 20
"""Of one compiled expression."""

AT_ONCE = 500
"""Names that are tried before others have their turn on the loop."""


def re2_compile(expression: str) -> Fits | None:
    """Return a matcher of RE2; None: it is no expression, or RE2 is not here."""
    try:
        re2: Any = import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        matcher: Fits = re2.compile(expression, options=options).fullmatch
    except re2.error:
        return None
    return matcher


class _Kept(NamedTuple):
    """An expression, and what fitted it among some names."""

    fits: Fits
    names: tuple[str, ...]
    found: frozenset[str]


class Patterns:
    """Expressions, and the names that fit them."""

    def __init__(self, compile_: Compile = re2_compile) -> None:
        self._compile = compile_
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        """Names that all of these have found."""
        self._turn = asyncio.Lock()

    async def match(self, expression: str, names: tuple[str, ...]) -> frozenset[str] | None:
        """Return the names that fit; None: it is no expression.

        The same tuple has the same names: what was found for it before is still right.
        """
        if len(expression) > REGEX_MAX:
            return None
        found = self._known(expression, names)
        if found is not None:
            return found
        async with self._turn:
            found = self._known(expression, names)  # Another request may have looked meanwhile.
            if found is None:
                kept = self._kept.get(expression)
                fits = self._compile(expression) if kept is None else kept.fits
                if fits is None:
                    return None
                found = frozenset([name async for name in in_turns(names, AT_ONCE) if fits(name)])
                self._keep(expression, _Kept(fits, names, found))
        return found

    def _known(self, expression: str, names: tuple[str, ...]) -> frozenset[str] | None:
        kept = self._kept.get(expression)
        if kept is None or kept.names is not names:
            return None
        self._kept.move_to_end(expression)
        return kept.found

    def _keep(self, expression: str, new: _Kept) -> None:
        old = self._kept.pop(expression, None)
        self._size += len(new.found) - (0 if old is None else len(old.found))
        self._kept[expression] = new
        while len(self._kept) > KEPT_MAX or (self._size > NAMES_KEPT_MAX and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.found)

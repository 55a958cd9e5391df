"""Topics by expression: which names fit, found in a time that grows with the name and no faster.

Expressions come from clients. A matcher that tries and goes back can be made to try for years, so
RE2 does it, which cannot. Where that library is not installed no expression is understood, and
clients are told so.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["Patterns", "re2_compile"]

Compile = Callable[[str], Callable[[str], object] | None]
"""An expression to a function that says whether a name fits as a whole; None: it is none."""

KEPT_MAX = 256
"""Expressions that are kept compiled, with what fitted last."""

REGEX_MAX = 1024
"""Characters of an expression."""

MEMORY_BYTES_MAX = 1 << 20
"""Of one compiled expression."""


def re2_compile(expression: str) -> Callable[[str], object] | None:
    """Return a matcher of RE2; None: it is no expression, or RE2 is not here."""
    try:
        re2: Any = import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    try:
        matcher: Callable[[str], object] = re2.compile(expression, options=options).fullmatch
    except re2.error:
        return None
    return matcher


class Patterns:
    """Expressions, and the names that fit them."""

    def __init__(self, compile_: Compile = re2_compile) -> None:
        self._compile = compile_
        self._kept: OrderedDict[
            str, tuple[Callable[[str], object], Sequence[str], frozenset[str]]
        ] = OrderedDict()

    def match(self, expression: str, names: Sequence[str]) -> frozenset[str] | None:
        """Return the names that fit; None: it is no expression."""
        kept = self._kept.pop(expression, None)
        if kept is None or kept[1] != names:
            fits = None if kept is None else kept[0]
            if fits is None and len(expression) <= REGEX_MAX:
                fits = self._compile(expression)
            if fits is None:
                return None
            kept = fits, names, frozenset(name for name in names if fits(name))
        self._kept[expression] = kept
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return kept[2]

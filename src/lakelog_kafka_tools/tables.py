"""Padded columns, as ``printf`` makes them.

cell(-15, "GROUP")     a column to the left, at least so wide
"""

from collections.abc import Sequence

__all__ = ["columns", "widest"]


def columns(widths: Sequence[int], values: Sequence[object]) -> str:
    """Return values in columns; one of width 0 is as wide as its value."""
    cells = (f"{value}".ljust(width) for width, value in zip(widths, values, strict=True))
    return " ".join(cells)


def widest(least: int, values: Sequence[object]) -> int:
    """Return how wide a column must be for all its values."""
    return max([least, *(len(str(value)) for value in values)])

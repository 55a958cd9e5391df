"""Moments: what happened on the loop before what, also within one tick of its clock."""

from itertools import count

__all__ = ["moment"]

_MOMENTS = count(1)


def moment() -> int:
    """Return a number that is larger than every one before."""
    return next(_MOMENTS)

"""The other side of a reader's limit: what is too large to be read is not written.

A limit is one constant, beside what it bounds. Readers compare it with the size of an object before
they fetch it; writers hand what they made through here, before anybody stores it.
"""

from typing import TypeVar

from lakelog.errors import InvalidInputError

__all__ = ["fitting"]

B = TypeVar("B", bytes, bytearray)


def fitting(data: B, most: int, what: str, advice: str) -> B:
    """Return what was encoded, if a reader takes as much.

    Raises:
        InvalidInputError: it is too large. ``advice`` says what to do about it.
    """
    if len(data) > most:
        raise InvalidInputError(
            f"{what} of {len(data)} bytes: readers take at most {most}; {advice}"
        )
    return data

"""What time it is, by the store's clock.

Deleters wait by this clock and by no other: the age of a floor is the difference of two times that
the same store has written. It is asked by making an object and looking when it was made.
"""

from lakelog.names import time_key
from lakelog.ports import Ids
from lakelog.store import Work, delete, head, put_if_absent

__all__ = ["store_now"]


def store_now(ids: Ids) -> Work[int]:
    """Return the store's time, in milliseconds since 1970: three small requests."""
    key = time_key(ids())
    yield from put_if_absent(key, b"")
    info = yield from head(key)
    yield from delete(key)
    return info.modified_ms

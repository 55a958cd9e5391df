"""What a classic consumer says that it subscribes to.

    version int16, topics int32 times (length int16, name), and what later versions add

These are bytes of clients, which a coordinator need not understand. It looks into them for one
reason: the offsets of a topic that a member reads must not be deleted.
"""

import struct

__all__ = ["decode_subscription"]


def decode_subscription(data: bytes) -> frozenset[str] | None:
    """Return the names in the metadata of a member; None: it is of another form."""
    names: set[str] = set()
    try:
        _, topics = struct.unpack_from(">hi", data)
        at = 6
        if not 0 <= topics <= len(data) // 2:
            return None
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            at += 2 + length
            if length < 0 or at > len(data):
                return None
            names.add(data[at - length : at].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(names)

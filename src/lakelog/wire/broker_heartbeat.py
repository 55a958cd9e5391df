"""BrokerHeartbeat as one broker writes it to another: the same bytes but for its node id.

size | key 63 | version 0 | correlation id | client id | no tags
     | node id | broker epoch | metadata offset | want fence | want shut down | no tags
"""

import struct

from lakelog.wire.apis import ApiKey

__all__ = ["encode_broker_heartbeat"]

_CLIENT_ID = b"lakelog"
_FRAME = struct.Struct(f">ihhih{len(_CLIENT_ID)}sxiqq??x")


def encode_broker_heartbeat(node: int) -> bytes:
    """Return the frame by which a broker says that it has changed."""
    size, key = _FRAME.size - 4, ApiKey.BROKER_HEARTBEAT
    return _FRAME.pack(size, key, 0, 0, len(_CLIENT_ID), _CLIENT_ID, node, -1, -1, False, False)

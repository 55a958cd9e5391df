"""A login as one broker writes it to another: SaslHandshake 1 and SaslAuthenticate 0.

size | key | version | correlation id | client id | mechanism as a string, or data with its length
"""

import struct

from lakelog.errors import UnavailableError
from lakelog.wire.apis import ApiKey

__all__ = ["decode_sasl_answer", "encode_sasl_authenticate", "encode_sasl_handshake"]

_CLIENT_ID = b"lakelog"
_HEAD = struct.Struct(f">hhih{len(_CLIENT_ID)}s")


def encode_sasl_handshake(mechanism: str) -> bytes:
    """Return the frame that chooses a mechanism."""
    name = mechanism.encode()
    return _frame(ApiKey.SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)


def encode_sasl_authenticate(data: bytes) -> bytes:
    """Return the frame that says something of it."""
    return _frame(ApiKey.SASL_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data)


def _frame(key: ApiKey, version: int, body: bytes) -> bytes:
    head = _HEAD.pack(key, version, 0, len(_CLIENT_ID), _CLIENT_ID)
    return struct.pack(">i", len(head) + len(body)) + head + body


def decode_sasl_answer(answer: bytes) -> bytes:
    """Return what the other side says.

    Raises:
        UnavailableError: it refuses us, or this is no answer.
    """
    try:
        code, length = struct.unpack_from(">hh", answer, 4)
        at = 8 + max(length, 0)
        (size,) = struct.unpack_from(">i", answer, at)
    except struct.error as error:
        raise UnavailableError("an answer to a login is cut short: retry") from error
    if code:
        raise UnavailableError(f"another broker refuses our login with code {code}: check it")
    return answer[at + 4 : at + 4 + max(size, 0)]

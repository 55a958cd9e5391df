"""Frames: how requests and responses stand in a stream of bytes, without a socket.

    frame     => size i32, then so many bytes
    request   => api_key i16, version i16, correlation_id i32, client_id nullable string,
                 tags if the version is flexible; then the body
    response  => correlation_id i32, tags if the version is flexible; then the body

ApiVersions is the exception: its response never has tags in its header, because a client that does
not know a broker's versions yet must be able to read it.

Every length that comes from outside is compared with the bytes that are there, before anything is
made of it.
"""

import struct
from typing import NamedTuple

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.wire.apis import Api, ApiKey, find_api

__all__ = [
    "FRAME_BYTES_MIN",
    "Elements",
    "RequestHeader",
    "decode_request_header",
    "read_string",
    "read_topic",
    "read_uvarint",
    "response_start",
    "skip_tags",
    "write_count",
    "write_string",
    "write_uvarint",
]

FRAME_BYTES_MIN = 10
"""No request is shorter than its fixed fields and an absent client id."""

TAGS_MAX = 64
TAG_BYTES_MAX = 16 << 10
"""Of all tagged fields in one place. Those that Kafka has take a few bytes."""

_FIXED = struct.Struct(">hhih")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """Who asks for what."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body_at: int
    """Where the body begins in the frame."""


def decode_request_header(frame: memoryview) -> RequestHeader:
    """Return the header of a request.

    Raises:
        UnsupportedError: an API or a version that is not here; for ApiVersions see dispatch.
        CorruptError: this is no request.
    """
    if len(frame) < FRAME_BYTES_MIN:
        raise CorruptError(f"a request of {len(frame)} bytes", at=0)
    key, version, correlation_id, length = _FIXED.unpack_from(frame)
    api = find_api(key, version)
    if api is None:
        raise UnsupportedError(f"API {key} version {version} is not offered", at=0)
    at = FRAME_BYTES_MIN
    client_id = ""
    if length > 0:
        if at + length > len(frame):
            raise CorruptError(f"a client id of {length} bytes", at=8)
        client_id = str(frame[at : at + length], "utf-8", "replace")
        at += length
    elif length < -1:
        raise CorruptError(f"a client id of {length} bytes", at=8)
    if version >= api.flexible_from:
        at = at + 1 if at < len(frame) and not frame[at] else skip_tags(frame, at)
    return RequestHeader(api, version, correlation_id, client_id, at)


def response_start(api: Api, version: int, correlation_id: int) -> bytes:
    """Return what stands before the body of a response, behind the size of its frame."""
    start = _I32.pack(correlation_id)
    if version >= api.flexible_from and api.key is not ApiKey.API_VERSIONS:
        start += b"\0"
    return start


# ---------------------------------------------------------------------------- primitives


def read_uvarint(view: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and where it ends."""
    try:
        byte = view[at]
        if byte < 0x80:
            return byte, at + 1
        value, shift = byte & 0x7F, 7
        while shift < 35:
            at += 1
            byte = view[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 32:
                    break
                return value, at + 1
            shift += 7
    except IndexError:
        pass
    raise CorruptError("a varint is cut short, or too long", at=at)


class Elements:
    """Counts the elements of all arrays of a request, before anything is made of them."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def read(self, view: memoryview, at: int, *, flexible: bool) -> tuple[int, int]:
        """Return the length of the array at ``at``, -1 for an absent one, and where it ends.

        Raises:
            CorruptError: there cannot be so many elements, for each takes a byte at least; or there
                are more than are taken.
        """
        if flexible:
            count, at = read_uvarint(view, at)
            count -= 1
        else:
            (count,) = _I32.unpack_from(view, at)
            at += 4
        if not -1 <= count <= len(view) - at:
            raise CorruptError(f"{count} elements in {len(view) - at} bytes", at=at)
        if count > self._left:
            raise CorruptError(
                f"more than {self._most} topics and partitions: send fewer at once", at=at
            )
        if count > 0:
            self._left -= count
        return count, at


def read_topic(view: memoryview, at: int, *, by_id: bool, flexible: bool) -> tuple[str, bytes, int]:
    """Return the name of a topic or its id, the other being empty, and where it ends."""
    if by_id:
        if at + 16 > len(view):
            raise CorruptError("an id of a topic is cut short", at=at)
        return "", bytes(view[at : at + 16]), at + 16
    name, at = read_string(view, at, flexible=flexible)
    return name or "", b"", at


def skip_tags(view: memoryview | bytes, at: int) -> int:
    """Return where tagged fields end; none of them is looked at."""
    most = at + TAG_BYTES_MAX
    count, at = read_uvarint(view, at)
    if count > TAGS_MAX:
        raise CorruptError(f"{count} tagged fields", at=at)
    for _ in range(count):
        _, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        at += size
        if at > min(len(view), most):
            raise CorruptError(f"a tagged field of {size} bytes", at=at)
    return at


def read_string(view: memoryview, at: int, *, flexible: bool) -> tuple[str | None, int]:
    """Return a string, or None for an absent one, and where it ends."""
    if flexible:
        length, at = read_uvarint(view, at)
        length -= 1
    else:
        if at + 2 > len(view):
            raise CorruptError("a string is cut short", at=at)
        (length,) = _I16.unpack_from(view, at)
        at += 2
    if length < 0:
        return None, at
    end = at + length
    if end > len(view):
        raise CorruptError(f"a string of {length} bytes", at=at)
    try:
        return str(view[at:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise CorruptError("a string that is no UTF-8", at=at) from error


def write_uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_count(count: int, *, flexible: bool) -> bytes:
    """Return the length of an array, as it stands before its elements."""
    return write_uvarint(count + 1) if flexible else _I32.pack(count)


def write_string(text: str | None, *, flexible: bool) -> bytes:
    """Return a string, or an absent one, as it stands in a message."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (write_uvarint(len(data) + 1) if flexible else _I16.pack(len(data))) + data

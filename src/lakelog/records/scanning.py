"""Looking for something in runs of batches, without making records of them.

    first_not_older   the first record that is not older than a time
    without_keys      which records have no key

Of a record only its first fields are read, and the rest is passed over:

    length  attributes  time delta  offset delta  key length | key, value, headers
    `---------------- at most 26 bytes ---------------------'

What comes out of the codec is looked at a piece at a time and kept by nobody, so that a batch takes
the memory of its codec's window, whatever it claims to hold. And a scan is a generator: it stops
after each turn of some milliseconds and yields how many bytes it holds. Whoever has better things
to do lets it go on later, or never; ``finish`` runs it to its end.

The codec in ``batch`` is the judge: of what it reads, a scan says the same. A scan does not judge
what it passes over, the bytes of keys, values and headers.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, TypeVar

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import TimestampType
from lakelog.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    decompress_pieces,
    window_bytes,
)
from lakelog.records.header import HEADER_BYTES, I64_MAX, I64_MIN, BatchHeader, Bytes, frames
from lakelog.records.varint import decode_varint, decode_varlong

__all__ = ["FoundRecord", "Scan", "finish", "first_not_older", "without_keys"]

T = TypeVar("T")

Scan = Generator[int, None, T]
"""Yields how many bytes it holds, after each turn."""

TURN_BYTES = 256 << 10
TURN_RECORDS = 4_096
"""After so many bytes or records others have their turn."""

_PIECE_COST = 256  # A piece costs something, however small it is; so does a batch.
_ZEROS = bytes(26)
"""As many as the fields of a record that are read can take."""


class FoundRecord(NamedTuple):
    """A record that was looked for."""

    offset: int
    timestamp: int


def finish(scan: Scan[T]) -> T:
    """Run a scan to its end, and return what it found."""
    while True:
        try:
            next(scan)
        except StopIteration as done:
            result: T = done.value
            return result


def first_not_older(
    data: Bytes, offset: int, timestamp: int, *, where: str = ""
) -> Scan[FoundRecord | None]:
    """Find the first record from ``offset`` on that is not older; None: all are.

    A batch is taken at its word when it says that all of it is older.

    Raises:
        CorruptError, UnsupportedError: what was read of the run is damaged, or not known.
    """
    for header, at, body in _batches(data, where):
        if header is None:
            yield 0
            continue
        newest = header.max_timestamp
        if newest < timestamp or header.next_offset <= offset:
            continue
        # All records of a batch that was stamped by the log have its newest time.
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        least = I64_MIN if append_time else timestamp - header.base_timestamp
        scan = _matching(header, body, _Wanted(offset - header.base_offset, least), at, where)
        for found in scan:
            if isinstance(found, int):
                yield found
            else:
                _, delta, time_delta = found
                time = newest if append_time else header.base_timestamp + time_delta
                return FoundRecord(header.base_offset + delta, time)
    return None


def without_keys(data: Bytes, most: int, *, where: str = "") -> Scan[list[int]]:
    """Find which records of a run have no key, counted from 0: the first so many of them.

    Raises:
        CorruptError, UnsupportedError: what was read of the run is damaged, or not known.
    """
    missing: list[int] = []
    before = 0
    for header, at, body in _batches(data, where):
        if header is None:
            yield 0
            continue
        for found in _matching(header, body, _KEYLESS, at, where):
            if isinstance(found, int):
                yield found
            else:
                missing.append(before + found[0])
                if len(missing) == most:
                    return missing
        before += header.count
    return missing


def _batches(data: Bytes, where: str) -> Iterator[tuple[BatchHeader | None, int, memoryview]]:
    """Yield batches, their CRC checked, and now and then none: it is the turn of others."""
    view = memoryview(data).cast("B")
    cost = 0
    for at, header in frames(view, after=None, where=where):
        yield header, at, view[at + HEADER_BYTES : at + header.size]
        cost += _PIECE_COST + header.size // 16  # A checksum is fast.
        if cost >= TURN_BYTES:
            cost = 0
            yield None, at, view[:0]


class _Wanted(NamedTuple):
    """Which records of a batch are of interest."""

    delta: int
    """Those whose offset is not lower, counted from the batch's base."""
    time_delta: int
    """And whose time is not older, counted in the same way."""
    is_keyless: bool = False
    """And that have no key."""


_KEYLESS = _Wanted(0, I64_MIN, is_keyless=True)

_Match = tuple[int, int, int]
"""Which record of its batch it is, its offset delta and its time delta."""


def _matching(
    header: BatchHeader, body: memoryview, wanted: _Wanted, at: int, where: str
) -> Iterator[_Match | int]:
    """Yield the records of a batch that are wanted, and after each turn how many bytes are held."""
    if header.count == 0:
        if len(body):
            raise CorruptError(f"{len(body)} bytes of records, but count 0", at=at, where=where)
        return
    plain = header.codec is Codec.NONE
    try:
        yield from _walk(header, body, wanted)
    except (CorruptError, UnsupportedError) as error:
        # Positions inside a compressed body mean nothing to somebody with the file in hand.
        inside = HEADER_BYTES + error.at if plain else 0
        raise type(error)(error.what, at=at + inside, where=where) from error


def _walk(header: BatchHeader, body: memoryview, wanted: _Wanted) -> Iterator[_Match | int]:
    least_delta, least_time, is_keyless = wanted
    highest, last_delta = header.last_offset_delta, -1
    time_min, time_max = I64_MIN - header.base_timestamp, I64_MAX - header.base_timestamp
    stream = _Stream(header.codec, body)
    data, at, enough = b"", 0, -1
    for number in range(header.count):
        while at > enough:
            at = stream.more(at)
            data, enough = stream.data, stream.enough
            if stream.cost >= TURN_BYTES:
                stream.cost = 0
                yield stream.held
        start = at
        length, time_delta, delta, key_bytes, at, end = _fields(data, at)
        if length < 1 or at > end or not -1 <= key_bytes <= end - at:
            raise CorruptError(
                f"a record of {length} bytes with a key of {key_bytes}: it does not fit",
                at=stream.passed + start,
            )
        if not last_delta < delta <= highest:
            raise CorruptError(
                f"offset delta {delta} after {last_delta}, the batch's last is {highest}",
                at=stream.passed + start,
            )
        if not time_min <= time_delta <= time_max:
            raise CorruptError(
                f"timestamp {header.base_timestamp + time_delta} does not fit 64 bits",
                at=stream.passed + start,
            )
        last_delta, at = delta, end
        if is_keyless:
            is_wanted = key_bytes < 0
        else:
            is_wanted = time_delta >= least_time and delta >= least_delta
        if is_wanted:
            yield number, delta, time_delta
        if number % TURN_RECORDS == TURN_RECORDS - 1:
            yield stream.held
    while not stream.is_whole:
        at = stream.more(at)
        if stream.cost >= TURN_BYTES:
            stream.cost = 0
            yield stream.held
    left = len(stream.data) - len(_ZEROS) - at
    if left:
        raise CorruptError(
            f"{left} bytes behind the last record" if left > 0 else "a record is cut short",
            at=stream.passed + at,
        )


class _Stream:
    """What comes out of a codec: as much of it as is needed."""

    __slots__ = ("_pieces", "_window", "cost", "data", "enough", "is_whole", "passed")

    def __init__(self, codec: Codec, body: memoryview) -> None:
        self._pieces = decompress_pieces(codec, body, size_max=DECOMPRESSED_BYTES_MAX)
        self._window = window_bytes(codec, body)
        self.data = b""
        self.passed = 0
        """Bytes that came before them."""
        self.enough = -1
        """Up to here the fields of a record can be read: behind the last byte of all are zeros."""
        self.is_whole = False
        self.cost = 0

    @property
    def held(self) -> int:
        return len(self.data) + min(self._window, self.passed)

    def more(self, at: int) -> int:
        """Get the next piece, drop what is before ``at``, and return where that is now.

        It may be behind all that has come: then the rest of a record is passed over.
        """
        piece = next(self._pieces, None)
        kept = self.data[at:]
        gone = len(self.data) - len(kept)
        self.passed += gone
        if piece is None:
            if self.is_whole:
                raise CorruptError("a record is cut short", at=self.passed)
            self.is_whole = True
            self.data = kept + _ZEROS
            self.enough = len(kept)
        else:
            self.cost += _PIECE_COST + len(piece)
            self.data = kept + piece if kept else piece
            self.enough = len(self.data) - len(_ZEROS)
        return at - gone


def _fields(data: bytes, at: int) -> tuple[int, int, int, int, int, int]:
    """Return a record's length, time delta, offset delta and length of its key, where those end,
    and where it ends.

    It is hot: most numbers take a byte, and those are read in place.
    """
    byte = data[at]
    if byte < 0x80:
        length, at = byte >> 1 ^ -(byte & 1), at + 1
    else:
        length, at = _number(data, at, decode_varint)
    end = at + length
    at += 1  # Its attributes.
    byte = data[at]
    if byte < 0x80:
        time_delta, at = byte >> 1 ^ -(byte & 1), at + 1
    else:
        time_delta, at = _number(data, at, decode_varlong)
    byte = data[at]
    if byte < 0x80:
        delta, at = byte >> 1 ^ -(byte & 1), at + 1
    else:
        delta, at = _number(data, at, decode_varint)
    byte = data[at]
    if byte < 0x80:
        return length, time_delta, delta, byte >> 1 ^ -(byte & 1), at + 1, end
    key_bytes, at = _number(data, at, decode_varint)
    return length, time_delta, delta, key_bytes, at, end


def _number(
    data: bytes, at: int, decode: Callable[[bytes, int, int], tuple[int, int]]
) -> tuple[int, int]:
    """Return a number of two bytes or more, and where it ends."""
    second, third = data[at + 1], data[at + 2]
    if second < 0x80:
        raw = data[at] & 0x7F | second << 7
        return raw >> 1 ^ -(raw & 1), at + 2
    if third < 0x80:
        raw = data[at] & 0x7F | (second & 0x7F) << 7 | third << 14
        return raw >> 1 ^ -(raw & 1), at + 3
    return decode(data, at, len(data))

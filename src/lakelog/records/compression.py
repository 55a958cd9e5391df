"""The five codecs of a record batch, each behind a cap.

    id  codec   bytes of the records section
    0   none    as they are
    1   gzip    RFC 1952, one or more members
    2   snappy  xerial framing, as the Java and librdkafka clients write it:
                    82 "SNAPPY" 00, i32 version, i32 compatible, then per block i32 length + raw
                or one raw snappy block, as some older clients write it
    3   lz4     LZ4 frame, blocks independent (Kafka's reader refuses linked ones)
    4   zstd    Zstandard frames

Compressed input is hostile until proven otherwise: a batch of a kilobyte can claim to hold a
terabyte. So ``decompress`` never makes more than ``size_max`` bytes, whatever the input says, and
stops with UnsupportedError there. Bytes behind the end of the compressed stream are damage.

``decompress_pieces`` gives the same bytes a piece at a time, for whoever looks at them and keeps
none: what it holds meanwhile is ``window_bytes``, however much comes out.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial

import cramjam
import lz4.frame
import zstandard

from lakelog.errors import CorruptError, UnsupportedError

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "RATIOS_MAX",
    "Codec",
    "compress",
    "compressor",
    "decompress",
    "decompress_pieces",
    "window_bytes",
]

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""What one batch may hold when it is decompressed, unless the caller says otherwise."""

_Bytes = bytes | bytearray | memoryview

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES = 32 * 1024
_I32 = struct.Struct(">i")
_GZIP_WBITS = 31
_ZSTD_WINDOW_BYTES_MAX = 1 << 27
_ZSTD_PIECE_BYTES = 1024
_LZ4_WINDOW_BYTES = 8 << 20  # Two blocks of the largest size.
_GZIP_WINDOW_BYTES = 64 << 10
_TAKEN_BYTES = 16 << 10  # What libraries are given of the input at a time: they copy what is left.
_PIECE_BYTES = 64 << 10
_ZSTD_RATIO_FAST = 1000  # What a frame may claim and be believed at once.

RATIOS_MAX = (1, 1032, 64, 255, 32_768)
"""How many bytes a byte of each codec's output can stand for, at most; by the codec's number.

gzip: two bits of a deflate block repeat up to 258 bytes. snappy: a copy of up to 64 bytes takes at
least two. lz4: a byte of 255 adds so many to the length of a match. zstd: a block makes at most
128 KiB and takes at least four bytes, a header of three and the byte that is repeated.
"""
_, _, _SNAPPY_RATIO_MAX, _LZ4_RATIO_MAX, _ = RATIOS_MAX


class Codec(IntEnum):
    """How the records section of a batch is compressed; the number is Kafka's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: _Bytes, *, level: int | None = None) -> bytes:
    """Return ``data`` compressed. Equal inputs give equal bytes."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            stream = zlib.compressobj(6 if level is None else level, wbits=_GZIP_WBITS)
            return stream.compress(data) + stream.flush()
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            done: bytes = lz4.frame.compress(
                data,
                compression_level=0 if level is None else level,
                block_linked=False,
                store_size=False,
            )
            return done
        case Codec.ZSTD:
            return compressor(codec, level=level)(data)


def compressor(codec: Codec, *, level: int | None = None) -> Callable[[_Bytes], bytes]:
    """Return a function that compresses as ``compress`` does, and keeps its memory for the next.

    Zstandard wants some megabytes to work in, and getting them anew for each batch costs a good
    part of the compressing. The function belongs to one thread.
    """
    if codec is Codec.ZSTD:
        return zstandard.ZstdCompressor(level=3 if level is None else level).compress
    return partial(compress, codec, level=level)


def decompress(codec: Codec, data: _Bytes, *, size_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return what was compressed, at most ``size_max`` bytes of it.

    Raises:
        CorruptError: not a whole stream of this codec. Positions count from the start of ``data``.
        UnsupportedError: it holds more than ``size_max`` bytes.
    """
    match codec:
        case Codec.NONE:
            if len(data) > size_max:
                raise _too_large(size_max)
            return bytes(data)
        case Codec.GZIP:
            return _decompress_gzip(data, size_max)
        case Codec.SNAPPY:
            return b"".join(_snappy_blocks(memoryview(data).cast("B"), size_max))
        case Codec.LZ4:
            return _decompress_lz4(data, size_max)
        case Codec.ZSTD:
            return _decompress_zstd(data, size_max)


def decompress_pieces(
    codec: Codec, data: _Bytes, *, size_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[bytes]:
    """Yield what ``decompress`` returns, in pieces of some kilobytes; of snappy in its blocks.

    A stream that is cut short may merely end: whoever counts what should be in it notices.

    Raises:
        CorruptError: this is no stream of this codec.
        UnsupportedError: it holds more than ``size_max`` bytes.
    """
    made = 0
    for piece in _pieces(codec, memoryview(data).cast("B"), size_max):
        made += len(piece)
        if made > size_max:
            raise _too_large(size_max)
        yield piece


def _pieces(codec: Codec, view: memoryview, size_max: int) -> Iterator[bytes]:
    match codec:
        case Codec.NONE:
            return (bytes(one) for one in _cut(view, _PIECE_BYTES))
        case Codec.GZIP:
            return _gzip_pieces(view)
        case Codec.SNAPPY:
            return _snappy_blocks(view, size_max)
        case Codec.LZ4:
            return _lz4_pieces(view)
        case Codec.ZSTD:
            return _zstd_pieces(view)


def window_bytes(codec: Codec, data: _Bytes) -> int:
    """Return how much of what came out a codec holds, to repeat it, beside the newest piece."""
    match codec:
        case Codec.GZIP:
            return _GZIP_WINDOW_BYTES
        case Codec.LZ4:
            return _LZ4_WINDOW_BYTES
        case Codec.ZSTD:
            try:
                return int(zstandard.get_frame_parameters(data).window_size)
            except zstandard.ZstdError:
                return 0  # It is damaged, as whoever reads it will notice.
        case _:
            return 0


def _cut(view: memoryview, size: int) -> Iterator[memoryview]:
    for at in range(0, len(view), size):
        yield view[at : at + size]


def _gzip_pieces(view: memoryview) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP_WBITS)
    try:
        for taken in _cut(view, _TAKEN_BYTES):
            rest: _Bytes = taken
            while rest:
                if member.eof:
                    member = zlib.decompressobj(_GZIP_WBITS)
                yield member.decompress(rest, _PIECE_BYTES)
                rest = member.unused_data if member.eof else member.unconsumed_tail
        while not member.eof and (piece := member.decompress(b"", _PIECE_BYTES)):
            yield piece
    except zlib.error as error:
        raise CorruptError(f"gzip: {error}", at=0) from error


def _lz4_pieces(view: memoryview) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    for taken in _cut(view, _TAKEN_BYTES):
        if frame.eof:
            raise CorruptError("lz4: bytes after the frame", at=0)
        rest: _Bytes = taken
        while True:
            try:
                yield frame.decompress(rest, max_length=_PIECE_BYTES)
            except RuntimeError as error:
                raise CorruptError(f"lz4: {error}", at=0) from error
            if frame.eof or frame.needs_input:
                break
            rest = b""
    if frame.unused_data:
        raise CorruptError("lz4: bytes after the frame", at=0)


def _zstd_pieces(view: memoryview) -> Iterator[bytes]:
    # A frame that says how large it is has a window of that size.
    window = min(window_bytes(Codec.ZSTD, view), DECOMPRESSED_BYTES_MAX)
    codec = zstandard.ZstdDecompressor(max_window_size=max(window, _ZSTD_WINDOW_BYTES_MAX))
    try:
        with codec.stream_reader(view, read_across_frames=True) as frames:
            while piece := frames.read(_PIECE_BYTES):
                yield piece
    except zstandard.ZstdError as error:
        raise CorruptError(f"zstd: {error}", at=0) from error


def _too_large(size_max: int) -> UnsupportedError:
    return UnsupportedError(f"decompresses to more than the limit of {size_max} bytes", at=0)


def _decompress_gzip(data: _Bytes, size_max: int) -> bytes:
    out = bytearray()
    rest: _Bytes = data
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            out += member.decompress(rest, size_max - len(out) + 1)
        except zlib.error as error:
            raise CorruptError(f"gzip: {error}", at=len(data) - len(rest)) from error
        if len(out) > size_max:
            raise _too_large(size_max)
        if not member.eof:
            raise CorruptError("gzip: the stream ends early", at=len(data))
        rest = member.unused_data
        if not rest:
            return bytes(out)


def _decompress_lz4(data: _Bytes, size_max: int) -> bytes:
    try:
        size = lz4.frame.get_frame_info(data)["content_size"]
        if size > size_max:
            raise _too_large(size_max)
        if size > len(data) * _LZ4_RATIO_MAX:  # The library makes room for what it says.
            raise CorruptError(f"lz4: {len(data)} bytes cannot hold {size}", at=0)
        if len(data) * _LZ4_RATIO_MAX <= size_max:
            out, used = lz4.frame.decompress(data, return_bytes_read=True)
            whole = True
        else:
            frame = lz4.frame.LZ4FrameDecompressor()
            out = frame.decompress(data, max_length=size_max + 1)
            used, whole = len(data) - len(frame.unused_data or b""), frame.eof
    except RuntimeError as error:
        raise CorruptError(f"lz4: {error}", at=0) from error
    if len(out) > size_max:
        raise _too_large(size_max)
    if not whole:
        raise CorruptError("lz4: the frame ends early", at=len(data))
    if used != len(data):
        raise CorruptError("lz4: bytes after the frame", at=used)
    return bytes(out)


def _decompress_zstd(data: _Bytes, size_max: int) -> bytes:
    codec = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    try:
        # Of a frame that says that it is empty the library reads nothing more.
        if 0 < zstandard.frame_content_size(data) <= min(size_max, len(data) * _ZSTD_RATIO_FAST):
            return codec.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # Several frames, or damage: the careful way below tells which.
    # The library offers no limit on its output that also notices a frame cut short, so the input
    # goes in by pieces: a piece makes at most some 32 MiB, and after each we look.
    out = bytearray()
    rest = memoryview(data)
    while True:
        frame = codec.decompressobj()
        try:
            while len(rest) and not frame.eof:
                out += frame.decompress(rest[:_ZSTD_PIECE_BYTES])
                rest = rest[_ZSTD_PIECE_BYTES:]
                if len(out) > size_max:
                    raise _too_large(size_max)
        except zstandard.ZstdError as error:
            raise CorruptError(f"zstd: {error}", at=len(data) - len(rest)) from error
        if not frame.eof:
            raise CorruptError("zstd: the frame ends early", at=len(data))
        rest = memoryview(data)[len(data) - len(rest) - len(frame.unused_data) :]
        if not len(rest):
            return bytes(out)


def _snappy_blocks(data: memoryview, size_max: int) -> Iterator[bytes]:
    held = 0
    for at, block in _snappy_frames(data):
        found = _decompress_snappy_block(block, at, held, size_max)
        held += len(found)
        yield found


def _snappy_frames(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the blocks of a stream as they are, and where they stand."""
    if data[:8] != _XERIAL_MAGIC:
        yield 0, data
        return
    at = 0
    while at < len(data):
        # Streams may follow one another: each begins with the header again.
        if data[at : at + 8] == _XERIAL_MAGIC:
            at += _XERIAL_HEADER.size
            if at > len(data):
                raise CorruptError("snappy: the xerial header is cut short", at=len(data))
            continue
        if at + _I32.size > len(data):
            raise CorruptError("snappy: a block length is cut short", at=at)
        (length,) = _I32.unpack_from(data, at)
        at += _I32.size
        if not 0 <= length <= len(data) - at:
            raise CorruptError(f"snappy: a block of {length} bytes, {len(data) - at} left", at=at)
        yield at, data[at : at + length]
        at += length


def _decompress_snappy_block(block: memoryview, at: int, held: int, size_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptError(f"snappy: {len(block)} bytes cannot hold {size}", at=at)
        if held + size > size_max:
            raise _too_large(size_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptError(f"snappy: {error}", at=at) from error


def _compress_xerial(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1))
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        out += _I32.pack(len(block))
        out += block
    return bytes(out)

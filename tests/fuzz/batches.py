"""Record batches, read by the plain codec, and the compression codecs inside them."""

from contextlib import suppress
from functools import partial
from itertools import pairwise

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.records import (
    Batch,
    Codec,
    NewBatch,
    compress,
    decode_batch,
    decompress,
    encode_batch,
    finish,
    without_keys,
)
from lakelog.records.compression import decompress_pieces
from tests.fuzz.reseal import reseal_run
from tests.fuzz.targets import Target

__all__ = ["TARGETS", "plain_outcome"]

DECOMPRESSED_BYTES_MAX = 1 << 16


def plain_outcome(run: bytes) -> tuple[list[Batch], CorruptError | UnsupportedError | None]:
    """What the plain codec reads of a run, and what stopped it."""
    batches: list[Batch] = []
    at = 0
    try:
        while at < len(run):
            batch = decode_batch(run, at, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
            batches.append(batch)
            at += batch.header.size
    except (CorruptError, UnsupportedError) as error:
        return batches, error
    return batches, None


def _record_batch(data: bytes) -> bool:
    """The first byte says whether checksums are made right; the rest is a run of batches."""
    run = reseal_run(data[1:]) if data[:1] == b"\1" else data[1:]
    batches, error = plain_outcome(run)
    if error is None:
        keys = [record.key for batch in batches for record in batch.records]
        missing = [at for at, key in enumerate(keys) if key is None]
        assert finish(without_keys(run, len(keys) + 1)) == missing
    for batch in batches:
        header, records = batch.header, batch.records
        assert len(records) == header.count
        assert all(a.offset < b.offset for a, b in pairwise(records))
        assert all(header.base_offset <= r.offset < header.next_offset for r in records)
        again = NewBatch(
            records=records, base_offset=header.base_offset, next_offset=header.next_offset
        )
        try:
            written = encode_batch(again)
        except InvalidInputError:
            # The one thing that can be read and not written.
            times = [record.timestamp for record in records]
            assert max(times) - min(times) >= 1 << 63, times
        else:
            assert decode_batch(written).records == records
    return error is None and bool(batches)


def _codec(codec: Codec, data: bytes) -> bool:
    """A whole compressed stream."""
    try:
        plain = decompress(codec, data, size_max=DECOMPRESSED_BYTES_MAX)
    except (CorruptError, UnsupportedError):
        with suppress(CorruptError, UnsupportedError):
            for _ in decompress_pieces(codec, data, size_max=DECOMPRESSED_BYTES_MAX):
                pass
        return False
    assert b"".join(decompress_pieces(codec, data, size_max=len(plain))) == plain
    assert len(plain) <= DECOMPRESSED_BYTES_MAX
    assert decompress(codec, data, size_max=len(plain)) == plain
    assert decompress(codec, compress(codec, plain), size_max=len(plain)) == plain
    if plain:
        try:
            decompress(codec, data, size_max=len(plain) - 1)
        except UnsupportedError:
            return True
        raise AssertionError("more came out than was allowed")
    return True


TARGETS: dict[str, Target] = {
    "record-batch": _record_batch,
    **{
        codec.name.lower(): partial(_codec, codec)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    },
}

"""The envelope of a spool: the plain codec against the compiled ones, and every refusal."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, types

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import kernels_spool as k
from lakelog.formats.columns import scan_columns
from lakelog.formats.contract import Files, drive_items
from lakelog.formats.rustlog import (
    FORMAT,
    Envelope,
    LogRecord,
    decode_envelope,
    encode_envelope,
    encode_log,
    encode_records,
    is_envelope,
)
from lakelog.model import Header, Record
from lakelog.records.kernels.checksum import checksum_begin, checksum_by, checksum_end
from lakelog.records.kernels.fields import BAD, DONE
from lakelog.records.kernels.primitives import u8_pointer
from tests.segments import buffers, decode

US = 1_700_000_000_000_000

fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.builds(Header, st.text(max_size=5), fields), max_size=3).map(tuple)
envelopes = st.builds(Envelope, fields, fields, headers)


def log_of(contents: list[Envelope], base: int = 0) -> dict[str, bytes]:
    return encode_log(
        [
            LogRecord(
                offset=base + number,
                timestamp_us=US,
                payload=encode_envelope(*one, offset=base + number, timestamp_us=US),
            )
            for number, one in enumerate(contents)
        ]
    )


def scanned(files: dict[str, bytes], base: int = 0) -> list[dict[str, object]]:
    sizes = {suffix: len(data) for suffix, data in files.items()}
    scan = scan_columns(FORMAT, Files(base_offset=base, sizes=sizes))
    return [row for batch in drive_items(scan, buffers(files)) for row in batch.to_pylist()]


def scan_kernel(log: bytes, *, base: int = 0, raw_end: int = 0) -> tuple[int, list[int]]:
    cursor, index = np.zeros(k.SCAN_WIDTH, np.int64), np.zeros(1 << 16, np.uint8)
    cursor[k.C_OFFSET] = base
    held = pa.py_buffer(log + b"\0")
    status = k.scan_records(held.address, len(log), raw_end, index.ctypes.data, len(index), cursor)
    return status, cursor.tolist()


@given(st.lists(envelopes, max_size=5))
def test_what_is_put_into_envelopes_comes_out_of_every_reader(contents: list[Envelope]) -> None:
    files = log_of(contents)
    walked = decode(FORMAT, files, base_offset=0)
    assert [(one.key, one.value, one.headers) for one in walked] == contents
    rows = scanned(files)
    assert [(row["key"], row["value"]) for row in rows] == [one[:2] for one in contents]
    assert [
        tuple(Header(**one) for one in row["headers"] or ())  # type: ignore[attr-defined]
        for row in rows
    ] == [one.headers for one in contents]
    status, cursor = scan_kernel(files[".log"])
    assert status == DONE
    assert cursor[k.C_AT] == len(files[".log"])
    assert cursor[k.C_OFFSET] == cursor[k.C_NUMBER] == len(contents)


@given(contents=st.lists(envelopes, min_size=1, max_size=3), data=st.data())
def test_every_flipped_bit_of_an_envelope_is_noticed(
    contents: list[Envelope], data: st.DataObject
) -> None:
    log = bytearray(log_of(contents)[".log"])
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] ^= 1 << data.draw(st.integers(0, 7))
    status, cursor = scan_kernel(bytes(log))
    assert status == BAD
    assert cursor[k.C_AT] <= at


@given(contents=st.lists(envelopes, min_size=1, max_size=3), data=st.data())
def test_a_log_cut_anywhere_ends_with_its_last_whole_record(
    contents: list[Envelope], data: st.DataObject
) -> None:
    log = log_of(contents)[".log"]
    ends = [len(log_of(contents[:number])[".log"]) for number in range(len(contents) + 1)]
    cut = data.draw(st.integers(0, len(log)))
    padded = data.draw(st.booleans())
    left = log[:cut].ljust(len(log), b"\0") if padded else log[:cut]
    _, cursor = scan_kernel(left)
    whole = max(end for end in ends if log[:end] == left[:end])
    assert cursor[k.C_AT] == whole


def test_a_raw_payload_is_passed_only_where_raw_ones_may_be() -> None:
    log = encode_log([LogRecord(offset=5, timestamp_us=US, payload=b"raw")])[".log"]
    assert scan_kernel(log, base=5, raw_end=6)[0] == DONE
    assert scan_kernel(log, base=5, raw_end=6)[1][k.C_RAW] == 1
    assert scan_kernel(log, base=5, raw_end=5)[0] == BAD


# ---------------------------------------------------------------------------- refusals


def reseal(payload: bytes) -> bytes:
    """The same payload with a good checksum, for offset 0 and time 0."""
    head = struct.pack(">IQQ", len(payload), 0, 0) + payload[:4]
    return payload[:4] + struct.pack(">I", crc32c(payload[8:], crc32c(head))) + payload[8:]


GOOD = encode_envelope(b"k", b"v", offset=0, timestamp_us=0)


@pytest.mark.parametrize(
    ("payload", "error", "what"),
    [
        (GOOD[:7], CorruptError, "an envelope of 7 bytes"),
        (GOOD[:3] + b"\2" + GOOD[4:], UnsupportedError, "version 2"),
        (GOOD[:-2] + b"x" + GOOD[-1:], CorruptError, "checksum"),
        (reseal(GOOD + b"\0"), CorruptError, "1 bytes behind the headers"),
        (reseal(GOOD[:-1]), CorruptError, "varint"),
        (reseal(GOOD[:8] + b"\x40k"), CorruptError, "a field of 32 bytes"),
    ],
)
def test_what_is_no_envelope_is_refused_by_every_reader(
    payload: bytes, error: type[Exception], what: str
) -> None:
    assert is_envelope(payload)
    with pytest.raises(error, match=what):
        decode_envelope(payload, offset=0, timestamp_us=0)
    log = {".log": struct.pack(">IQQ", len(payload), 0, 0) + payload}
    with pytest.raises(error, match=what):
        decode(FORMAT, log, base_offset=0)
    with pytest.raises(error, match=what):
        scanned(log)
    with pytest.raises(InvalidInputError, match="begins like an envelope"):
        encode_log([LogRecord(offset=0, timestamp_us=0, payload=payload)])


def test_an_envelope_is_good_for_one_offset_and_one_time() -> None:
    assert decode_envelope(GOOD, offset=0, timestamp_us=0) == Envelope(b"k", b"v")
    for offset, timestamp_us in ((1, 0), (0, 1)):
        with pytest.raises(CorruptError, match="checksum"):
            decode_envelope(GOOD, offset=offset, timestamp_us=timestamp_us)


def test_a_value_that_would_be_read_as_an_envelope_is_not_written_raw() -> None:
    record = Record(offset=0, timestamp=0, key=None, value=GOOD)
    with pytest.raises(InvalidInputError, match="would be read as one"):
        encode_records([record])


# ---------------------------------------------------------------------------- the checksum

_by_tables = checksum_by(None)  # type: ignore[no-untyped-call]


@njit
def _tables(address, size):  # type: ignore[no-untyped-def]
    crc = _by_tables(checksum_begin(), u8_pointer(address), types.int64(0), types.int64(size))
    return checksum_end(crc)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 1000])
def test_the_tables_give_what_the_library_gives(size: int) -> None:
    data = bytes(index * 7 % 256 for index in range(size))
    assert _tables(pa.py_buffer(data + b"\0").address, size) == crc32c(data)

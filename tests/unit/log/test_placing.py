"""What readers are given of a run of batches, and what they hold by that."""

import pytest

from lakelog.errors import CorruptError
from lakelog.formats import Bytes
from lakelog.log import place_batches
from lakelog.log.placing import Pieces, share
from lakelog.model import Record
from lakelog.records import NewBatch, decode_header, encode_batch


def one_record(size: int) -> bytes:
    record = Record(offset=0, timestamp=0, key=None, value=bytes(size))
    return encode_batch(NewBatch(records=(record,)))


LARGE, SMALL = one_record(9_000), one_record(9)


def views(pieces: list[Bytes]) -> int:
    return sum(isinstance(one, memoryview) for one in pieces)


def joined(found: Pieces) -> bytes:
    return b"".join(found.pieces)


@pytest.mark.parametrize(
    ("run", "shown"),
    [([LARGE] * 3, 3), ([SMALL] * 50, 0), ([SMALL, LARGE, SMALL, SMALL, LARGE], 2)],
    ids=["large", "small", "both"],
)
def test_pieces_are_the_same_bytes_as_a_copy_and_small_batches_are_few_pieces(
    run: list[bytes], shown: int
) -> None:
    body = b"".join(run)
    found = Pieces(0, 1 << 30)
    found.add(body, 70, 5, where="here")
    assert joined(found) == place_batches(body, 70, 5, where="here")
    assert (found.size_bytes, found.base_offset) == (len(body), 70)
    assert views(found.pieces) == shown
    assert len(found.pieces) <= 2 * shown + 2


def test_what_was_not_asked_for_is_left_out_also_between_two_runs() -> None:
    found = Pieces(101, 2 * len(SMALL) + len(LARGE))
    for base in (100, 103):
        assert not found.is_full
        found.add(SMALL * 3, base, 1, where="here")
    headers, at, data = [], 0, joined(found)
    while at < len(data):
        headers.append(decode_header(data, at))
        at += headers[-1].size
    assert [one.base_offset for one in headers] == list(range(101, 101 + len(headers)))
    assert (found.base_offset, found.next_offset) == (101, headers[-1].next_offset)
    found = Pieces(101, len(SMALL))
    found.add(SMALL * 3, 100, 1, where="here")
    assert (found.is_full, found.base_offset, found.next_offset) == (True, 101, 102)


def test_a_little_of_much_is_copied_and_does_not_hold_the_rest() -> None:
    found = Pieces(9, 1 << 30)
    found.add(LARGE * 10, 0, 1, where="here")
    assert (views(found.pieces), found.size_bytes) == (0, len(LARGE))
    data = bytes(1_000)
    assert type(share(data, 100, 600)) is memoryview
    assert type(share(data, 100, 599)) is bytes


def test_a_batch_that_does_not_match_its_crc_is_not_shown() -> None:
    found = Pieces(0, 1 << 30)
    with pytest.raises(CorruptError, match="CRC"):
        found.add(LARGE[:-1] + b"?", 0, 1, where="here")
    assert found.pieces == []

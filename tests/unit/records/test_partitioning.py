"""Where keys go: the hashes that Kafka's own tests know, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidInputError
from lakelog.records import hash_keys, sort_rows
from tests.murmur2 import murmur2, partition_of

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Signed, as Java has them: from the tests of Kafka's clients."""


@pytest.mark.parametrize(("key", "expected"), KNOWN.items())
def test_the_hash_is_the_one_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % (1 << 32)
    assert hash_keys(pa.array([key], pa.binary())).tolist() == [expected & 0x7FFFFFFF]


def test_a_partition_is_never_negative() -> None:
    assert {partition_of(key, 7) for key in KNOWN} <= set(range(7))
    assert partition_of(b"21", 1) == 0


def test_keys_that_are_not_bytes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cast them to binary"):
        hash_keys(pa.array(["21"]))


def test_no_keys_have_no_hashes() -> None:
    assert hash_keys(pa.array([], pa.binary())).tolist() == []
    assert hash_keys(pa.nulls(3, pa.binary())).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("place", [-1, 2])
def test_a_place_that_there_is_not_is_refused(place: int) -> None:
    with pytest.raises(InvalidInputError, match="partitions from"):
        sort_rows(np.array([0, place, 1], np.int32), 2)

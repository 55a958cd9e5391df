"""Where keys go: ours, plain and compiled, held against the code of the Java producer.

    keys       random bytes of every length from 0 to 300, and some of one byte again and again
    for Java   partitions, length, key      back come the hash, signed, and the partition

A key whose home two clients disagree about is in two partitions, and its order is lost.
"""

import struct
import subprocess
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pyarrow as pa
import pytest

from lakelog.records import hash_keys
from tests.murmur2 import murmur2, partition_of
from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.process import mortal

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "oracle" / "Partitioner.java"
SEED, ROUNDS = 5, 20
LENGTH_MAX, PARTITIONS_MAX = 300, 1000
ASKED, TOLD = struct.Struct(">ii"), struct.Struct(">ii")
POSITIVE = 0x7FFFFFFF


def draw(rng: Random) -> list[tuple[bytes, int]]:
    """Return keys, each with a number of partitions: each number and each length is among them."""
    lengths = [*range(LENGTH_MAX + 1)] * ROUNDS
    # A byte over 127 is negative in Java.
    keys = [rng.randbytes(length) for length in lengths]
    keys += [bytes([byte]) * length for byte in (0, 0x7F, 0x80, 0xFF) for length in range(40)]
    counts = [*range(1, PARTITIONS_MAX + 1)]
    counts += [rng.randint(1, PARTITIONS_MAX) for _ in range(len(keys) - len(counts))]
    rng.shuffle(keys)
    return list(zip(keys, counts, strict=True))


def ask(asked: list[tuple[bytes, int]], home: Path) -> list[tuple[int, int]]:
    """Return the hash and the partition that the Java producer has for each key."""
    keys, told = home / "keys", home / "told"
    keys.write_bytes(b"".join(ASKED.pack(count, len(key)) + key for key, count in asked))
    argv = [java(), *quick_kafka(), "-cp", compiled("partitioner", SOURCE), "Partitioner"]
    done = subprocess.run(
        mortal([*argv, str(keys), str(told)]), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return list(TOLD.iter_unpack(told.read_bytes()))


def test_a_key_is_in_the_partition_that_the_java_producer_chooses_for_it(tmp_path: Path) -> None:
    asked = draw(Random(SEED))
    told = ask(asked, tmp_path)
    assert len(told) == len(asked) >= 5000
    assert any(hash_ < 0 for hash_, _ in told)
    compiled_ = hash_keys(pa.array([key for key, _ in asked], pa.binary())).tolist()
    for (key, count), (hash_, partition), quick in zip(asked, told, compiled_, strict=True):
        assert murmur2(key) == hash_ % (1 << 32), key
        assert quick == hash_ & POSITIVE, key
        assert partition_of(key, count) == quick % count == partition, (key, count)

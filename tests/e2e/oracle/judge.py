"""Random segments, and what Kafka's own storage classes make of them.

A case is a run of batches as brokers store them: all codecs, gaps, times that go up and down, and
in every second case producers with sequences and transactions. Kafka appends it batch by batch, and
separately recovers a copy whose last batch was cut somewhere.
"""

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

from lakelog.formats.batches import frames
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.parts.archives import quick_kafka
from tests.parts.jars import classpath
from tests.parts.jvm import java
from tests.parts.process import mortal

__all__ = ["Case", "draw_case", "judge"]

_SOURCE = Path(__file__).parent / "Judge.java"
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A segment to be."""

    base_offset: int
    interval_bytes: int
    run: bytes
    cut: int
    """Where the copy that is recovered ends: within the last batch."""

    @property
    def whole(self) -> bytes:
        """What is left when a batch that is not whole is taken away."""
        return self.run[: list(frames(self.run))[-1].position]


def draw_case(rng: Random, *, transactions: bool) -> Case:
    """Return a random case."""
    base = rng.choice([0, 5, 10**12])
    log = _Log(rng, base)
    run = b"".join(log.append(transactions) for _ in range(rng.randint(2, 120)))
    last = list(frames(run))[-1].position
    return Case(
        base_offset=base,
        interval_bytes=rng.choice([0, 200, 346, 1000, 4096]),
        run=run,
        cut=rng.randrange(last, len(run)),
    )


@dataclass(slots=True)
class _Log:
    """Where a log in the making stands."""

    rng: Random
    offset: int
    time: int = 25
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Epoch and next sequence, by producer id."""
    open: set[int] = field(default_factory=set)

    def append(self, transactions: bool) -> bytes:
        producer = self.rng.choice([-1, 3, 7, 1000]) if transactions else -1
        if producer in self.open and self.rng.random() < 0.4:
            return self._marker(producer)
        return self._data(producer, gaps=not transactions)

    def _marker(self, producer: int) -> bytes:
        self.open.discard(producer)
        epoch, sequence = self.sequences[producer]
        if self.rng.random() < 0.5:
            epoch, sequence = epoch + 1, 0
        self.sequences[producer] = epoch, sequence
        marker = Record(
            offset=self.offset,
            timestamp=self.time,
            key=_MARKER_KEY.pack(0, self.rng.randrange(2)),
            value=_MARKER_VALUE.pack(0, self.rng.randint(3, 4)),
        )
        self.offset += 1
        return encode_batch(
            NewBatch(
                records=[marker],
                is_control=True,
                is_transactional=True,
                producer_id=producer,
                producer_epoch=epoch,
            )
        )

    def _data(self, producer: int, *, gaps: bool) -> bytes:
        self.offset += self.rng.choice([0, 0, 0, 1, 50])
        records = []
        for _ in range(self.rng.randint(1, 5)):
            time = self.time + self.rng.randint(-20, 30)
            value = bytes(self.rng.randrange(200))
            records.append(Record(offset=self.offset, timestamp=time, key=None, value=value))
            self.offset += self.rng.choice([1, 1, 1, 2]) if gaps else 1
        self.offset = records[-1].offset + 1
        self.time += self.rng.randint(-2, 8)
        epoch, sequence = self.sequences.get(producer, (0, 0)) if producer >= 0 else (-1, -1)
        if producer >= 0:
            self.sequences[producer] = epoch, sequence + len(records)
            if self.rng.random() < 0.6:
                self.open.add(producer)
        return encode_batch(
            NewBatch(
                records=records,
                codec=self.rng.choice(list(Codec)),
                leader_epoch=2,
                is_transactional=producer in self.open,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )


def judge(cases: Sequence[Case], home: Path) -> list[Path]:
    """Let Kafka have the cases; return the folder of each."""
    folders = []
    argv = [java(), *quick_kafka(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    argv += ["-cp", classpath(), str(_SOURCE)]
    for number, case in enumerate(cases):
        folder = home / str(number)
        (folder / "appended").mkdir(parents=True)
        (folder / "recovered").mkdir()
        (folder / "run").write_bytes(case.run)
        log = folder / "recovered" / f"{case.base_offset:020}.log"
        log.write_bytes(case.run[: case.cut])
        argv += [str(folder), str(case.base_offset), str(case.interval_bytes)]
        folders.append(folder)
    done = subprocess.run(mortal(argv), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folders

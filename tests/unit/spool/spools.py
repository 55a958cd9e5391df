"""Spools for tests: on a simulated disk, or in a folder, with a clock that is set by hand."""

from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any

from lakelog.spool import Spool, SpoolSettings, open_with
from lakelog.store import LINUX, System
from lakelog.testing.disk import SimulatedDisk

__all__ = ["NOON_US", "Clock", "simulated_disk", "spool_in", "spool_on", "values"]

NOON_US = 1_700_000_000_000_000
ROOT = "/spool"


class Clock:
    """Microseconds, set by hand."""

    def __init__(self) -> None:
        self.now_us = NOON_US

    def __call__(self) -> int:
        return self.now_us

    def pass_ms(self, ms: int) -> None:
        self.now_us += ms * 1000


def spool_in(
    folder: Path, clock: Clock | None = None, system: System = LINUX, **settings: Any
) -> Spool:
    """Open a spool in a real folder, without its thread."""
    ids = iter(bytes([number]) * 16 for number in range(1, 200))
    return open_with(
        str(folder),
        SpoolSettings(**settings),
        system=system,
        ids=lambda: next(ids),
        clock_us=clock or Clock(),
    )


def simulated_disk(seed: int = 0, **settings: Any) -> SimulatedDisk:
    return SimulatedDisk(Random(seed), scattered=True, **settings)


def spool_on(disk: SimulatedDisk, clock: Clock | None = None, **settings: Any) -> Spool:
    """Open a spool on a simulated disk, in a process of its own."""
    return spool_in(Path(ROOT), clock, system=disk.process(), **settings)


def values(spool: Spool, topic: str = "t", partition: int = 0, offset: int = 0) -> list[bytes]:
    """The values of a partition, as the spool's own reader has them."""
    found = spool.reader.records(topic, partition, offset=offset)
    return [bytes(record.value or b"") for record in found]

"""Writers of a spool that are killed, and whose disk loses its power: what was told is there.

``LAKELOG_SPOOL_KILLS`` and ``LAKELOG_SPOOL_CUTS`` say how often; ``make spool`` does it 200 and 100
times. Records are numbers that count up, so that order, content and completeness are one look.
"""

import os
import resource
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.spool import open as open_spool
from lakelog.spool import open_reader
from tests.e2e.spool.children import TOPIC, Child, writer
from tests.parts.forgetful_fs import forgetful_fs

KILLS = int(os.environ.get("LAKELOG_SPOOL_KILLS", "8"))  # noqa: TID251
CUTS = int(os.environ.get("LAKELOG_SPOOL_CUTS", "3"))  # noqa: TID251
PARTITIONS = int(os.environ.get("LAKELOG_SPOOL_PARTITIONS", "400"))  # noqa: TID251

pytestmark = pytest.mark.timeout(300 + 10 * (KILLS + CUTS))


def read_numbers(folder: Path) -> list[int]:
    return [int(one.value or b"-1") for one in open_reader(str(folder)).records(TOPIC)]


def test_what_was_told_survives_every_kill(tmp_path: Path) -> None:
    draw, told = Random(KILLS), 0
    for kill in range(KILLS):
        child = writer(tmp_path, draw.choice(["every-write", "records=50", "ms=5", "never"]))
        ends = child.told(draw.uniform(0.01, 0.3)) + child.kill()
        told = max([told, *ends])
        numbers = read_numbers(tmp_path)
        assert numbers == list(range(len(numbers))), kill
        assert len(numbers) >= told, (kill, len(numbers), told)
    with open_spool(str(tmp_path)) as spool:
        assert spool.log(TOPIC).end >= told > 0


def test_what_was_told_survives_every_power_cut() -> None:
    draw, told = Random(CUTS), 0
    with forgetful_fs(seed=CUTS, scattered=True) as disk:
        folder = disk.folder / "spool"
        for cut in range(CUTS):
            child = writer(folder, "every-write")
            ends = child.told(draw.uniform(0.3, 1.5)) + child.kill()
            told = max([told, *ends])
            disk.cut_power()
            with open_spool(str(folder)) as spool:
                assert spool.log(TOPIC).end >= told, cut
            numbers = read_numbers(folder)
            assert numbers == list(range(len(numbers))), cut
        assert told > 0


def test_many_partitions_of_one_folder_need_few_files_and_little_memory(tmp_path: Path) -> None:
    """In a process that may have 256 files open; it tells its memory in mebibytes."""

    def act(tell) -> None:  # type: ignore[no-untyped-def]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        with open_spool(str(tmp_path), sync="never") as spool:
            spool.append(TOPIC, b"x")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for turn in range(2):
                for partition in range(PARTITIONS):
                    assert spool.append(TOPIC, b"v", partition=partition) == turn + (not partition)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            tell((after - before) // 1024)

    child = Child(act)
    (grown,) = child.told(60 + PARTITIONS / 20)
    assert child.join() == 0
    print(f"\n{PARTITIONS} partitions: {grown} MiB")  # noqa: T201
    assert grown < 256
    assert len(open_reader(str(tmp_path)).partitions()) == PARTITIONS

"""Brokers of the last release and of this version serve one namespace at the same time.

    last, then this beside it, then this alone        an upgrade
    this, then last beside it, then last alone        an upgrade that is taken back

0.1.0 knows of no other broker: beside another one it names itself leader of everything, and the
groups belong to whoever was started last. So clients may be sent to and fro while both are there,
and see errors of groups; but nothing is lost, doubled or moved, no commit goes back, and whoever
stays serves everybody.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakelog
from release.versions import previous
from tests.cluster.gaps import until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, loaded
from tests.cluster.story import new_namespace
from tests.e2e.upgrade.released import environment_of
from tests.parts.lakelog import Lakelog
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

pytestmark = pytest.mark.seaweedfs

TOGETHER_S = 8.0
SERVED_S = 90.0
"""A broker that has gone without a word is missed after a minute at most."""


@dataclass(frozen=True)
class Both:
    """Two brokers on one storage."""

    first: Lakelog
    second: Lakelog

    @property
    def bootstrap(self) -> str:
        return f"{self.first.bootstrap},{self.second.bootstrap}"

    @property
    def storage(self) -> str:
        return self.first.storage

    @property
    def options(self) -> dict[str, str]:
        return self.first.options


@contextmanager
def both(seaweedfs: SeaweedFS, home: Path, versions: list[str]) -> Iterator[Both]:
    """Two brokers, of which the first one runs."""
    url = new_namespace(seaweedfs)
    brokers: list[Lakelog] = []
    with ExitStack() as stack:
        for version in versions:
            folder = home / version
            folder.mkdir()
            env = {} if version == lakelog.__version__ else environment_of(version)
            arguments = ("--init", "--no-keep", "--flush-interval-ms", "50")
            brokers.append(Lakelog(folder, url, seaweedfs.options, arguments, env))
            stack.callback(brokers[-1].kill)
        brokers[0].start()
        yield Both(*brokers)


@pytest.mark.parametrize("order", [1, -1], ids=["up", "down"])
def test_two_versions_serve_side_by_side_and_nothing_is_lost(
    seaweedfs: SeaweedFS, tmp_path: Path, order: int
) -> None:
    last = previous()
    assert last is not None, "release/versions.toml names no release before this version"
    versions = [last, lakelog.__version__][::order]
    with (
        both(seaweedfs, tmp_path, versions) as brokers,
        loaded(brokers, tmp_path, kinds=["rdkafka"]) as load,
    ):
        brokers.second.start()
        load.wait_until(lambda: False, TOGETHER_S)
        brokers.first.stop()
        since = Diary.now()

        def is_served() -> bool:
            waited = until_served(load.history, since, range(PARTITIONS))
            commits = [one for one in load.history.commits if one.begun > since]
            return max(waited) < float("inf") and bool(commits)

        in_time(load.wait_until(is_served, SERVED_S), f"{versions[1]} does not serve alone")
        found = load.finish(Diary.now())
        assert not found, found.shown()

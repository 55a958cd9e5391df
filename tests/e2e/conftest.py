"""What several end-to-end tests share and takes long to make, and which of them run side by side.

``make e2e`` runs three processes beside each other, because most of these tests wait most of the
time. Tests of one group run in one process, one after another: those of a module, which share what
the module has made, and modules that share something bigger. Each process starts the parts that
its groups ask for. Groups that take long begin first, so that no process ends long after the
others. A test that measures time is marked ``alone``, and runs when the others have ended.

Where a hundred rows of a table say the same of a hundred inputs, CI takes some: of a test marked
``sample(n)`` n rows run, chosen by ``LAKELOG_SAMPLE``, which ``make e2e`` sets to a number that
differs from commit to commit. Without it all of them run: ``make e2e-all``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.e2e.oracle.story import Story, tell_story

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SHARED = {
    "test_kafka_oracle.py": "story",
    "test_kafka_pipeline.py": "story",
    "test_repacking.py": "story",
    "test_dump.py": "story",
}
"""Modules that share what one of them would have to make alone otherwise."""

LONG = (
    "story", "test_import.py", "test_pipeline.py", "test_spark_write.py",
    "test_spark_live_contract.py", "test_upkeep.py", "test_spark_live_streams.py",
    "tools/test_kafka_tools.py", "clients/test_clients.py", "compat/test_compat.py",
    "test_spark_exactly_once.py", "test_spark_cluster.py", "test_fsck.py", "test_copy.py",
    "around/test_streams.py", "around/test_connect.py",
)  # fmt: skip
"""Groups that take a minute and more, the longest first."""


class _Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a group to a process as a whole, in the order of the list of tests."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(Path(nodeid.split("::")[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Groups:
    """Let groups stay together.

    xdist has marks for it, which it writes into the ids of tests, where pytest does not look any
    more.
    """
    return _Groups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long groups first, and take samples."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(_group(item.path), len(LONG)))
    if seed := os.environ.get("LAKELOG_SAMPLE"):  # noqa: TID251
        left = _left_out(items, seed)
        items[:] = [item for item in items if item.nodeid not in left]
        config.hook.pytest_deselected(items=list(left.values()))


def _left_out(items: list[pytest.Item], seed: str) -> dict[str, pytest.Item]:
    """Return the rows that are not in the samples of this seed, by their ids."""
    rows: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        for marker in item.iter_markers("sample"):
            rows.setdefault((item.nodeid.split("[")[0], marker.args[0]), []).append(item)
    left: dict[str, pytest.Item] = {}
    for (name, count), some in rows.items():
        some.sort(key=lambda item: item.nodeid)
        Random(f"{seed} {name}").shuffle(some)
        left |= {item.nodeid: item for item in some[count:]}
    return left


def _group(path: Path) -> str:
    path = ROOT / path
    if not path.is_relative_to(HERE):
        return path.parent.name
    name = path.relative_to(HERE).as_posix()
    return SHARED.get(name, name)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A real Kafka, and its directories at several times of its life."""
    with tell_story(tmp_path_factory.mktemp("story")) as told:
        yield told

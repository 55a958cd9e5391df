"""What several end-to-end tests share and takes long to make, and which of them run side by side.

``make e2e`` runs four processes beside each other, because these tests wait for much of their time.
Tests of one group run in one process, one after another: those of a module, which share what the
module has made, and modules that share something bigger. Each process starts the parts that its
groups ask for. Groups that take long begin first, so that no process ends long after the others. A
test that measures time is marked ``alone``, and runs when the others have ended.

Where a hundred rows of a table say the same of a hundred inputs, CI takes some: of a test marked
``sample(n)`` n rows run, chosen by ``LAKELOG_SAMPLE``, which ``make e2e`` sets to a number that
differs from commit to commit. Stories that take long and stand for themselves take turns likewise:
``TURNS`` says how many of which run. Without that number all of them run: ``make e2e-all``.
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
    "secure/test_secure.py": "secure",
    "secure/test_tokens.py": "secure",
    "secure/test_certificates.py": "secure",
}
"""Modules that share what one of them would have to make alone otherwise."""

LONG = (
    "story", "test_import.py", "test_pipeline.py", "test_spark_write.py",
    "test_spark_live_contract.py", "test_upkeep.py", "test_spark_live_streams.py",
    "test_copy.py", "test_spark_exactly_once.py", "compat/test_compat.py", "test_spark_cluster.py",
    "tools/test_kafka_tools.py", "clients/test_clients.py", "test_spark_write_example.py",
    "around/test_connect.py", "upgrade/test_upgrade.py", "broker/test_durability.py",
    "test_power_cuts.py", "cluster/test_cluster.py", "cluster/test_workers.py",
    "cluster/test_etcd.py", "chaos/test_chaos.py",
    "test_upkeep_indexes.py", "around/test_streams.py", "test_fsck.py",
    "test_spark_live_example.py", "test_spark_read_connect.py",
    "clients/test_consumer_protocol.py", "packages/test_packages.py",
)  # fmt: skip
"""Groups that take a minute and more, the longest first."""


_WORK = "test_pipeline.py::test_"
_STREAMS = "test_spark_live_streams.py::test_a_stream_"

TURNS: dict[str, tuple[int, tuple[str, ...]]] = {
    "examples": (
        2,
        (
            "test_examples.py::test_sql_on_a_dead_brokers_disk",
            "test_examples.py::test_an_audit_names_what_is_damaged",
            "test_examples.py::test_a_topic_is_archived_and_restored",
            "test_examples.py::test_duckdb_and_polars_read_the_stream",
            "test_examples.py::test_duckdb_and_polars_read_the_live_log",
            "test_spark_live_example.py",
            "test_spark_write_example.py",
        ),
    ),
    "what runs around Kafka": (
        2,
        (
            "around/test_apache_tools.py",
            "around/test_connect.py::test_a_file_is_carried_by_a_process_alone",
            "around/test_connect.py::test_a_file_is_carried_by_a_cluster_that_is_killed_on_the_way",
            "around/test_offsets_topic.py",
            "around/test_streams.py",
        ),
    ),
    "the pipeline by its commands": (
        3,
        (
            f"{_WORK}verify_finds_damage_reports_it_and_says_so_by_its_exit_code",
            f"{_WORK}the_audit_of_the_how_to_finds_what_spark_has_sealed",
            f"{_WORK}what_has_no_checksum_ends_as_unverifiable",
            f"{_WORK}spark_submit_runs_the_same_verbs",
            f"{_WORK}doctor_finds_nothing_wrong_here",
            f"{_WORK}doctor_finds_a_broken_neighbour_and_a_store_out_of_reach",
            f"{_WORK}a_bucket_is_converted_verified_and_read",
        ),
    ),
    "the pipeline on a cluster": (
        1,
        (
            f"{_WORK}a_conversion_that_loses_a_worker_ends_right",
            f"{_WORK}a_conversion_whose_driver_dies_is_completed_by_the_next",
        ),
    ),
    "import": (
        1,
        (
            "test_import.py::test_verify_finds_every_record_and_a_byte_that_is_wrong",
            "test_import.py::test_what_was_brought_while_kafka_ran_is_completed_when_it_has_stopped",
            "test_import.py::test_the_directories_of_several_brokers_are_one_log",
            "test_import.py::test_partitions_that_are_missing_are_refused_or_empty",
        ),
    ),
    "Spark Connect": (
        1,
        (
            "test_spark_read_connect.py",
            "test_spark_write.py::test_a_client_of_spark_connect_writes_batches_and_streams",
        ),
    ),
    "upkeep on Spark": (
        3,
        (
            "test_copy.py",
            "test_crowded.py",
            "test_upkeep.py::test_a_keeper_stands_back_while_a_pipeline_claims_the_namespace",
            "test_upkeep.py::test_one_log_under_maintenance",
            "test_upkeep_indexes.py",
        ),
    ),
    "streams while brokers die": (
        1,
        (
            "test_spark_live_story.py",
            f"{_STREAMS}misses_nothing_and_repeats_nothing_while_brokers_die_and_keepers_seal",
        ),
    ),
}
"""Of each row so many run with a commit; what is behind a name is a module, or one of its tests."""


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
        left = _left_out(items, seed) | _not_in_turn(items, seed)
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


def _not_in_turn(items: list[pytest.Item], seed: str) -> dict[str, pytest.Item]:
    """Return the tests of stories that others are told instead of, by their ids."""
    waiting: set[str] = set()
    for name, (count, stories) in TURNS.items():
        some = list(stories)
        Random(f"{seed} {name}").shuffle(some)
        waiting |= set(some[count:])
    left: dict[str, pytest.Item] = {}
    for item in items:
        module = _group(item.path)
        function = item.nodeid.split("::")[-1].split("[")[0]
        if waiting & {module, f"{module}::{function}"}:
            left[item.nodeid] = item
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

"""The last release and this version take turns on one namespace, under load, in both orders.

    broker     last -> this -> last -> this        stopped in good order, and killed
    readers    Spark of both, each time            producers and a group all the while

Nothing is lost, doubled or out of order, whoever acknowledged it and whoever reads it; and each of
them seals what the other has appended.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import lakelog
from release.versions import previous
from tests.e2e.broker.traffic import Sender, Watcher, create_topic, sending
from tests.e2e.broker.truth import check_acked, check_everything
from tests.e2e.upgrade.reader import reading
from tests.e2e.upgrade.released import environment_of
from tests.parts.lakelog import running_lakelog
from tests.parts.process import mortal
from tests.patience import in_time

PRODUCERS, PARTITIONS, RATE = 2, 4, 600
TURN_RECORDS, RECORDS_MAX = 2_000, 200_000
PATIENCE_S = 60.0

THIS = lakelog.__version__


@pytest.fixture(scope="module")
def environments() -> dict[str, dict[str, str]]:
    """By version: the last release, and this one."""
    last = previous()
    assert last is not None, "release/versions.toml names no release before this version"
    return {last: environment_of(last), THIS: {}}


def segments(place: Path) -> int:
    return sum(1 for _ in place.glob("t*/*/*.kfs"))


def test_brokers_and_readers_of_two_versions_take_turns_and_nothing_is_lost(
    tmp_path: Path, environments: dict[str, dict[str, str]]
) -> None:
    place = tmp_path / "log"
    last, this = environments
    with ExitStack() as stack:
        arguments = ("--init", "--keep-every", "1", "--flush-interval-ms", "50")
        broker = stack.enter_context(
            running_lakelog(f"file://{place}", arguments=arguments, env=environments[last])
        )
        create_topic(broker.bootstrap, "t", PARTITIONS)
        readers = {
            version: stack.enter_context(reading(broker.storage, "t", env))
            for version, env in environments.items()
        }
        watcher = Watcher(broker.bootstrap, "t", "watchers")
        stack.callback(watcher.stop)
        senders = [
            Sender(
                number, broker.bootstrap, "t", partitions=PARTITIONS, records=RECORDS_MAX,
                rate=RATE / PRODUCERS,
            )
            for number in range(PRODUCERS)
        ]  # fmt: skip
        with sending(senders):
            for turn, version in enumerate([last, this, last, this]):
                if turn:
                    broker.kill() if turn % 2 else broker.stop()
                    broker.env = environments[version]
                    broker.start()
                sealed, acked = segments(place), sum(one.acked for one in senders)
                end = time.monotonic() + PATIENCE_S
                while (
                    sum(one.acked for one in senders) < acked + TURN_RECORDS
                    or segments(place) == sealed
                ):
                    in_time(time.monotonic() < end, f"{version} does not append or seal")
                    time.sleep(0.05)  # noqa: TID251 (for other threads)
                for name, reader in readers.items():
                    told = [one.so_far() for one in senders]
                    read_by, log = reader.read()
                    assert read_by == name
                    assert check_acked(log, told) > acked
            for one in senders:
                one.finish()
        check_everything(broker.bootstrap, broker.storage, {}, "t", senders, watcher)


@pytest.mark.parametrize("which", [0, 1], ids=["last", "this"])
def test_what_a_version_does_not_know_it_leaves_as_it_is(
    tmp_path: Path, environments: dict[str, dict[str, str]], which: int
) -> None:
    """A field in the cell of a topic, as a version to come may write it."""
    version = list(environments)[which]
    url = f"file://{tmp_path}/log"

    def do(*words: str) -> "subprocess.CompletedProcess[str]":
        argv = mortal([sys.executable, "-m", "lakelog", *words])
        env = {**os.environ, **environments[version]}  # noqa: TID251 (a child inherits)
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S)

    assert do("--version").stdout == f"lakelog, version {version}\n"
    assert do("init", url).returncode == 0
    for name in ("later", "known"):
        assert do("topic", "create", name, "--storage", url).returncode == 0
    (cell,) = (tmp_path / "log" / "_lakelog" / "topics").glob("later*")
    fields = json.loads(cell.read_text())
    cell.write_text(json.dumps({**fields, "tier": "cold"}))
    before = cell.read_bytes()

    refused = do("topic", "describe", "later", "--storage", url)
    assert refused.returncode != 0
    assert "tier" in refused.stderr
    do("topic", "delete", "later", "--storage", url)
    do("keep", url)
    assert cell.read_bytes() == before
    assert do("topic", "describe", "known", "--storage", url).returncode == 0

"""The example of the live log does what its page says."""

from pathlib import Path

import pytest

from tests.e2e.test_examples import run

pytestmark = pytest.mark.spark


def test_a_backfill_and_a_windowed_stream(tmp_path: Path) -> None:
    assert run("log_in_a_folder.py", tmp_path / "log").returncode == 0
    done = run("live_log.py", tmp_path / "log", "greetings", tmp_path / "checkpoint")
    assert done.returncode == 0, done.stderr
    assert "|        0|      1|          0|" in done.stdout
    assert done.stdout.count("|1    |") == 2, "a count for each partition"

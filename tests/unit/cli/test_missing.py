"""Commands that need Spark, or Java, say so where it is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.host import install_command
from tests.unit.pipeline.home import Home


@pytest.mark.parametrize(
    "command", [["doctor", "spark"], ["pipeline", "verify", ".", "--layout", "kafka", "--dry-run"]]
)
def test_what_is_missing_is_told_with_how_to_get_it(command: list[str]) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; "
        f"from lakelog.cli import main; main({command!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"pyarrow is not installed: {install_command('spark')}" in done.stderr


@pytest.mark.parametrize("home", [None, "/no/such/java"])
def test_without_java_a_run_says_what_to_install(tmp_path: Path, home: str | None) -> None:
    log = Home(tmp_path / "log")
    log.fill(log.topic(), 1)
    command = ["pipeline", "seal", log.url, "--now"]
    # The variables of this machine but those by which Java is found.
    code = (
        "import os; "
        "os.environ.pop('JAVA_HOME', None); os.environ['PATH'] = '/no/such/folder'; "
        f"home = {home!r}; home and os.environ.update(JAVA_HOME=home); "
        f"from lakelog.cli import main; main({command!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: no Java for Spark here")
    assert line.endswith("install a JDK 17 or later, or set JAVA_HOME to one")

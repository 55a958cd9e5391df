"""Commands that need Spark say so where it is not installed."""

import subprocess
import sys

import pytest


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
    assert "pyarrow is missing here: pip install 'lakelog[spark]'" in done.stderr

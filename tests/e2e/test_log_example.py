"""The example of a log without a broker does what it says."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/log_in_a_folder.py"


def test_a_log_in_a_folder(tmp_path: Path) -> None:
    argv = [sys.executable, str(EXAMPLE), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "from the journal: [[b'hello'], [b'world']]" in done.stdout
    assert "from history:     [[b'hello'], [b'world']]" in done.stdout
    assert "sealed 2 segments" in done.stdout
    assert len(list(tmp_path.rglob("*.kfs"))) == 2

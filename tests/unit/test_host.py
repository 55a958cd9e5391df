"""What a process asks of its machine."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog import host

PIECES, PIECE_BYTES = 10, 20 << 20

ANSWERS = f"""
import sys
from pathlib import Path
from pathlib import Path
from lakelog.host import tune_process

def rss():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))

if sys.argv[1] == "tuned":
    tune_process()
before, large, small = rss(), [], []
bytearray({PIECE_BYTES})
for _ in range({PIECES}):
    large.append(b"x" * {PIECE_BYTES})
    small.append(b"x" * 100_000)
large.clear()
print(rss() - before)
"""
"""Large pieces of memory come and go, and small ones that were made in between stay."""


def test_a_server_gives_memory_back_that_large_answers_have_had() -> None:
    def kept_bytes(how: str) -> int:
        program = [sys.executable, "-c", ANSWERS, how]
        return int(subprocess.run(program, capture_output=True, text=True, check=True).stdout)

    assert kept_bytes("tuned") < 2 * PIECE_BYTES
    # Where this does not hold, the C library needs no tuning, and that is to be taken out.
    assert kept_bytes("as it is") > PIECES * PIECE_BYTES // 2


def test_a_server_may_have_as_many_open_files_as_the_system_lets_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        assert host.open_files_max() == 200
        host._raise_open_files()
        hard = before[1]
        all_of_them = host.OPEN_FILES if hard == resource.RLIM_INFINITY else hard
        assert host.open_files_max() == min(all_of_them, host.OPEN_FILES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (None, "pip install 'lakelog[server]'"),
        ({"url": "file:///a%20b/lakelog", "dir_info": {}}, "pip install '/a b/lakelog[server]'"),
        (
            {"url": "file:///d/lakelog-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install '/d/lakelog-0.1.0-py3-none-any.whl[server]'",
        ),
        ({"url": Path.cwd().as_uri(), "dir_info": {"editable": True}}, "pip install '.[server]'"),
        ({"url": "https://index.example/lakelog.whl"}, "pip install 'lakelog[server]'"),
    ],
)
def test_a_hint_names_what_the_package_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, object] | None, command: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(said) if said else None

    monkeypatch.setattr(host, "distribution", lambda _: Installed())
    assert host.install_command("server") == command

"""The front door: light, and in step with its table."""

import subprocess
import sys

import pytest

from lakelog import __version__
from lakelog.cli.commands import COMMANDS
from tests.unit.cli.making import run


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from lakelog.cli import main; main(['--help'], standalone_mode=False); "
        "sys.exit(any(m.startswith(('lakelog.formats', 'lakelog.records')) for m in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_begins_like_its_line(name: str) -> None:
    result = run(name, "--help")

    assert result.exit_code == 0
    assert COMMANDS[name].summary.split()[0] in result.stdout
    assert COMMANDS[name].summary in run("--help").stdout


def test_the_version_is_told() -> None:
    assert run("--version").stdout == f"lakelog, version {__version__}\n"


def test_an_unknown_command_is_a_wrong_call() -> None:
    assert run("explode").exit_code == 2

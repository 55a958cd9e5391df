"""The first screen of the README, typed as it stands there.

A network and a /tmp of its own: so port 9092 is free, and /tmp/lake is new. The first line, which
makes the environment, has been typed before: it needs the network.
"""

import re
import subprocess
from pathlib import Path

from tests.parts.process import mortal

__all__ = ["first_screen", "type_commands"]

_HEADING = "## Five commands"
_PROMPT = "$ "
_LISTENS = "until (: >/dev/tcp/127.0.0.1/9092) 2>/dev/null; do sleep 0.1; done"
"""Whoever types sees the broker's line before the next one."""


def first_screen(readme: str) -> tuple[list[str], str]:
    """Return the commands of the block, and what they print."""
    block = re.search(r"```console\n(.*?)```", readme.partition(_HEADING)[2], re.S)
    assert block is not None
    lines = block[1].splitlines()
    commands = [one.removeprefix(_PROMPT) for one in lines if one.startswith(_PROMPT)]
    return commands, "\n".join(one for one in lines if not one.startswith(_PROMPT)) + "\n"


def type_commands(commands: list[str], cwd: Path, within_s: float) -> str:
    """Return what they print, one after another, as a terminal shows it."""
    program = "set -e; ip link set lo up; mount -t tmpfs tmpfs /tmp"
    for command in commands:
        program += f"\n{command}\n{_LISTENS if command.endswith('&') else ''}"
    (cwd / "typed").write_text(program)
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # The first process is a shell: a terminal that hangs up would end it.
    terminal = "script --quiet --return --command 'bash typed' /dev/null; exit $?"
    done = subprocess.run(
        mortal([*apart, "bash", "-c", terminal]),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout

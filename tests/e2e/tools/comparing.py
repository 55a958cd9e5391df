"""One command line for Apache's tool and for ours, and what of the outcome may differ.

A command that changes something is run on twins, whose names differ in two letters: ``TWIN`` is
twAa for Apache and twBB for us. Those two have the same hash in Java, so tables that are printed in
the order of a hash map come in the same order.

What may differ is only this: stack frames and lines of a log, which are not text of a tool; the
order of words that Java takes from an immutable set, which is another one in every JVM; and the
list of options behind a complaint, of which ours has no descriptions.
"""

import re
import shlex
from difflib import unified_diff
from functools import partial
from importlib import import_module
from io import BytesIO

from lakelog.cli.commands import KAFKA_TOOLS
from lakelog_kafka_tools.grammar import TITLE
from lakelog_kafka_tools.running import Console, run_tool
from tests.e2e.tools.apache import Apache
from tests.parts.process import Finished

__all__ = ["APACHES", "OURS", "Both", "run_ours"]

_FRAMES = re.compile(r"^\tat [^\n]*\n|^\t\.\.\. \d+ more\n", re.MULTILINE)
_USAGE = re.compile(
    rf"^(?:Option +Description +\n|{re.escape(TITLE)}\n).*", re.MULTILINE | re.DOTALL
)
_LOGGED = re.compile(r"^\[\d{4}-\d\d-\d\d [^\n]*\n", re.MULTILINE)
_UNORDERED = re.compile(
    r"(?<=takes one of these options: )[^\n]*|(?<=takes the following options: )[^\n]*"
    r"|(?<=Valid states are: )[^\n]*|(?<=Valid types are: )[^\n]*"
    r"|(?<=following scenarios: \[)[^\n]*(?=\])|(?<=Option combination \"\[)[^\"]*(?=\]\")"
)
APACHES, OURS = "twAa", "twBB"


def run_ours(tool: str, *arguments: str, stdin: str = "") -> Finished:
    """Run one of our tools in this process."""
    run = import_module(KAFKA_TOOLS[tool].module).run
    if tool == "kafka-console-producer":
        run = partial(run, stdin=BytesIO(stdin.encode()))
    out, err = BytesIO(), BytesIO()
    code = run_tool(run, arguments, Console(out, err))
    return Finished(code, out.getvalue().decode(), err.getvalue().decode())


class Both:
    """Runs command lines with both."""

    def __init__(self, apache: Apache, bootstrap: str) -> None:
        self._apache = apache
        self._bootstrap = bootstrap

    def compare(self, line: str) -> Finished:
        """Run a line with both, and return what both said, by the name of the twin.

        ``AT`` is the address of the cluster; what follows ``<<<`` is stdin, with escapes.
        """
        command, _, given = line.partition(" <<< ")
        stdin = given.encode().decode("unicode_escape")
        words = shlex.split(command.replace("AT ", f"--bootstrap-server {self._bootstrap} "))
        theirs = [word.replace("TWIN", APACHES) for word in words]
        ours = [word.replace("TWIN", OURS) for word in words]
        # Without twins both look at the same, and see the twins of others by their names.
        twins = (APACHES, OURS) if theirs != ours else ("", "")
        expected = _named(self._apache.run(*theirs, stdin=stdin), twins[0])
        found = _named(run_ours(*ours, stdin=stdin), twins[1])
        differences = unified_diff(_told(expected), _told(found), "Apache's", "ours", n=0)
        assert found == expected, "\n".join([line, *differences])
        return found

    def story(self, text: str) -> list[Finished]:
        """Run the lines of a text one after the other."""
        lines = (line.strip() for line in text.splitlines())
        return [self.compare(line) for line in lines if line]


def _named(done: Finished, twin: str) -> Finished:
    err = _USAGE.sub("", _LOGGED.sub("", _FRAMES.sub("", done.stderr)))
    err = _UNORDERED.sub(_sorted, err)
    if not twin:
        return Finished(done.rc, done.stdout, err)
    return Finished(done.rc, done.stdout.replace(twin, "TWIN"), err.replace(twin, "TWIN"))


def _told(done: Finished) -> list[str]:
    return [f"ends with {done.rc}", *done.stdout.splitlines(), "", *done.stderr.splitlines()]


def _sorted(found: re.Match[str]) -> str:
    return ", ".join(sorted(found[0].split(", ")))

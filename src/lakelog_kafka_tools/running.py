"""How a tool is run: arguments in, two streams and an exit code out.

    parse -> help or version? -> the tool's own checks -> its work -> text

A tool is a function of its arguments, a console, and whatever opens a connection; it ends by
returning, or by ``Console.exit`` from anywhere. The checks of command lines, and the messages
when they fail, are the same for all of Apache's tools.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import BinaryIO, NoReturn

from click.exceptions import Exit

from lakelog.errors import LakelogError
from lakelog.host import install_command
from lakelog_kafka_tools.grammar import Options, Usage, parse, read_usage
from lakelog_kafka_tools.thrown import Thrown

__all__ = [
    "KAFKA_VERSION",
    "Console",
    "check_invalid",
    "check_one_of",
    "check_required",
    "run_tool",
    "start",
]

KAFKA_VERSION = "4.3.1"
"""The release of Apache Kafka whose tools these are like."""


class Console:
    """Where a tool writes."""

    def __init__(self, out: BinaryIO, err: BinaryIO) -> None:
        self._out = out
        self._err = err

    def write(self, data: bytes) -> None:
        """Write bytes to stdout."""
        self._out.write(data)

    def say(self, text: str = "") -> None:
        """Write a line to stdout."""
        self.put(f"{text}\n")

    def put(self, text: str) -> None:
        """Write a text to stdout."""
        self._out.write(text.encode("utf-8", "surrogateescape"))

    def say_error(self, text: str, end: str = "\n") -> None:
        """Write a line to stderr."""
        self._out.flush()
        self._err.write(f"{text}{end}".encode("utf-8", "surrogateescape"))
        self._err.flush()

    def log(self, level: str, text: str) -> None:
        """Write to stderr what Apache's tools would have logged, as their log looks."""
        now = datetime.now().astimezone()
        self.say_error(f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}] {level} {text}")

    def warn(self, text: str) -> None:
        """Write a warning to stderr."""
        self.log("WARN", text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._out.flush()

    def exit(self, code: int) -> NoReturn:
        """End the tool."""
        raise Exit(code)

    def usage(self, usage: Usage, message: str) -> NoReturn:
        """End the tool with a message and the list of its options."""
        self.say_error(f"{message}\n{usage.text}", end="")
        self.exit(1)

    def uncaught(self, thrown: Thrown) -> NoReturn:
        """End the tool as an uncaught exception ends a JVM."""
        self.say_error(f'Exception in thread "main" {thrown.trace()}', end="")
        self.exit(1)


def start(
    tool: str,
    arguments: Sequence[str],
    console: Console,
    about: str,
    *,
    empty: str | None = None,
    usage_if_misread: bool = False,
) -> Options:
    """Read a command line, and do what every tool does: show its help or its version.

    ``about`` stands above the usage, ``empty`` instead of it when there are no arguments.

    Raises:
        Thrown: the line cannot be read, and ``usage_if_misread`` does not ask for the usage then.
    """
    usage = read_usage(tool)
    try:
        options = parse(usage, arguments)
    except Thrown as thrown:
        if not usage_if_misread:
            raise
        console.usage(usage, thrown.message)
    if options.is_empty or options.has("help"):
        console.usage(usage, empty if empty and options.is_empty else about)
    if options.has("version"):
        console.say(KAFKA_VERSION)
        console.exit(0)
    return options


def check_required(options: Options, console: Console, *names: str) -> None:
    """End the tool if an option is missing."""
    for name in names:
        if not options.has(name):
            console.usage(options.usage, f'Missing required argument "[{name}]"')


def check_invalid(options: Options, console: Console, used: str, *others: str) -> None:
    """End the tool if an option is given that cannot be used with another one."""
    if options.has(used):
        for other in others:
            if options.has(other):
                console.usage(
                    options.usage, f'Option "[{used}]" can\'t be used with option "[{other}]"'
                )


def check_one_of(options: Options, console: Console, *names: str) -> None:
    """End the tool if not exactly one of some options is given."""
    if sum(options.has(name) for name in names) != 1:
        listed = ", ".join(f"[{name}]" for name in names)
        console.usage(
            options.usage, f"Exactly one of the following arguments is required: {listed}"
        )


def run_tool(
    tool: Callable[[Sequence[str], Console], int | None],
    arguments: Sequence[str],
    console: Console | None = None,
) -> int:
    """Run a tool, on this process' streams unless a console is given; return its exit code."""
    if console is None:
        console = Console(sys.stdout.buffer, sys.stderr.buffer)
    try:
        code = tool(arguments, console) or 0
        console.flush()
    except Exit as ended:
        code = ended.exit_code
        with suppress(BrokenPipeError):
            console.flush()
    except Thrown as thrown:
        with suppress(Exit):
            console.uncaught(thrown)
        code = 1
    except ImportError as error:
        console.say_error(f"lakelog: {error.name} is not installed: {install_command('tools')}")
        code = 1
    except LakelogError as error:
        console.say_error(f"lakelog: {error}")
        code = 1
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = 130
    return code

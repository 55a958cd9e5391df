"""Structured logs on stderr: lines for people, or JSON for machines.

A log is read with tools and on terminals, and clients choose many of the words in it. So every text
is cut at 256 characters, and what a terminal would obey is escaped.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from lakelog.cli.tables import plain

__all__ = ["FORMATS", "make_log", "make_relay"]

FORMATS = ("text", "json")
INFO, WARNING = 20, 30


def make_log(
    format_: str, stream: TextIO | None = None, *, quiet: bool = False
) -> FilteringBoundLogger:
    """Return a log in one of the ``FORMATS``; a quiet one has only what is wrong."""
    out = stream or sys.stderr
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _clean,
            *_last(format_, out),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(WARNING if quiet else INFO),
        cache_logger_on_first_use=True,
    )
    return log


def make_relay(format_: str, stream: TextIO | None = None) -> Callable[[int, str], None]:
    """Return what writes a line of a worker's log, which is JSON, into the one log of all.

    A line that is none comes from an interpreter or a library that ends. It is told as what it is,
    so that every line of the one log is in its format and says whose it is.
    """
    out, log = stream or sys.stderr, make_log(format_, stream)
    render = _last(format_, out)[-1]

    def relay(worker: int, line: str) -> None:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if isinstance(fields, dict) and "event" in fields:
            out.write(f"{render(None, '', {**fields, 'worker': worker})!s}\n")
            out.flush()
        elif line.strip():
            log.warning("a worker wrote", worker=worker, line=line)

    return relay


def _last(format_: str, out: TextIO) -> list[Processor]:
    """Return the last steps of a log: fields become a line."""
    if format_ == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    text = structlog.dev.ConsoleRenderer(
        colors=out.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
    )
    return [text]


def _clean(_: Any, __: str, fields: EventDict) -> EventDict:
    """Cut and escape every text, names included."""
    return {
        plain(name): plain(value) if isinstance(value, str) else _shown(value)
        for name, value in fields.items()
    }


def _shown(value: Any) -> Any:
    """Return numbers and what belongs to an exception as they are, else their text."""
    if value is None or isinstance(value, bool | int | float | BaseException | tuple):
        return value
    return plain(str(value))

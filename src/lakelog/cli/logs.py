"""Structured logs on stderr: lines for people, or JSON for machines.

A log is read with tools and on terminals, and clients choose many of the words in it. So every text
is cut at 256 characters, and what a terminal would obey is escaped.
"""

import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from lakelog.cli.tables import plain

__all__ = ["FORMATS", "make_log"]

FORMATS = ("text", "json")
INFO, WARNING = 20, 30


def make_log(
    format_: str, stream: TextIO | None = None, *, quiet: bool = False
) -> FilteringBoundLogger:
    """Return a log in one of the ``FORMATS``; a quiet one has only what is wrong."""
    out = stream or sys.stderr
    last: list[Processor] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    ]
    if format_ == "text":
        last = [
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(),
                pad_event_to=0,
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _clean,
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(WARNING if quiet else INFO),
        cache_logger_on_first_use=True,
    )
    return log


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

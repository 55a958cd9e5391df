"""Of this machine: its clocks, unique bytes, the tuning of a process, what is installed."""

import gc
import json
import os
import resource
import signal
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from lakelog.ports import Host

__all__ = [
    "EXIT_INTERRUPTED",
    "THIS_HOST",
    "SystemClock",
    "die_with_parent",
    "install_command",
    "leave_process",
    "new_id",
    "open_files_max",
    "tune_process",
]

EXIT_INTERRUPTED = 130
"""The exit code of what Ctrl-C has ended, by the convention of shells: 128 and SIGINT."""

OPEN_FILES = 1 << 20
"""As many as a process ever needs: some systems allow more than they can count."""

LARGE_PIECE_BYTES = 2 << 20
"""Larger than what most requests are read into: what is the system's has to be made clean first."""
HEAPS_MAX = 4

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of malloc.h."""
_PR_SET_PDEATHSIG = 1
"""Of sys/prctl.h."""


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        """Milliseconds since this machine booted, the time it was suspended included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def new_id() -> bytes:
    """Return sixteen bytes from the kernel. Never all zeros, which means none."""
    return os.urandom(15) + b"\x01"


THIS_HOST = Host(SystemClock(), new_id)
"""What front ends hand to everything below them."""


def tune_process() -> None:
    """Let the interpreter suit a process that serves others.

    Cycles are rare in it and objects many: the collector looks at few at a time, because each takes
    it a microsecond and nothing else runs meanwhile; at all of them seldom; and never at what was
    there at the start. Threads that wait for files get their turn ten times as soon as they would:
    a put makes a dozen calls, and after each it waits for the loop to let it go on. And it may have
    as many open files as the system lets it: every connection is one. Memory that large requests
    and answers have had goes back to the system.
    """
    _raise_open_files()
    _return_memory()
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 5, 50)
    sys.setswitchinterval(0.0005)


def _return_memory() -> None:
    """Let large pieces of memory be the system's again as soon as nobody needs them.

    When such a piece is freed, the C library of Linux takes it that such sizes are usual, and puts
    the next ones among the small ones. There they leave holes that cannot be returned: a process
    that answered a few large requests at once would keep hundreds of megabytes for good. And it
    keeps such a heap for each of many threads.
    """
    import ctypes  # Few processes need it.

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_PIECE_BYTES)
        mallopt(_M_ARENA_MAX, HEAPS_MAX)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the one that started it is gone, however it ends."""
    import ctypes  # Few processes need it.

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # It went before the kernel was told.
        os._exit(1)


def leave_process(code: int) -> NoReturn:
    """End this process now, and do not take the interpreter apart.

    For a process whose event loop has used a remote store: the threads of obstore still let go of
    what they held for the loop when the loop is gone, and one that wants the interpreter while it
    is being taken apart aborts the process, whose exit code is then that of SIGABRT.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def install_command(extra: str) -> str:
    """Return what to type for an extra of this package that is missing.

    It names what this one was installed from: a checkout or a file, if it was none of an index.
    """
    try:
        said = json.loads(distribution("lakelog").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        said = {}
    url = urlsplit(said.get("url", ""))
    source = "lakelog"
    if url.scheme == "file":
        source = unquote(url.path)
        source = "." if Path(source) == Path.cwd() else source
    return f"pip install '{source}[{extra}]'"


def open_files_max() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if soft == resource.RLIM_INFINITY else min(soft, OPEN_FILES)


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

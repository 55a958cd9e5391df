"""What a store of files asks of the kernel, as one object, so that a test can be the kernel.

``LINUX`` is the real one. ``lakelog.testing.disk`` is another, in memory, that loses what was not
synced when its power is cut.

A failed fsync ends the process. Linux reports it once; the next fsync succeeds although the pages
or names of the first were never written, and so nothing that this process was told about the disk
can be believed any more. No caller can repair that, and none is asked to.
"""

import fcntl
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, Protocol

__all__ = ["LINUX", "Entry", "Status", "System", "sync"]

EXIT_STATUS = os.EX_IOERR
"""How a process ends whose disk failed: 74."""


class Status(Protocol):
    """What ``stat`` says of a file, as far as a store looks at it."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...


class Entry(Protocol):
    """One name in a folder."""

    @property
    def name(self) -> str: ...
    def is_dir(self, *, follow_symlinks: bool) -> bool: ...
    def is_file(self, *, follow_symlinks: bool) -> bool: ...


class System(Protocol):
    """The system calls, as ``os`` and ``fcntl`` offer them."""

    def open(
        self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int: ...
    def close(self, fd: int, /) -> None: ...
    def fstat(self, fd: int, /) -> Status: ...
    def stat(self, path: str, *, dir_fd: int | None, follow_symlinks: bool) -> Status: ...
    def pread(self, fd: int, length: int, offset: int, /) -> bytes: ...
    def writev(self, fd: int, buffers: Sequence[memoryview], /) -> int: ...
    def pwrite(self, fd: int, data: memoryview, offset: int, /) -> int: ...
    def ftruncate(self, fd: int, length: int, /) -> None: ...
    def fsync(self, fd: int, /) -> None: ...
    def map(self, fd: int, length: int, *, ahead: bool = False) -> memoryview:
        """Return the first bytes of a file as they are in the page cache, to be read.

        ``ahead``: all of them will be. To be given pages at once is cheaper than one by one.
        """
        ...

    def fchmod(self, fd: int, mode: int, /) -> None: ...
    def utime(self, path: int, *, ns: tuple[int, int]) -> None: ...
    def flock(self, fd: int, operation: int, /) -> None: ...
    def link(
        self, src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool
    ) -> None: ...
    def rename(self, src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None: ...
    def unlink(self, path: str, *, dir_fd: int) -> None: ...
    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None: ...
    def scandir(self, path: int, /) -> AbstractContextManager[Iterator[Entry]]: ...
    def now_ns(self) -> int: ...
    def end(self, sentence: str) -> NoReturn:
        """End this process at once, and say why."""
        ...


class _Linux:
    open = staticmethod(os.open)
    close = staticmethod(os.close)
    fstat = staticmethod(os.fstat)
    stat = staticmethod(os.stat)
    pread = staticmethod(os.pread)
    writev = staticmethod(os.writev)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    fchmod = staticmethod(os.fchmod)
    utime = staticmethod(os.utime)
    flock = staticmethod(fcntl.flock)
    link = staticmethod(os.link)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    now_ns = staticmethod(time.time_ns)

    @staticmethod
    def map(fd: int, length: int, *, ahead: bool = False) -> memoryview:
        if not length:
            return memoryview(b"")
        flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if ahead else 0)
        # Its memory is let go when nobody has a view of it any more.
        return memoryview(mmap.mmap(fd, length, flags=flags, prot=mmap.PROT_READ))

    @staticmethod
    def scandir(path: int, /) -> AbstractContextManager[Iterator[Entry]]:
        return os.scandir(path)

    @staticmethod
    def end(sentence: str) -> NoReturn:
        # From any thread, and without what usually runs at an exit: that might write more.
        os.write(2, f"{sentence}\n".encode(errors="replace"))
        os._exit(EXIT_STATUS)


LINUX: System = _Linux()


def sync(system: System, handle: int, path: str) -> None:
    """Make a file's bytes, or a folder's names, durable; ``path`` is what to call it.

    Returns only if they are: a process whose fsync failed ends here.
    """
    try:
        system.fsync(handle)
    except OSError as error:
        system.end(
            f"lakelog: fsync of {path} failed: {error.strerror}. This process ends now, with "
            f"status {EXIT_STATUS}, because the kernel reports a failed fsync only once: the next "
            "one would succeed although the data is not on the disk. What was being written was "
            "not acknowledged. Check the disk and the kernel's log before you start again."
        )

"""The disk of an ephemeral broker: it syncs nothing, and may be full.

What a power cut would leave of a folder that is about to be removed interests nobody, and a sync is
most of what a put costs. Everything else is done by the kernel.
"""

import errno
import os
from typing import Any, cast

from lakelog.store import LINUX, System

__all__ = ["EphemeralDisk"]


class EphemeralDisk:
    """The system calls of a store of files."""

    is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(LINUX, name)

    def as_system(self) -> System:
        """Return it by the name that stores know it by."""
        return cast("System", self)

    def fsync(self, fd: int, /) -> None:
        """Nothing is synced."""

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            self._take_room()
        return LINUX.open(path, flags, mode, dir_fd=dir_fd)

    def writev(self, fd: int, buffers: Any, /) -> int:
        self._take_room()
        return LINUX.writev(fd, buffers)

    def pwrite(self, fd: int, data: memoryview, offset: int, /) -> int:
        self._take_room()
        return LINUX.pwrite(fd, data, offset)

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._take_room()
        LINUX.mkdir(path, mode, dir_fd=dir_fd)

    def _take_room(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

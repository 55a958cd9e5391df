"""The folder of a spool on its disk: what is asked of the kernel, a few steps at a time.

    replace   written aside, synced, renamed: a file is the old one or the new one, and whole
    sync      a file's bytes, or a folder's names; neither makes the other durable

**A failed fsync ends the writer.** Linux reports it once; the next fsync would succeed although
bytes are missing. A store of files ends its process then. A spool lives in somebody's process, so
it raises, and takes nothing more until it is opened again: recovery writes anew what nobody can
vouch for.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from lakelog.errors import (
    ConflictError,
    FullError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from lakelog.formats import rustlog
from lakelog.store import Folders, System

__all__ = ["Disk", "named_folder"]

_READ = os.O_RDONLY | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ASIDE = ".tmp"
"""Behind the names of files that are not yet what they will be."""


class _Raising:
    """A kernel whose failed fsync does not end the process."""

    def __init__(self, system: System) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def end(self, sentence: str) -> NoReturn:
        what = sentence.partition(". This process")[0].removeprefix("lakelog: ")
        raise UnavailableError(
            f"{what}. It is not known what of the last records is on the disk; this spool takes no "
            "more: check the disk and the kernel's log, then open the spool again"
        )


def named_folder(topic: str, partition: int) -> str:
    """Return the folder of a partition, as ``Disk`` takes it.

    Raises:
        InvalidInputError: a topic that cannot be the name of a folder.
    """
    if partition < 0:
        raise InvalidInputError(f"partition {partition}: use 0 or more")
    return rustlog.partition_path(topic, partition) + "/"


class Disk:
    """One folder of spools. Folders are named from it: ``""`` is itself, ``topics/`` is below."""

    def __init__(self, root: str, system: System) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 (a link as root stays what it is)
        self.system = system
        self._folders = Folders(self.root, cast("System", _Raising(system)))

    def make(self, folder: str) -> None:
        """Make a folder, so that it survives a power cut."""
        with self.explained(folder):
            self._folders.make(folder)

    def sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable."""
        with self._folders.open(folder) as handle:
            self._folders.sync(folder, handle)

    def sync(self, handle: int, path: str) -> None:
        """Make the bytes of a file durable.

        Raises:
            UnavailableError: nobody knows whether they are.
        """
        try:
            self.system.fsync(handle)
        except OSError as error:
            _Raising(self.system).end(f"lakelog: fsync of {path} failed: {error.strerror}")

    # ------------------------------------------------------------------------ files

    def open(self, folder: str, name: str, *, write: bool = False, create: bool = False) -> int:
        """Open a file: to read it, to append to it, or to be its first writer."""
        flags = _APPEND if write else _READ
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        with self._folders.open(folder) as above:
            return self.system.open(name, flags, 0o644, dir_fd=above)

    def open_in_place(self, folder: str, name: str) -> int:
        """Open a file to write at positions that it has: Linux appends to others anywhere."""
        with self._folders.open(folder) as above:
            return self.system.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=above)

    @contextlib.contextmanager
    def opened(self, folder: str, name: str, *, write: bool = False) -> Iterator[int]:
        """Open a file, and close it afterwards."""
        handle = self.open(folder, name, write=write)
        try:
            yield handle
        finally:
            self.system.close(handle)

    def view(
        self, folder: str, name: str, size: int | None = None, *, ahead: bool = False
    ) -> memoryview:
        """Return the first bytes of a file, mapped; all that are there, if no size is given.

        ``ahead``: all of it will be read.
        """
        with self.opened(folder, name) as handle:
            found = self.system.fstat(handle).st_size
            size = found if size is None else min(size, found)
            return self.system.map(handle, size, ahead=ahead)

    def read(self, folder: str, name: str, bytes_max: int) -> bytes | None:
        """Return a small file; None: there is none.

        Raises:
            InvalidInputError: it is too large to be what it should be.
        """
        try:
            with self.opened(folder, name) as handle:
                data = self.system.pread(handle, bytes_max + 1, 0)
        except FileNotFoundError:
            return None
        if len(data) > bytes_max:
            raise InvalidInputError(
                f"{self.path(folder, name)} has more than {bytes_max} bytes, and is no file of a "
                "spool: move it away"
            )
        return data

    def replace(self, folder: str, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a file as a whole. Without ``durable`` its name becomes so with the next sync."""
        with self._folders.open(folder) as above:
            system, aside = self.system, name + ASIDE
            with contextlib.suppress(FileNotFoundError):
                system.unlink(aside, dir_fd=above)
            handle = system.open(
                aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=above
            )
            try:
                self.write(handle, data)
                self.sync(handle, self.path(folder, aside))
            finally:
                system.close(handle)
            system.rename(aside, name, src_dir_fd=above, dst_dir_fd=above)
            if durable:
                self._folders.sync(folder, above)

    def write(self, handle: int, data: bytes | memoryview) -> None:
        """Write all of some bytes behind what a file has."""
        rest = memoryview(data)
        while len(rest):
            written = self.system.writev(handle, [rest])
            if not written:
                raise OSError(errno.EIO, "nothing was written")
            rest = rest[written:]

    def rename(self, folder: str, name: str, to: str) -> None:
        with self._folders.open(folder) as above:
            self.system.rename(name, to, src_dir_fd=above, dst_dir_fd=above)

    def unlink(self, folder: str, *names: str) -> None:
        """Remove files, in this order; those that are not there are gone already."""
        with self._folders.open(folder) as above:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self.system.unlink(name, dir_fd=above)

    def files(self, folder: str) -> dict[str, int]:
        """Return the sizes of the files in a folder, by name; none if there is no such folder."""
        try:
            with self._folders.open(folder) as handle:
                with self.system.scandir(handle) as entries:
                    names = [
                        entry.name for entry in entries if entry.is_file(follow_symlinks=False)
                    ]
                return {
                    name: self.system.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                    for name in names
                }
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder."""
        try:
            with self._folders.open(folder) as handle, self.system.scandir(handle) as entries:
                return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def number(self, folder: str, name: str) -> int:
        """Return by which number the file system knows a file."""
        with self.opened(folder, name) as handle:
            return self.system.fstat(handle).st_ino

    def partitions(self) -> list[tuple[str, int]]:
        """Return the topics and partitions that have a folder."""
        found = [
            (topic, int(partition))
            for topic in self.folders("topics/")
            for partition in self.folders(f"topics/{topic}/partitions/")
            if partition.isascii() and partition.isdigit() and str(int(partition)) == partition
        ]
        return sorted(found)

    # ------------------------------------------------------------------------ locks

    def lock(self, name: str, taken: str) -> int:
        """Take a lock for as long as the handle that is returned is open.

        Raises:
            ConflictError: somebody has it; ``taken`` says what to do.
        """
        with self._folders.open("") as above:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            handle = self.system.open(name, flags, 0o644, dir_fd=above)
        try:
            self.system.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.system.close(handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise ConflictError(f"{self.root}: {taken}") from error
        return handle

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock that others hold for moments only."""
        with self._folders.open("") as above:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            handle = self.system.open(name, flags, 0o644, dir_fd=above)
        try:
            self.system.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            self.system.close(handle)

    # ------------------------------------------------------------------------ words

    def path(self, folder: str, name: str) -> str:
        return f"{self.root}/{folder}{name}"

    def refusal(self, error: OSError) -> FullError | UnavailableError:
        """Return what a caller is told: that there is no room, or that the disk failed."""
        if error.errno in _FULL:
            return FullError(
                f"{self.root}: {error.strerror}: nothing was written; ship and delete what is "
                "there (lakelog spool ship), or give the disk more room"
            )
        return self.failure(error)

    def failure(self, error: OSError) -> UnavailableError:
        """Return what a caller is told when this spool takes no more."""
        return UnavailableError(
            f"{self.root}: {error.strerror}: this spool takes no more records; check the disk, "
            "then open it again"
        )

    @contextlib.contextmanager
    def explained(self, folder: str) -> Iterator[None]:
        """Turn what the kernel refuses into what a caller can do about it."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotFoundError(f"{self.root}/{folder}: there is no such folder") from error
        except (PermissionError, NotADirectoryError) as error:
            raise InvalidInputError(
                f"{self.root}/{folder}: {error.strerror}: give this user a folder of its own"
            ) from error

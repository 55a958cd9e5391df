"""Folders of a local store: opened without following links, listed in the order of keys.

A folder is opened one segment at a time, each below the last, and no link is followed: nothing a
key says leads out of the root, even while somebody swaps folders for links. A link is therefore
neither a folder nor an object. (The root itself may be one.)

The order of keys is not the order of names in a folder. ``a-b`` comes before ``a/x``, because
``-`` comes before ``/``, so folders are sorted with their slash:

    names in the folder   a      a-b   a.txt        (a is a folder)
    sorted for keys       a-b    a.txt a/

A page of a listing reads only the folders it touches, but has to read such a folder whole, since
the file system keeps no order. With a million files in one folder every page would sort a million
names. So the sorted names of a folder at which a page was cut are kept for the page after it, as
long as the folder has not changed: the time of its last change is the same, and was already past
when the names were read. A folder that is being written to is simply read again.
"""

import contextlib
import errno
import os
import stat
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from lakelog.names import STAGING
from lakelog.store.keys import KEY_BYTES_MAX, is_name
from lakelog.store.operations import ObjectInfo
from lakelog.store.system import LINUX, Status, System, sync

__all__ = ["MISSING", "NOT_DURABLE", "READ", "Folders", "describe", "split_key"]

MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
"""What the kernel says when a path leads to no file of ours: nothing there, a link, a socket."""

NOT_DURABLE = stat.S_ISVTX
"""The bit of a file whose name may not be durable yet: see ``drafts``."""

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""How a file is opened: no link is followed, and nobody waits for a pipe."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_MAX = 64
_SETTLED_NS = 2_000_000_000
"""File systems stamp changes with a clock that ticks coarsely; two seconds are more than any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    stamp: tuple[int, int]
    names: list[str]


class Folders:
    """The folders below one root."""

    def __init__(self, root: str, system: System = LINUX) -> None:
        self.root = root
        self._system = system
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Names] = OrderedDict()
        self._durable: set[str] = set()

    @contextlib.contextmanager
    def open(self, folder: str) -> Iterator[int]:
        """Open a folder, ``""`` or ``a/b/``, and close it afterwards.

        Raises:
            OSError: it is not there, or not a folder.
        """
        system = self._system
        handle = system.open(self.root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for segment in folder.split("/")[:-1]:
                below = system.open(segment, _FOLDER, dir_fd=handle)
                system.close(handle)
                handle = below
            yield handle
        finally:
            system.close(handle)

    def sync(self, folder: str, handle: int) -> None:
        """Make the names in an open folder durable."""
        sync(self._system, handle, f"{self.root}/{folder}")

    def make_durable(self, folder: str, above: int, handle: int, status: Status) -> None:
        """Make the name of an open file durable, if it may not be yet, and note that on the file.

        If this cannot be noted, or the note is lost, the next who finds the file syncs once more.
        """
        if status.st_mode & NOT_DURABLE:
            self.sync(folder, above)
            with contextlib.suppress(OSError):  # Of another user, say.
                self._system.fchmod(handle, stat.S_IMODE(status.st_mode) & ~NOT_DURABLE)

    def make(self, folder: str) -> None:
        """Make a folder where there is none, so that it survives a crash.

        A folder is durable when the one above it was synced. It may have been made by a process
        that died before that, so the first use by this process syncs, whoever made it.
        """
        if folder in self._durable:
            return
        if not folder:
            self._make_root(self.root)
            self._sync_above_root()
        else:
            above, name = split_key(folder[:-1])
            self.make(above)
            with self.open(above) as handle:
                with contextlib.suppress(FileExistsError):
                    self._system.mkdir(name, dir_fd=handle)
                self.sync(above, handle)
        if len(self._durable) >= 100_000:
            self._durable.clear()
        self._durable.add(folder)

    def _make_root(self, path: str) -> None:
        try:
            self._system.mkdir(path)
        except FileExistsError:
            pass
        except FileNotFoundError:
            self._make_root(os.path.dirname(path))  # noqa: PTH120 (handles and bytes, not Paths)
            self._make_root(path)

    def _sync_above_root(self) -> None:
        """Sync every folder that leads to the root, as far up as the file system goes.

        Those that were there before may be as new as the root: somebody has just made them for it.
        """
        system = self._system
        handle = system.open(self.root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            here = system.fstat(handle)
            while True:
                try:
                    above = system.open("..", _FOLDER, dir_fd=handle)
                except PermissionError:
                    return  # Somebody else's, and so made by somebody else.
                system.close(handle)
                handle, below = above, here
                here = system.fstat(handle)
                if here.st_dev != below.st_dev or here.st_ino == below.st_ino:
                    return  # Another file system, or there is nothing above.
                sync(system, handle, f"a folder above {self.root}")
        finally:
            system.close(handle)

    def walk(self, folder: str, after: str) -> Generator[ObjectInfo, None, None]:
        """Yield the objects below ``folder`` whose key is behind ``after``, in order."""
        if after > folder and not after.startswith(folder):
            return
        with contextlib.ExitStack() as closing:
            try:
                handle = closing.enter_context(self.open(folder))
            except OSError as error:
                if error.errno in MISSING:
                    return
                raise
            names = self._names(folder, handle)
            rest = after[len(folder) :] if after.startswith(folder) else ""
            at = bisect_right(names, rest)
            if at and names[at - 1].endswith("/") and rest.startswith(names[at - 1]):
                at -= 1  # ``after`` is inside this folder, and not everything in it is behind it.
            for index in range(at, len(names)):
                key = folder + names[index]
                if len(key.encode()) > KEY_BYTES_MAX:
                    continue
                if key.endswith("/"):
                    yield from self.walk(key, after)
                elif info := self._info(key, names[index], folder, handle):
                    yield info
        # Walked to its end: nobody will ask where to go on.
        with self._lock:
            self._kept.pop(folder, None)

    def _names(self, folder: str, handle: int) -> list[str]:
        """Return the names in a folder, sorted for keys; those of folders end in a slash."""
        read_ns = self._system.now_ns()
        status = self._system.fstat(handle)
        stamp = status.st_ino, status.st_mtime_ns
        with self._lock:
            kept = self._kept.get(folder)
        if kept is not None and kept.stamp == stamp:
            return kept.names
        names = sorted(self._scan(handle, top=not folder))
        with self._lock:
            self._kept.pop(folder, None)
            if read_ns - status.st_mtime_ns > _SETTLED_NS:
                self._kept[folder] = _Names(stamp=stamp, names=names)
            while len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        return names

    def _scan(self, handle: int, *, top: bool) -> Iterator[str]:
        with self._system.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if not is_name(name) or (top and name == STAGING):
                    continue  # No key leads there, so it is not an object of ours.
                if entry.is_dir(follow_symlinks=False):
                    yield name + "/"
                elif entry.is_file(follow_symlinks=False):
                    yield name

    def _info(self, key: str, name: str, folder: str, handle: int) -> ObjectInfo | None:
        try:
            status = self._system.stat(name, dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            return None  # Deleted since its name was read.
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_mode & NOT_DURABLE:
            try:
                found = self._system.open(name, READ, dir_fd=handle)
            except FileNotFoundError:
                return None
            except PermissionError:
                self.sync(folder, handle)
                return describe(key, status)
            try:
                status = self._system.fstat(found)
                self.make_durable(folder, handle, found, status)
            finally:
                self._system.close(found)
        return describe(key, status)


def describe(key: str, status: Status) -> ObjectInfo:
    """Return what a file says of the object in it."""
    return ObjectInfo(
        key=key,
        size=status.st_size,
        etag=f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}",
        modified_ms=status.st_mtime_ns // 1_000_000,
    )


def split_key(key: str) -> tuple[str, str]:
    """Return the folder of a key, ``""`` or ``a/b/``, and the name in it."""
    above, slash, name = key.rpartition("/")
    return above + slash, name

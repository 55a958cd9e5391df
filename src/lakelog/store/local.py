"""A store in a folder: an object is a file, and its key the path to it.

    root/lanes/0001/00000000000000000007.bundle     the object of that key
    root/.lakelog-staging/                          bodies that are not objects yet: ``drafts``

Put if absent writes the body aside, syncs it, and links it to its name. ``link`` refuses a name
that is taken, so there is one winner among all processes, and an object is whole from the moment
it is there. Put if match has no such system call: it compares and renames under a lock on a file,
which every process on the machine respects, and which the kernel drops when a process dies.

Whatever this store says of an object would also be true after a power cut. A name is there for all
processes from the moment it is linked, but on the disk only when its folder was synced; between the
two its writer may be slow, or dead. The file is marked meanwhile, and whoever finds a marked file,
by a read, a listing, or a put that comes too late, syncs the folder before saying so. Only that
something is *not* there is said without a sync, unless the question was a Delete.

An etag is the number of the file, its time and its size. A replacement is always younger than what
it replaces, by a nanosecond if need be, so that no etag comes back.

Two keys of which one is a folder of the other (``a`` and ``a/b``) cannot both be objects here.
"""

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError, UnavailableError
from lakelog.store.drafts import Drafts
from lakelog.store.folders import MISSING, READ, Folders, describe, split_key
from lakelog.store.operations import (
    Changed,
    Created,
    Delete,
    Exists,
    Fetched,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
    Replaced,
    no_transactions,
)
from lakelog.store.pieces import byte_range, check_size
from lakelog.store.system import LINUX, Status, System

__all__ = ["LocalStore"]


_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalStore:
    """Objects in the files below ``root``, which is made when the first object is."""

    def __init__(self, root: str, system: System = LINUX) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 (a link as root stays what it is)
        self.url = f"file://{self.root}"
        self._system = system
        self._folders = Folders(self.root, system)
        self._drafts = Drafts(self._folders, system)

    def __reduce__(self) -> tuple[object, ...]:
        return (LocalStore, (self.root,))

    def perform(self, op: Op) -> Any:
        """Perform one operation."""
        try:
            match op:
                case ListPage():
                    return self._list(op)
                case Head():
                    with self._open(op.key) as (_, status):
                        return describe(op.key, status)
                case Get() | GetRange() | GetSuffix():
                    return self._fetch(op)
                case PutIfAbsent():
                    return self._put_if_absent(op)
                case PutIfMatch():
                    return self._put_if_match(op)
                case PutTogether():
                    raise no_transactions(self.url)
                case Delete():
                    return self._delete(op)
        except OSError as error:
            raise self._explained(error, op) from error

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation in a thread, since files have no other way of not blocking."""
        return await asyncio.to_thread(self.perform, op)

    # ------------------------------------------------------------------------ reads

    def _list(self, op: ListPage) -> Page:
        with self._folders.open(""):
            pass  # A folder without objects is an empty listing; a missing root is a mistake.
        with contextlib.closing(self._folders.walk(op.prefix, op.after)) as walk:
            objects = tuple(islice(walk, op.limit))
        return Page(objects=objects, more=len(objects) == op.limit)

    @contextlib.contextmanager
    def _open(self, key: str) -> Iterator[tuple[int, Status]]:
        """Open an object whose name is durable, or is made so first."""
        folder, name = split_key(key)
        system = self._system
        with self._folders.open(folder) as above:
            handle = system.open(name, READ, dir_fd=above)
            try:
                status = system.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError(errno.ENOENT, "not a file", key)
                self._folders.make_durable(folder, above, handle, status)
            except BaseException:
                system.close(handle)
                raise
        try:
            yield handle, status
        finally:
            system.close(handle)

    def _fetch(self, op: Get | GetRange | GetSuffix) -> Fetched:
        with self._open(op.key) as (handle, status):
            info = describe(op.key, status)
            check_size(op, info)
            start, end = byte_range(op, info.size)
            body = _read(self._system, handle, start, end)
        return Fetched(info=info, start=start, body=body)

    # ------------------------------------------------------------------------ writes

    def _put_if_absent(self, op: PutIfAbsent) -> Created | Exists:
        folder, name = split_key(op.key)
        self._make_folder(folder, op.key)
        with self._drafts.write(op.body) as draft, self._folders.open(folder) as above:
            try:
                self._system.link(
                    draft.name,
                    name,
                    src_dir_fd=draft.folder,
                    dst_dir_fd=above,
                    follow_symlinks=False,
                )
            except FileExistsError:
                self._check_taken(op.key, above)
                return Exists()
            self._folders.make_durable(folder, above, draft.handle, draft.status)
            return Created(etag=draft.info.etag)

    def _put_if_match(self, op: PutIfMatch) -> Replaced | Changed:
        folder, name = split_key(op.key)
        with self._drafts.locked():
            held = self._durable_status(op.key)
            if held is None or describe(op.key, held).etag != op.etag:
                return Changed()
            with (
                self._drafts.write(op.body, after_ns=held.st_mtime_ns) as draft,
                self._folders.open(folder) as above,
            ):
                self._system.rename(draft.name, name, src_dir_fd=draft.folder, dst_dir_fd=above)
                self._folders.make_durable(folder, above, draft.handle, draft.status)
                return Replaced(etag=draft.info.etag)

    def _delete(self, op: Delete) -> None:
        folder, name = split_key(op.key)
        with self._drafts.locked():
            # Links and folders are not objects, and stay.
            if self._durable_status(op.key) is not None:
                with self._folders.open(folder) as above:
                    with contextlib.suppress(FileNotFoundError):  # Nobody asks others to lock.
                        self._system.unlink(name, dir_fd=above)
                    self._folders.sync(folder, above)

    def _durable_status(self, key: str) -> Status | None:
        """Return what a file says of an object; None: there is none, also after a power cut."""
        try:
            with self._open(key) as (_, status):
                return status
        except OSError as error:
            if error.errno not in MISSING:
                raise
            self._sync_absence(split_key(key)[0])
            return None

    def _sync_absence(self, folder: str) -> None:
        """Let what is gone stay away: whoever deleted it may have died before its own sync."""
        try:
            with self._folders.open(folder) as above:
                self._folders.sync(folder, above)
        except OSError as error:
            if error.errno not in MISSING:
                raise

    def _make_folder(self, folder: str, key: str) -> None:
        try:
            self._folders.make(folder)
            with self._folders.open(folder):
                pass
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise _in_the_way(key) from error
            raise

    def _check_taken(self, key: str, above: int) -> None:
        """Make sure that it is an object that has the name, and will have it after a power cut."""
        folder, name = split_key(key)
        with contextlib.suppress(FileNotFoundError):  # It was there a moment ago.
            status = self._system.stat(name, dir_fd=above, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise _in_the_way(key)
        self._folders.sync(folder, above)

    def _explained(self, error: OSError, op: Op) -> LakelogError:
        path = f"{self.url}/{op.prefix if isinstance(op, ListPage) else op.key}"
        if error.errno in MISSING:
            return NotFoundError(f"{path}: there is no such object: check the key and the root")
        if error.errno in _REFUSED:
            return InvalidInputError(
                f"{path}: {error.strerror}: give this user access to the files below {self.root}"
            )
        return UnavailableError(
            f"{path}: {error.strerror}: outcome unknown; check the disk and its space, then retry"
        )


def _in_the_way(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"the key {key!r} is a folder of other objects, or lies below an object: choose another key"
    )


def _read(system: System, handle: int, start: int, end: int) -> bytes:
    pieces = []
    while start < end:
        piece = system.pread(handle, min(end - start, 1 << 30), start)
        if not piece:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)

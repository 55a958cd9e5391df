"""A store in a folder: an object is a file, and its key the path to it.

    root/lanes/0001/00000000000000000007.bundle     the object of that key
    root/.lakelog-staging/                          bodies that are not objects yet

Put if absent writes the body aside, syncs it, and links it to its name. ``link`` refuses a name
that is taken, so there is one winner among all processes, and an object is whole from the moment
it is there. Put if match has no such system call: it compares and renames under a lock on a file,
which every process on the machine respects, and which the kernel drops when a process dies.

An etag is the number of the file, its time and its size. A replacement is always younger than what
it replaces, by a nanosecond if need be, so that no etag comes back.

Two keys of which one is a folder of the other (``a`` and ``a/b``) cannot both be objects here.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError, UnavailableError
from lakelog.store.folders import MISSING, Folders, describe
from lakelog.store.keys import STAGING
from lakelog.store.operations import (
    Body,
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
    ObjectInfo,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
)
from lakelog.store.pieces import check_size, span

__all__ = ["LocalStore"]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ASIDE = STAGING + "/"
_LOCK = "lock"
_PIECES_MAX = 512  # Of one system call; Linux takes twice as many.

_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalStore:
    """Objects in the files below ``root``, which is made when the first object is."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 (a link as root stays what it is)
        self.url = f"file://{self.root}"
        self._folders = Folders(self.root)

    def __reduce__(self) -> tuple[object, ...]:
        return (LocalStore, (self.root,))

    def perform(self, op: Op) -> Any:
        """Perform one operation."""
        try:
            match op:
                case ListPage():
                    return self._list(op)
                case Head():
                    with self._open(op.key) as (_, info):
                        return info
                case Get() | GetRange() | GetSuffix():
                    return self._fetch(op)
                case PutIfAbsent():
                    return self._put_if_absent(op)
                case PutIfMatch():
                    return self._put_if_match(op)
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
    def _open(self, key: str) -> Iterator[tuple[int, ObjectInfo]]:
        folder, name = _parts(key)
        with self._folders.open(folder) as above:
            handle = os.open(name, _READ, dir_fd=above)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a file", key)
            yield handle, describe(key, status)
        finally:
            os.close(handle)

    def _fetch(self, op: Get | GetRange | GetSuffix) -> Fetched:
        with self._open(op.key) as (handle, info):
            check_size(op, info)
            start, end = span(op, info.size)
            body = _read(handle, start, end)
        return Fetched(info=info, start=start, body=body)

    # ------------------------------------------------------------------------ writes

    def _put_if_absent(self, op: PutIfAbsent) -> Created | Exists:
        folder, name = _parts(op.key)
        self._make_folder(folder, op.key)
        with self._aside(op.body) as (aside, draft, info), self._folders.open(folder) as above:
            try:
                os.link(draft, name, src_dir_fd=aside, dst_dir_fd=above, follow_symlinks=False)
            except FileExistsError:
                self._refuse_folder(name, above, op.key)
                return Exists()
            os.fsync(above)
            return Created(etag=info.etag)

    def _put_if_match(self, op: PutIfMatch) -> Replaced | Changed:
        folder, name = _parts(op.key)
        with self._locked():
            try:
                with self._open(op.key) as (handle, held):
                    held_ns = os.fstat(handle).st_mtime_ns
            except OSError as error:
                if error.errno in MISSING:
                    return Changed()
                raise
            if held.etag != op.etag:
                return Changed()
            with (
                self._aside(op.body, after_ns=held_ns) as (aside, draft, info),
                self._folders.open(folder) as above,
            ):
                os.rename(draft, name, src_dir_fd=aside, dst_dir_fd=above)
                os.fsync(above)
                return Replaced(etag=info.etag)

    def _delete(self, op: Delete) -> None:
        folder, name = _parts(op.key)
        with self._locked():
            try:
                with self._open(op.key):
                    pass  # Links and folders are not objects, and stay.
                with self._folders.open(folder) as above:
                    os.unlink(name, dir_fd=above)
                    os.fsync(above)
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

    def _refuse_folder(self, name: str, above: int, key: str) -> None:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise _in_the_way(key)

    @contextlib.contextmanager
    def _aside(
        self, body: Body, *, after_ns: int | None = None
    ) -> Iterator[tuple[int, str, ObjectInfo]]:
        """Write a body aside: its folder, its name there, and what it will be as an object."""
        self._folders.make(_ASIDE)
        draft = secrets.token_hex(16)
        with self._folders.open(_ASIDE) as aside:
            handle = os.open(draft, _CREATE, 0o666, dir_fd=aside)
            try:
                try:
                    _write(handle, body)
                    _make_younger(handle, after_ns)
                    os.fsync(handle)
                    info = describe("", os.fstat(handle))
                finally:
                    os.close(handle)
                yield aside, draft, info
            finally:
                with contextlib.suppress(FileNotFoundError):  # It was renamed.
                    os.unlink(draft, dir_fd=aside)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._folders.make(_ASIDE)
        with self._folders.open(_ASIDE) as aside:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(_LOCK, flags, 0o666, dir_fd=aside)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _explained(self, error: OSError, op: Op) -> LakelogError:
        where = f"{self.url}/{op.prefix if isinstance(op, ListPage) else op.key}"
        if error.errno in MISSING:
            return NotFoundError(f"{where}: there is no such object: check the key and the root")
        if error.errno in _REFUSED:
            return InvalidInputError(
                f"{where}: {error.strerror}: give this user access to the files below {self.root}"
            )
        return UnavailableError(
            f"{where}: {error.strerror}: outcome unknown; check the disk and its space, then retry"
        )


def _parts(key: str) -> tuple[str, str]:
    above, slash, name = key.rpartition("/")
    return above + slash, name


def _in_the_way(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"the key {key!r} is a folder of other objects, or lies below an object: choose another key"
    )


def _read(handle: int, start: int, end: int) -> bytes:
    pieces = []
    while start < end:
        piece = os.pread(handle, min(end - start, 1 << 30), start)
        if not piece:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def _write(handle: int, body: Body) -> None:
    pieces = (body,) if isinstance(body, bytes) else body
    for at in range(0, len(pieces), _PIECES_MAX):
        some = [memoryview(piece).cast("B") for piece in pieces[at : at + _PIECES_MAX]]
        left = sum(map(len, some))
        while left:
            written = os.writev(handle, some)
            left -= written
            while some and written >= len(some[0]):
                written -= len(some.pop(0))
            if written:
                some[0] = some[0][written:]


def _make_younger(handle: int, after_ns: int | None) -> None:
    made_ns = os.fstat(handle).st_mtime_ns
    if after_ns is not None and made_ns <= after_ns:
        os.utime(handle, ns=(made_ns, after_ns + 1))

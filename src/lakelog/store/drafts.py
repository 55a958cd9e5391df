"""Drafts of a local store: bodies that are on the disk before they get the name of an object.

    .lakelog-staging/3f0c...    one draft, 32 hexadecimal digits
    .lakelog-staging/lock       the lock under which objects are replaced and deleted

A draft is born with the sticky bit. On a file it means nothing to Linux. Here it means: the name of
this object may not be durable yet. It is taken away when the folder of the name was synced, by the
writer, or, if that was killed, by whoever finds the object and syncs the folder in its place.

A killed process leaves its draft behind. Now and then a put looks for such leftovers and takes them
away. The writer of a draft holds a lock on it, which the kernel drops with the process, so that no
draft of a living process is taken, however long that one sleeps.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lakelog.errors import InvalidInputError
from lakelog.names import STAGING
from lakelog.store.folders import NOT_DURABLE, READ, Folders, describe
from lakelog.store.operations import Body, ObjectInfo
from lakelog.store.system import Status, System, sync

__all__ = ["Draft", "Drafts"]

LEFT_OVER_S = 3_600
"""How old a draft is before it is taken for a leftover, and how often a store looks for them."""

LOOKED_AT_MAX = 10_000
"""Names that one look for leftovers reads. There are seldom more than there are writers."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"[0-9a-f]{32}")
_FOLDER = STAGING + "/"
_LOCK = "lock"
_PIECES_MAX = 512  # Of one system call; Linux takes twice as many.


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A body that is on the disk, and no object yet."""

    folder: int
    """The folder it is in."""
    name: str
    handle: int
    status: Status
    info: ObjectInfo
    """What it will be as an object, but for the key."""


class Drafts:
    """The drafts of one store."""

    def __init__(self, folders: Folders, system: System) -> None:
        self._folders, self._system = folders, system
        self._look_ns = 0
        """When to look for leftovers next."""

    @contextlib.contextmanager
    def write(self, body: Body, *, after_ns: int | None = None) -> Iterator[Draft]:
        """Write a body to a draft and sync it; afterwards the draft is gone, whatever became of it.

        Args:
            body: of the object.
            after_ns: the object will be younger than this.
        """
        system = self._system
        self._folders.make(_FOLDER)
        self._sweep()
        name = secrets.token_hex(16)
        with self._folders.open(_FOLDER) as folder:
            handle = system.open(name, _CREATE, 0o666 | NOT_DURABLE, dir_fd=folder)
            try:
                try:
                    system.flock(handle, fcntl.LOCK_SH)
                    _write(system, handle, body)
                    made_ns = system.fstat(handle).st_mtime_ns
                    if after_ns is not None and made_ns <= after_ns:
                        system.utime(handle, ns=(made_ns, after_ns + 1))
                    sync(system, handle, f"{self._folders.root}/{_FOLDER}{name}")
                    status = system.fstat(handle)
                    self._check(status)
                    yield Draft(
                        folder=folder,
                        name=name,
                        handle=handle,
                        status=status,
                        info=describe("", status),
                    )
                finally:
                    system.close(handle)
            finally:
                with contextlib.suppress(FileNotFoundError):  # It was renamed.
                    system.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process, and thread, from replacing and deleting objects meanwhile."""
        self._folders.make(_FOLDER)
        with self._folders.open(_FOLDER) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = self._system.open(_LOCK, flags, 0o666, dir_fd=folder)
        try:
            self._system.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            self._system.close(handle)

    def _check(self, status: Status) -> None:
        if not status.st_mode & NOT_DURABLE:
            raise InvalidInputError(
                f"the file system of {self._folders.root} does not keep the sticky bit of a file, "
                "by which lakelog marks what a power cut may still take away: use a file system "
                "of Linux, such as ext4, XFS or Btrfs"
            )

    def _sweep(self) -> None:
        """Take away what killed processes have left, if it is time to look."""
        now_ns = self._system.now_ns()
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LEFT_OVER_S * 10**9
        # Whatever is in the way is no reason to refuse a put. The next look may find it gone.
        with contextlib.suppress(OSError), self._folders.open(_FOLDER) as folder:
            with self._system.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, LOOKED_AT_MAX)]
            for name in names:
                if _NAME.fullmatch(name):
                    with contextlib.suppress(OSError):
                        self._remove_left_over(folder, name, now_ns - LEFT_OVER_S * 10**9)

    def _remove_left_over(self, folder: int, name: str, before_ns: int) -> None:
        handle = self._system.open(name, READ, dir_fd=folder)
        try:
            if self._system.fstat(handle).st_mtime_ns < before_ns:
                # Refused while its writer lives.
                self._system.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._system.unlink(name, dir_fd=folder)
        finally:
            self._system.close(handle)


def _write(system: System, handle: int, body: Body) -> None:
    pieces = (body,) if isinstance(body, bytes) else body
    for at in range(0, len(pieces), _PIECES_MAX):
        some = [memoryview(piece).cast("B") for piece in pieces[at : at + _PIECES_MAX]]
        left = sum(map(len, some))
        while left:
            written = system.writev(handle, some)
            if written <= 0:
                raise OSError(errno.EIO, "nothing could be written")
            left -= written
            while some and written >= len(some[0]):
                written -= len(some.pop(0))
            if written:
                some[0] = some[0][written:]

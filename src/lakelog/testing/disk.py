"""A disk in memory that forgets what was not synced when its power is cut.

    disk = SimulatedDisk(Random(7))
    process = disk.process()                       a kernel, as one process sees it
    store = LocalStore("/data", system=process)    the real store
    process.kill()                                 what it wrote is there, but may not be durable
    disk.cut_power()                               everybody is dead; what was not synced is lost,
                                                   or partly there, as chance will have it

Two views of every file and folder are kept: what processes see, and what is on the disk. fsync
makes the second the first, for the bytes of a file or for the names in a folder, and never for
both. At a power cut each name that was made, moved or removed since may or may not be on the disk,
by itself and in no order, and a file may hold any part of its bytes. File systems do better than
this, each in its own way; the store may not count on it.

    failing   how often fsync fails, from 0 to 1, with EIO. If it was about the bytes of a file,
              Linux forgets them: they stay visible, and no later fsync makes them durable. If it
              was about names, most file systems (ext4, XFS, Btrfs) stop: every fsync fails from
              then on, until the power is cut.
    once      they do not stop, and names are forgotten like bytes. No process can then believe
              another one's names: whoever runs this has to cut the power when one ends by itself.
    lying     fsync succeeds and does nothing
    scattered files are torn sector by sector (``sectors``), as those are that grow between two
              fsyncs; without it they are whole, cut off, or cut off and filled up with zeros

A process that has ended (killed, by a power cut, or by itself after a failed fsync) makes no more
system calls: each raises ``Gone``, also in the ``finally`` blocks that a dead process does not run.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from random import Random  # noqa: TID251 (seeded)
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from lakelog.testing.nodes import Entry, Node, Status, put_name, status_of
from lakelog.testing.sectors import sectors_of, synced, torn

__all__ = ["DiskProcess", "Gone", "SimulatedDisk"]

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_NS = 1_700_000_000_000_000_000
TICK_NS = 4_000_000
"""The clock of a file system ticks coarsely."""

CALLS_PER_TICK = 8


class Gone(BaseException):
    """The process that makes this call is dead. No code of its own may catch this."""


def _nothing(_: str) -> None: ...


@dataclass(eq=False, slots=True)
class _Opened:
    node: Node
    lock: int = 0


class SimulatedDisk:
    """One disk of one machine."""

    def __init__(
        self,
        random: Random,
        *,
        failing: float = 0.0,
        once: bool = False,
        lying: bool = False,
        scattered: bool = False,
        clock_ns: Callable[[], int] | None = None,
    ) -> None:
        self.random = random
        self.failing, self.once, self.lying = failing, once, lying
        self.scattered = scattered
        self._has_stopped = False
        self._clock_ns = clock_ns
        self.before: Callable[[str], None] = _nothing
        """Called with the name of every system call before it happens; may kill, or cut power."""
        self.calls = 0
        self.failed = 0
        """How often fsync failed."""
        self._numbers = 1
        self._processes: list[DiskProcess] = []
        self.root = Node(number=1, mode=stat.S_IFDIR | 0o755, mtime_ns=EPOCH_NS, kept=(0o755, 0))

    def process(self) -> "DiskProcess":
        """Start a process on this machine."""
        started = DiskProcess(self)
        self._processes.append(started)
        return started

    def now_ns(self) -> int:
        """Return the time: without a clock it goes on with every few system calls."""
        if self._clock_ns is not None:
            return self._clock_ns()
        return EPOCH_NS + self.calls // CALLS_PER_TICK * TICK_NS

    def cut_power(self) -> None:
        """End every process, and forget what was not synced, or some of it."""
        for process in self._processes:
            process.kill()
        self._processes.clear()
        self._has_stopped = False
        self._forget(self.root, set())

    def _forget(self, node: Node, seen: set[int]) -> None:
        if node.number in seen:
            return
        seen.add(node.number)
        if node.is_folder:
            self._keep_some(node)
            node.names = dict(node.kept_names)
            for below in node.names.values():
                self._forget(below, seen)
        else:
            if node.dirty:
                node.kept_body = self._torn(node)
            node.kept = self.random.choice([node.kept, (node.mode, node.mtime_ns)])
            node.body, node.dirty = bytearray(node.kept_body), False
            node.sectors.clear()
            node.mode, node.mtime_ns = node.kept[0] | stat.S_IFREG, node.kept[1]

    def _keep_some(self, folder: Node) -> None:
        for name, node in folder.changes:
            if self.random.random() < 0.5:
                put_name(folder.kept_names, name, node)
        folder.changes.clear()

    def _torn(self, node: Node) -> bytes:
        if self.scattered:
            return torn(self.random, node.body, node.kept_body, node.sectors)
        if bytes(node.body) == node.kept_body:
            return node.kept_body
        some = bytes(node.body[: self.random.randrange(len(node.body) + 1)])
        return self.random.choice([node.kept_body, some, some.ljust(len(node.body), b"\0")])

    def fsync(self, node: Node) -> None:
        if self._has_stopped:
            raise _error(errno.EIO)
        if self.random.random() < self.failing:
            self.failed += 1
            if node.is_folder and not self.once:
                self._has_stopped = True
            self._keep_some(node)
            if not node.is_folder and node.dirty:
                node.kept_body, node.dirty = self._torn(node), False
                node.sectors.clear()
            raise _error(errno.EIO)
        if self.lying:
            return
        for name, below in node.changes:
            put_name(node.kept_names, name, below)
        node.changes.clear()
        if node.dirty:
            whole = not self.scattered
            node.kept_body = (
                bytes(node.body) if whole else synced(node.body, node.kept_body, node.sectors)
            )
            node.dirty = False
            node.sectors.clear()
        node.kept = (node.mode, node.mtime_ns)

    def make(self, mode: int, above: Node | None = None) -> Node:
        self._numbers += 1
        now_ns = self.now_ns()
        return Node(
            number=self._numbers, mode=mode, mtime_ns=now_ns, above=above, kept=(mode, now_ns)
        )

    def locks(self, node: Node, but: _Opened) -> list[int]:
        """Return the locks that others hold on a file."""
        opened = [one for process in self._processes for one in process.opened.values()]
        return [one.lock for one in opened if one.node is node and one is not but and one.lock]


def _system_call(
    call: Callable[Concatenate["DiskProcess", P], T],
) -> Callable[Concatenate["DiskProcess", P], T]:
    """Let the disk see a call before it happens; a dead process makes none."""

    @wraps(call)
    def checked(process: "DiskProcess", /, *args: P.args, **named: P.kwargs) -> T:
        if process.is_alive:
            process.disk.calls += 1
            process.disk.before(call.__name__)
        if not process.is_alive:
            raise Gone(call.__name__)
        return call(process, *args, **named)

    return checked


class DiskProcess:
    """The system calls of one process, by the names of ``lakelog.store.system``."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.opened: dict[int, _Opened] = {}
        self.is_alive = True
        self.said = ""
        """Its last words, if it ended itself."""
        self._next = 3

    def kill(self) -> None:
        """End it as SIGKILL does: at once, between two system calls."""
        self.is_alive = False
        self.opened.clear()

    @_system_call
    def end(self, sentence: str) -> NoReturn:
        self.said = sentence
        self.kill()
        raise Gone(sentence)

    def now_ns(self) -> int:
        return self.disk.now_ns()

    # ------------------------------------------------------------------------ names

    def _find(self, path: str, dir_fd: int | None) -> tuple[Node, str, Node | None]:
        """Return the folder, the last name, and what it stands for."""
        node = self.disk.root if dir_fd is None else self.opened[dir_fd].node
        *folders, name = [part for part in path.split("/") if part] or [""]
        for part in folders:
            node = self._step(node, part)
        if name in ("", ".", ".."):
            return node, name, (node.above or node) if name == ".." else node
        if not node.is_folder:
            raise _error(errno.ENOTDIR)
        return node, name, node.names.get(name)

    def _existing(self, path: str, dir_fd: int | None) -> tuple[Node, str, Node]:
        """Return the same of a name that stands for something."""
        folder, name, node = self._find(path, dir_fd)
        if node is None:
            raise _error(errno.ENOENT)
        return folder, name, node

    def _step(self, node: Node, part: str) -> Node:
        if not node.is_folder:
            raise _error(errno.ENOTDIR)
        if part not in node.names:
            raise _error(errno.ENOENT)
        return node.names[part]

    def _changed(self, folder: Node, name: str, node: Node | None) -> None:
        folder.rename(name, node)
        folder.mtime_ns = self.disk.now_ns()

    @_system_call
    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        folder, name, node = self._find(path, dir_fd)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT)
            node = self.disk.make(stat.S_IFREG | mode)
            self._changed(folder, name, node)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST)
        if flags & os.O_DIRECTORY and not node.is_folder:
            raise _error(errno.ENOTDIR)
        self._next += 1
        self.opened[self._next] = _Opened(node)
        return self._next

    @_system_call
    def link(
        self,
        src: str,
        dst: str,
        *,
        src_dir_fd: int,
        dst_dir_fd: int,
        follow_symlinks: bool,  # noqa: ARG002 (there are no links to follow)
    ) -> None:
        _, _, node = self._existing(src, src_dir_fd)
        folder, name, taken = self._find(dst, dst_dir_fd)
        if taken is not None:
            raise _error(errno.EEXIST)
        self._changed(folder, name, node)

    @_system_call
    def rename(self, src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        before, old, node = self._existing(src, src_dir_fd)
        folder, name, _ = self._find(dst, dst_dir_fd)
        self._changed(before, old, None)
        self._changed(folder, name, node)

    @_system_call
    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        folder, name, _ = self._existing(path, dir_fd)
        self._changed(folder, name, None)

    @_system_call
    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        folder, name, node = self._find(path, dir_fd)
        if node is not None:
            raise _error(errno.EEXIST)
        self._changed(folder, name, self.disk.make(stat.S_IFDIR | mode, folder))

    @_system_call
    @contextmanager
    def scandir(self, path: int, /) -> Iterator[Iterator[Entry]]:
        names = self.opened[path].node.names
        yield iter([Entry(name, node) for name, node in names.items()])

    @_system_call
    def stat(self, path: str, *, dir_fd: int | None, follow_symlinks: bool) -> Status:  # noqa: ARG002
        return status_of(self._existing(path, dir_fd)[2])

    # ------------------------------------------------------------------------ files

    @_system_call
    def close(self, fd: int, /) -> None:
        del self.opened[fd]

    @_system_call
    def fstat(self, fd: int, /) -> Status:
        return status_of(self.opened[fd].node)

    @_system_call
    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        return bytes(self.opened[fd].node.body[offset : offset + length])

    @_system_call
    def writev(self, fd: int, buffers: Sequence[memoryview], /) -> int:
        """Write behind what is there: files are opened to append, or written once."""
        node, data = self.opened[fd].node, b"".join(buffers)
        self._write(node, data, len(node.body))
        return len(data)

    @_system_call
    def pwrite(self, fd: int, data: memoryview, offset: int, /) -> int:
        self._write(self.opened[fd].node, bytes(data), offset)
        return len(data)

    def _write(self, node: Node, data: bytes, at: int) -> None:
        end = at + len(data)
        node.body[at:end] = data
        node.sectors.update(sectors_of(at, end))
        node.dirty, node.mtime_ns = True, self.disk.now_ns()

    @_system_call
    def ftruncate(self, fd: int, length: int, /) -> None:
        node = self.opened[fd].node
        del node.body[length:]
        node.sectors.update(sectors_of(max(length - 1, 0), length))
        node.dirty = True

    @_system_call
    def map(self, fd: int, length: int, *, ahead: bool = False) -> memoryview:  # noqa: ARG002
        return memoryview(bytes(self.opened[fd].node.body[:length]))

    @_system_call
    def fsync(self, fd: int, /) -> None:
        self.disk.fsync(self.opened[fd].node)

    @_system_call
    def fchmod(self, fd: int, mode: int, /) -> None:
        node = self.opened[fd].node
        node.mode = stat.S_IFMT(node.mode) | mode

    @_system_call
    def utime(self, path: int, *, ns: tuple[int, int]) -> None:
        self.opened[path].node.mtime_ns = ns[1]

    @_system_call
    def flock(self, fd: int, operation: int, /) -> None:
        """Lock; where a real process would wait, say that it would wait for ever."""
        mine = self.opened[fd]
        wanted = operation & ~fcntl.LOCK_NB
        held = self.disk.locks(mine.node, mine)
        if wanted != fcntl.LOCK_UN and (wanted == fcntl.LOCK_EX or fcntl.LOCK_EX in held) and held:
            raise _error(errno.EAGAIN if operation & fcntl.LOCK_NB else errno.EDEADLK)
        mine.lock = 0 if wanted == fcntl.LOCK_UN else wanted


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))

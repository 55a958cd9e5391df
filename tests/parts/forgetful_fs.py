"""A real file system whose power can be cut: FUSE in front of ``lakelog.testing.disk``.

    with forgetful_fs(seed=7) as disk:
        ...                     # processes work in disk.folder, and are killed with -9
        disk.cut_power()        # unmounts, forgets what was not synced or some of it, mounts again

The kernel is the real one, and so are the programs that use it; only the disk behind is in memory.
It is kept by a process of its own. A power cut is an unmount, at which that process decides what
was on the disk, and mounts it again.

Needs Debian's fuse3. Locks (flock) are kept by the kernel, and end with the processes.
"""

import contextlib
import errno
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from shutil import which
from typing import Any

import mfusepy

from lakelog.testing.disk import SimulatedDisk
from tests.parts.process import START_S, MissingPartError, Process

__all__ = ["ForgetfulFs", "forgetful_fs"]

UNMOUNT_S = 10


class _Operations(mfusepy.Operations):  # type: ignore[misc]
    """The operations of FUSE, as system calls of the simulated disk."""

    use_ns = True
    flag_nopath = flag_nullpath_ok = True

    def __init__(self, disk: SimulatedDisk, home: Path, failing: float) -> None:
        self._disk, self._failing, self._may_fail = disk, failing, home / "may-fail"
        self._system = disk.process()

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, int]:
        if fh is not None:
            status = self._system.fstat(fh)
        else:
            assert path is not None
            status = self._system.stat(path, dir_fd=None, follow_symlinks=False)
        return {
            "st_mode": status.st_mode,
            "st_ino": status.st_ino,
            "st_size": status.st_size,
            "st_nlink": 2 if stat.S_ISDIR(status.st_mode) else 1,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
            **dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), status.st_mtime_ns),
        }

    def create(self, path: str, mode: int, fi: int = 0) -> int:  # noqa: ARG002
        return self._system.open(path, os.O_CREAT, stat.S_IMODE(mode))

    def open(self, path: str, flags: int) -> int:
        return self._system.open(path, flags & ~(os.O_CREAT | os.O_EXCL))

    def opendir(self, path: str) -> int:
        return self._system.open(path, os.O_DIRECTORY)

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:  # noqa: ARG002
        with self._system.scandir(fh) as entries:
            names = [".", "..", *(entry.name for entry in entries)]
        found = []
        for name in names:
            # Entries without a number are left out by the C library.
            status = self._system.stat(name, dir_fd=fh, follow_symlinks=False)
            found.append((name, {"st_mode": status.st_mode, "st_ino": status.st_ino}, 0))
        return found

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:  # noqa: ARG002
        return self._system.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:  # noqa: ARG002
        if offset > self._system.fstat(fh).st_size:
            raise OSError(errno.EOPNOTSUPP, "files have no holes")
        return self._system.pwrite(fh, memoryview(data), offset)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        if fh is not None:
            self._system.ftruncate(fh, length)
            return 0
        with self._opened(path) as handle:
            self._system.ftruncate(handle, length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:  # noqa: ARG002
        self._disk.failing = self._failing if self._may_fail.exists() else 0.0
        self._system.fsync(fh)
        return 0

    fsyncdir = fsync

    def release(self, path: str, fh: int) -> int:  # noqa: ARG002
        self._system.close(fh)
        return 0

    releasedir = release

    def chmod(self, path: str | None, mode: int) -> int:
        with self._opened(path) as handle:
            self._system.fchmod(handle, stat.S_IMODE(mode))
        return 0

    def utimens(self, path: str | None, times: tuple[int, int] | None = None) -> int:
        with self._opened(path) as handle:
            self._system.utime(handle, ns=times or (time.time_ns(), time.time_ns()))
        return 0

    def link(self, target: str, source: str) -> int:
        with self._root() as root:
            self._system.link(
                source, target, src_dir_fd=root, dst_dir_fd=root, follow_symlinks=False
            )
        return 0

    def rename(self, old: str, new: str) -> int:
        with self._root() as root:
            self._system.rename(old, new, src_dir_fd=root, dst_dir_fd=root)
        return 0

    def unlink(self, path: str) -> int:
        self._system.unlink(path)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._system.mkdir(path, mode)
        return 0

    @contextlib.contextmanager
    def _opened(self, path: str | None) -> Iterator[int]:
        if path is None:
            raise OSError(errno.ENOENT, "it has no name any more")
        handle = self._system.open(path, 0)
        try:
            yield handle
        finally:
            self._system.close(handle)

    def _root(self) -> contextlib.AbstractContextManager[int]:
        return self._opened("/")


class _Fuse(mfusepy.FUSE):  # type: ignore[misc]
    """As mfusepy's, which forgets the handle of an ftruncate on FUSE 3; there is no path then."""

    def truncate_fuse_3(self, path: bytes | None, length: int, fi: Any) -> int:
        handle = fi.contents.fh if fi else None
        return int(self.operations.truncate(path and path.decode(), length, handle))


class ForgetfulFs:
    """A mounted file system, in ``folder``."""

    def __init__(
        self, home: Path, *, seed: int, failing: float = 0.0, scattered: bool = False
    ) -> None:
        self.folder = home / "mounted"
        self.folder.mkdir()
        self._home = home
        argv = [sys.executable, "-m", "tests.parts.forgetful_fs", str(home), str(seed)]
        argv += [str(failing), "scattered" if scattered else ""]
        self._process = Process(argv, home / "forgetful.log")
        self._wait()

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Let fsync fail now and then meanwhile; whoever calls it ends, and so should not be us."""
        (self._home / "may-fail").touch()
        try:
            yield
        finally:
            (self._home / "may-fail").unlink()

    def cut_power(self) -> None:
        """Forget what was not synced. Whoever uses the folder must be dead already."""
        self._unmount()
        self._wait()

    def close(self) -> None:
        (self._home / "over").touch()
        self._unmount()
        self._process.join(UNMOUNT_S)

    def _wait(self) -> None:
        self._process.wait_until(self.folder.is_mount, within_s=START_S)

    def _unmount(self) -> None:
        subprocess.run(["fusermount3", "-u", str(self.folder)], check=True)


@contextlib.contextmanager
def forgetful_fs(
    *, seed: int, failing: float = 0.0, scattered: bool = False
) -> Iterator[ForgetfulFs]:
    """A file system that is gone afterwards; ``failing`` is the chance of an fsync to fail.

    ``scattered``: files lose sectors in any order, as those do that grow for long.
    """
    if which("fusermount3") is None:
        raise MissingPartError("fusermount3 is missing: apt-get install fuse3")
    with tempfile.TemporaryDirectory(prefix="forgetful-") as home:
        made = ForgetfulFs(Path(home), seed=seed, failing=failing, scattered=scattered)
        try:
            yield made
        finally:
            made.close()


def _main(home: Path, seed: int, failing: float, *, scattered: bool) -> None:
    disk = SimulatedDisk(Random(seed), clock_ns=time.time_ns, scattered=scattered)
    while not (home / "over").exists():
        _Fuse(
            _Operations(disk, home, failing), str(home / "mounted"), foreground=True,
            nothreads=True, fsname="forgetful", hard_remove=True, use_ino=True, attr_timeout=0,
            entry_timeout=0,
        )  # fmt: skip
        disk.cut_power()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), scattered=bool(sys.argv[4]))

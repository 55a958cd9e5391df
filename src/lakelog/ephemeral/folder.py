"""A temporary folder that is gone when its owner is, however that ended.

    $TMPDIR/lakelog-ephemeral-XXXXXXXX/     locked by its owner for as long as that lives

The owner removes it when it is closed, and at the latest when the interpreter ends. One that was
killed cannot; the kernel drops its lock, and whoever makes the next such folder removes those that
nobody has locked. A process that the owner has forked shares the lock, and removes nothing.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

__all__ = ["EphemeralFolder"]

PREFIX = "lakelog-ephemeral-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class EphemeralFolder:
    """A folder of this process. Use it as a context, or close it."""

    def __init__(self, above: Path | None = None) -> None:
        above = above or Path(tempfile.gettempdir())
        _remove_abandoned(above)
        self.path, handle = _make(above)
        self._close = weakref.finalize(self, _remove, self.path, handle, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, with all that is in it."""
        self._close()


def _make(above: Path) -> tuple[Path, int]:
    """Return a new folder, and the handle that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        handle = _locked(path)
        if handle is not None:
            return path, handle
        # Somebody took it for abandoned before it was locked, and removes it.


def _locked(path: Path) -> int | None:
    """Return a handle that holds the lock of a folder; None: another has it, or it is gone."""
    try:
        handle = os.open(path, _FOLDER)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), path.lstat()):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _remove(path: Path, handle: int, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.close(handle)


def _remove_abandoned(above: Path) -> None:
    """Remove what owners have left that were killed; of this user, and of nobody else."""
    for path in above.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            handle = _locked(path)
            if handle is not None:
                _remove(path, handle, os.getpid())

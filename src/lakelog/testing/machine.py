"""Towns on files: the real local store over a simulated disk, whose power is cut now and then.

Here everybody lives on one machine, and there is no network between a process and its store. What
goes wrong instead:

    killed         a process dies between two system calls of an operation, and never sees its end
    power_cut      all of them do, and what was not synced is lost, or some of it
    fsync_failed   a process whose fsync fails ends, without an answer to anybody; then the machine
                   is started anew, as after a power cut
    fsync_lied     from some moment on fsync does nothing, and then the power is cut

Why the machine starts anew after a failed fsync: Linux tells of it once, to the process that asked.
Another one, which finds the same name and syncs it, is told that it is durable.

After a cut the truth is compared with the disk, and becomes what is left (``Truth.recover``):
whatever anybody was told must be there. Where fsync has lied nobody can promise that. There the
rule is: **whoever reads on gets records that were written at these offsets, or an error that names
what is damaged**; never other records, and no error that asks to be tried again for ever.
"""

from collections.abc import Callable, Iterator
from random import Random  # noqa: TID251 (seeded)
from typing import Any

from lakelog.errors import LakelogError, NotFoundError
from lakelog.store import (
    Created,
    Delete,
    Fetched,
    Get,
    ListPage,
    LocalStore,
    ObjectInfo,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
)
from lakelog.testing.disk import DiskProcess, Gone, SimulatedDisk

__all__ = ["DISK_KINDS", "DiskView", "Machine"]

DISK_KINDS = ("killed", "power_cut", "fsync_failed", "fsync_lied")

ROOT = "/data"
STAGING = ".lakelog-staging"
"""A folder of the store's own, in which no object is."""
CALLS_MAX = 40
"""Within so many system calls of an operation a blow falls; or just behind it."""
_NAMING = ("link", "rename", "unlink")
"""Calls after which a name is there, and not on the disk: every second blow falls just here."""


class DiskView:
    """What is seen of the objects on a disk by somebody who touches nothing."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    def find(self, key: str) -> Any:
        """Return the file of a key; None if there is none."""
        node = self._disk.root
        for name in (ROOT[1:], *key.split("/")):
            if name not in node.names:
                return None
            node = node.names[name]
        return None if node.is_folder else node

    def perform(self, op: Op) -> Any:
        """Perform a read."""
        if isinstance(op, ListPage):
            keys = sorted(key for key in self._keys() if key.startswith(op.prefix))
            behind = [key for key in keys if key > op.after][: op.limit]
            return Page(objects=tuple(map(self._info, behind)), more=len(behind) == op.limit)
        assert isinstance(op, Get)
        node = self.find(op.key)
        if node is None:
            raise NotFoundError(f"there is no object {op.key!r} on the disk")
        return Fetched(info=self._info(op.key), start=0, body=bytes(node.body))

    def _info(self, key: str) -> ObjectInfo:
        node = self.find(key)
        return ObjectInfo(
            key=key,
            size=len(node.body),
            etag=str(node.number),
            modified_ms=node.mtime_ns // 1_000_000,
        )

    def _keys(self) -> Iterator[str]:
        top = self._disk.root.names.get(ROOT[1:])
        left = [("", top)] if top is not None else []
        while left:
            prefix, folder = left.pop()
            for name, node in folder.names.items():
                if node.is_folder and prefix + name != STAGING:
                    left.append((prefix + name + "/", node))
                elif not node.is_folder:
                    yield prefix + name


class Machine:
    """One machine with one disk."""

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        self.disk = SimulatedDisk(random, clock_ns=lambda: now_ms() * 1_000_000)
        self.view = DiskView(self.disk)
        self.was_cut = False
        """Whether the power was cut during the last operation."""
        self._blow = ""
        self._calls_left = 0
        self._last = ""
        self._running: DiskProcess | None = None
        self.disk.before = self._strike

    def store(self) -> tuple[DiskProcess, LocalStore]:
        """Start a process, and let it open the store."""
        process = self.disk.process()
        return process, LocalStore(ROOT, system=process)

    def cut(self) -> None:
        """Cut the power."""
        self.was_cut = True
        self.disk.cut_power()

    def perform(
        self,
        process: DiskProcess,
        store: LocalStore,
        op: Op,
        watch: Callable[[Op, Any], None],
        blow: str = "",
    ) -> Any:
        """Perform an operation for a process, and let a blow fall meanwhile.

        ``watch`` is told what happened, also if the process is not. Returns what the process is
        told: ``Gone``, if it does not live any more.
        """
        self.was_cut, self._running = False, process
        self._blow, self._last = blow, ""
        if blow:
            random = self.disk.random
            self._calls_left = random.choice((random.randrange(1, CALLS_MAX), 1 << 30))
        before = None if isinstance(op, ListPage) else self.view.find(op.key)
        answer: Any
        try:
            answer = store.perform(op)
        except LakelogError as error:
            answer = error
        except Gone as gone:
            answer = gone
        else:
            if self._blow:
                self._calls_left = 1
                self._strike("")
                watch(op, answer)
                return Gone("it never sees the answer")
        self._blow = ""
        if isinstance(answer, Gone | LakelogError):
            self._tell(op, before, watch)
        else:
            watch(op, answer)
        return answer

    def _tell(self, op: Op, before: Any, watch: Callable[[Op, Any], None]) -> None:
        """Tell what an operation that did not end well has done nevertheless."""
        if isinstance(op, PutIfAbsent | PutIfMatch):
            after = self.view.find(op.key)
            if after is not None and after is not before:
                etag = str(after.number)
                made = isinstance(op, PutIfAbsent)
                watch(op, Created(etag=etag) if made else Replaced(etag=etag))
        elif isinstance(op, Delete) and before is not None and self.view.find(op.key) is None:
            watch(op, None)

    def _strike(self, call: str) -> None:
        """Let the blow fall, if this is the moment."""
        if not self._blow:
            return
        self._calls_left -= 1
        named = self._last in _NAMING and call == "fsync"
        self._last = call
        if self._calls_left > 0 and not (named and self._calls_left > CALLS_MAX):
            return
        blow, self._blow = self._blow, ""
        if blow == "power_cut":
            self.cut()
        elif self._running is not None:
            self._running.kill()

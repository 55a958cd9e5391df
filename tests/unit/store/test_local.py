"""What only a store of files can get wrong: links, leftovers, folders, order, other processes."""

import asyncio
import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError
from lakelog.store import (
    Changed,
    Created,
    Delete,
    Exists,
    Get,
    Head,
    ListPage,
    LocalStore,
    Op,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    each_object,
)
from lakelog.store.folders import Folders
from lakelog.store.system import LINUX, System


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "root"))


def _bent(**instead: Any) -> System:
    """The real kernel, but for some calls."""
    names = [name for name in dir(LINUX) if not name.startswith("_")]
    return cast("System", SimpleNamespace(**{n: getattr(LINUX, n) for n in names} | instead))


def _root(store: LocalStore) -> Path:
    return Path(store.root)


def _keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.key for info in each_object(store.perform, prefix)]


def _staged(store: LocalStore) -> set[str]:
    return {path.name for path in (_root(store) / ".lakelog-staging").iterdir()}


def _settle(*folders: Path) -> None:
    """Let the last change of a folder be long ago."""
    for folder in folders:
        os.utime(folder, ns=(0, 1_000_000_000))


def test_a_root_that_is_missing_is_not_an_empty_store(store: LocalStore) -> None:
    ops: list[Op] = [ListPage(), Head("a"), Get("a/b")]
    for op in ops:
        with pytest.raises(NotFoundError, match="check the key and the root"):
            store.perform(op)
    assert not _root(store).exists()


def test_the_first_object_makes_the_root(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "deep" / "er"))
    assert isinstance(store.perform(PutIfAbsent("a/b/c", b"x")), Created)
    assert (tmp_path / "deep/er/a/b/c").read_bytes() == b"x"


def test_nothing_but_the_object_is_left_after_a_put(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a/1", b"x"))
    store.perform(PutIfAbsent("a/1", b"y"))
    etag = store.perform(Head("a/1")).etag
    store.perform(PutIfMatch("a/1", b"z", etag))
    assert _staged(store) == {"lock"}
    assert (_root(store) / "a/1").stat().st_nlink == 1
    assert _keys(store) == ["a/1"]


def test_leftovers_of_a_crash_are_no_objects(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a", b"x"))
    (_root(store) / ".lakelog-staging" / "half").write_bytes(b"ha")
    assert _keys(store) == ["a"]


def test_a_link_is_neither_an_object_nor_a_folder(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.perform(PutIfAbsent("in/real", b"x"))
    (_root(store) / "in" / "folder").symlink_to(outside)
    (_root(store) / "in" / "file").symlink_to(outside / "secret")
    (_root(store) / "in" / "inner").symlink_to("real")
    assert _keys(store) == ["in/real"]
    for key in ("in/folder/secret", "in/file", "in/inner"):
        with pytest.raises(NotFoundError):
            store.perform(Get(key))
        store.perform(Delete(key))
    for key in ("in/folder/new", "in/file"):
        with pytest.raises(InvalidInputError, match="choose another key"):
            store.perform(PutIfAbsent(key, b"x"))
    assert store.perform(ListPage("in/folder/")).objects == ()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (_root(store) / "in" / "file").is_symlink()


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = LocalStore(str(tmp_path / "link"))
    store.perform(PutIfAbsent("a", b"x"))
    assert (tmp_path / "real" / "a").read_bytes() == b"x"
    assert _keys(store) == ["a"]


def test_a_pipe_is_no_object_and_nobody_waits_for_it(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a/1", b"x"))
    os.mkfifo(_root(store) / "a" / "pipe")
    with pytest.raises(NotFoundError):
        store.perform(Get("a/pipe"))
    assert _keys(store) == ["a/1"]


def test_an_object_is_not_a_folder_of_others(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a/b", b"x"))
    for key in ("a", "a/b/c"):
        with pytest.raises(InvalidInputError, match="choose another key"):
            store.perform(PutIfAbsent(key, b"y"))
    assert _keys(store) == ["a/b"]


def test_names_that_are_no_keys_are_not_listed(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a/1", b"x"))
    (_root(store) / "a" / "back\\slash").touch()
    (_root(store) / "a" / "new\nline").touch()
    Path(os.fsdecode(os.fsencode(_root(store)) + b"/a/\xff")).touch()
    assert _keys(store) == ["a/1"]


def test_folders_are_sorted_by_the_keys_in_them(store: LocalStore) -> None:
    keys = ["a-b", "a.txt", "a/x", "a/y/z", "a0", "b-1/1", "b/1", "b0/1"]
    for key in reversed(keys):
        store.perform(PutIfAbsent(key, b""))
    assert _keys(store) == sorted(keys) == keys


def test_a_quiet_folder_is_read_once_for_all_its_pages(store: LocalStore) -> None:
    (_root(store) / "f").mkdir(parents=True)
    for number in range(3500):
        (_root(store) / "f" / f"{number:05}").touch()
    _settle(_root(store) / "f", _root(store))
    scans: list[int] = []

    def counted(handle: int) -> Any:
        scans.append(handle)
        return os.scandir(handle)

    store = LocalStore(store.root, _bent(scandir=counted))
    assert len(_keys(store, "f/")) == 3500
    assert len(scans) == 1
    assert len(_keys(store, "f/")) == 3500
    assert len(scans) == 2, "what a finished listing knew was forgotten"


def test_a_folder_that_changed_is_read_again(store: LocalStore) -> None:
    folder = _root(store) / "f"
    folder.mkdir(parents=True)
    for number in range(0, 10, 2):
        (folder / f"{number}").touch()
    _settle(folder)
    page = store.perform(ListPage("f/", "", 2))
    assert [info.key for info in page.objects] == ["f/0", "f/2"]
    store.perform(PutIfAbsent("f/3", b""))
    store.perform(Delete("f/6"))
    page = store.perform(ListPage("f/", "f/2", 9))
    assert [info.key for info in page.objects] == ["f/3", "f/4", "f/8"]


def test_a_folder_that_just_changed_is_not_trusted(tmp_path: Path) -> None:
    # A second change within one tick of the file system's clock leaves the same time behind.
    (tmp_path / "1").touch()
    (tmp_path / "2").touch()
    stamp = tmp_path.stat().st_mtime_ns
    folders = Folders(str(tmp_path), _bent(now_ns=lambda: stamp + 1000))
    first = folders.walk("", "")
    assert next(first).key == "1"
    first.close()
    (tmp_path / "3").touch()
    os.utime(tmp_path, ns=(stamp, stamp))
    assert [info.key for info in folders.walk("", "1")] == ["2", "3"]


def test_an_object_that_vanishes_under_a_listing_is_left_out(store: LocalStore) -> None:
    for number in range(4):
        store.perform(PutIfAbsent(f"f/{number}", b""))
    walk = Folders(store.root).walk("f/", "")
    assert next(walk).key == "f/0"
    store.perform(Delete("f/1"))
    assert [info.key for info in walk] == ["f/2", "f/3"]


def test_replacing_at_once_never_repeats_an_etag(store: LocalStore) -> None:
    etag = store.perform(PutIfAbsent("a", b"x")).etag
    seen = {etag}
    for _ in range(50):
        etag = store.perform(PutIfMatch("a", b"x", etag)).etag
        assert store.perform(Head("a")).etag == etag
        seen.add(etag)
    assert len(seen) == 51


def test_one_of_many_processes_creates_an_object(store: LocalStore) -> None:
    code = (
        "import sys; from lakelog.store import LocalStore, PutIfAbsent;"
        "store = LocalStore(sys.argv[1]); sys.stdin.read(1);"
        "print([type(store.perform(PutIfAbsent(f'r/{n}', b''))).__name__ for n in range(50)]"
        ".count('Created'))"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, store.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"g")
        racer.stdin.flush()
    assert sum(int(racer.communicate()[0]) for racer in racers) == 50


def test_a_full_disk_is_an_unknown_outcome(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a", b"x"))

    def full(handle: int, pieces: list[memoryview]) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(UnavailableError, match="check the disk and its space"):
        LocalStore(store.root, _bent(writev=full)).perform(PutIfAbsent("b", b"x"))
    assert _keys(store) == ["a"]
    assert _staged(store) == set()
    assert store.perform(PutIfAbsent("a", b"x")) == Exists()


def test_what_this_user_may_not_touch_is_said(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a", b"x"))

    def refuse(*arguments: Any, **named: Any) -> int:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InvalidInputError, match="give this user access"):
        LocalStore(store.root, _bent(open=refuse)).perform(Get("a"))


@pytest.mark.parametrize("at_once", [1, 3, 1 << 20])
def test_pieces_stand_one_behind_the_other_however_little_is_written_at_once(
    tmp_path: Path, at_once: int
) -> None:
    def slow(handle: int, pieces: list[memoryview]) -> int:
        return os.write(handle, b"".join(pieces)[:at_once])

    store = LocalStore(str(tmp_path / "root"), _bent(writev=slow))
    pieces = (b"a", b"", bytearray(b"bcd"), memoryview(b"efghi"), b"")
    put = PutIfAbsent("pieces", pieces)
    assert put.size == 9
    assert isinstance(store.perform(put), Created)
    assert store.perform(Get("pieces")).body == b"abcdefghi"


def test_more_pieces_than_one_call_takes(store: LocalStore) -> None:
    pieces = tuple(bytes((number % 256,)) * 3 for number in range(3000))
    store.perform(PutIfAbsent("many", pieces))
    assert store.perform(Get("many")).body == b"".join(pieces)


# ---------------------------------------------------------------------------- power


class _Killed(BaseException):
    """Ends a process of a story."""


class _Calls:
    """Notes which folders were synced, and may kill before the next sync of one of them."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.kill_before = ""
        self.is_dead = False
        self.system = _bent(fsync=self._fsync, unlink=self._unlink)

    def _fsync(self, handle: int) -> None:
        path = str(Path(f"/proc/self/fd/{handle}").readlink())
        if self.kill_before and path.endswith(self.kill_before):
            self.is_dead = True
            raise _Killed
        self.synced.append(path)
        os.fsync(handle)

    def _unlink(self, name: str, *, dir_fd: int) -> None:
        if not self.is_dead:
            os.unlink(name, dir_fd=dir_fd)


@pytest.fixture
def killed(store: LocalStore) -> LocalStore:
    """A store where somebody linked ``a/1`` and replaced ``b/1``, and died before the syncs."""
    store.perform(PutIfAbsent("a/0", b"x"))
    etag = store.perform(PutIfAbsent("b/1", b"x")).etag
    calls = _Calls()
    dying = LocalStore(store.root, calls.system)
    dying.perform(PutIfAbsent("a/2", b"x"))
    dying.perform(PutIfAbsent("b/2", b"x"))
    calls.kill_before = "/a"
    with pytest.raises(_Killed):
        dying.perform(PutIfAbsent("a/1", b"y"))
    calls.kill_before = "/b"
    with pytest.raises(_Killed):
        dying.perform(PutIfMatch("b/1", b"y", etag))
    return store


@pytest.mark.parametrize(
    ("op", "folder"),
    [
        (PutIfAbsent("a/1", b"z"), "a"),
        (Get("a/1"), "a"),
        (Head("a/1"), "a"),
        (ListPage("a/"), "a"),
        (PutIfMatch("b/1", b"z", "another"), "b"),
        (Get("b/1"), "b"),
        (PutIfAbsent("b/1", b"z"), "b"),
        (PutIfMatch("b/none", b"z", "another"), "b"),
        (Delete("b/none"), "b"),
    ],
)
def test_a_name_that_another_process_has_not_synced_is_synced_before_it_is_believed(
    killed: LocalStore, op: Op, folder: str
) -> None:
    calls = _Calls()
    LocalStore(killed.root, calls.system).perform(op)
    assert f"{killed.root}/{folder}" in calls.synced


def test_what_was_synced_once_is_not_synced_by_every_reader(killed: LocalStore) -> None:
    assert killed.perform(Get("a/1")).body == b"y"
    assert killed.perform(Get("b/1")).body == b"y"
    calls = _Calls()
    store = LocalStore(killed.root, calls.system)
    for key in ("a/0", "a/1", "b/1"):
        store.perform(Get(key))
        store.perform(Head(key))
    assert _keys(store) == ["a/0", "a/1", "a/2", "b/1", "b/2"]
    assert calls.synced == []


def test_a_listing_syncs_what_it_finds_once_and_not_every_time(killed: LocalStore) -> None:
    calls = _Calls()
    store = LocalStore(killed.root, calls.system)
    assert len(_keys(store)) == 5
    assert calls.synced == [f"{killed.root}/a", f"{killed.root}/b"]
    assert len(_keys(store)) == 5
    assert len(calls.synced) == 2


def test_an_object_keeps_its_etag_when_its_name_becomes_durable(killed: LocalStore) -> None:
    etag = killed.perform(ListPage("a/", "a/0", 1)).objects[0].etag
    assert killed.perform(Get("a/1")).info.etag == etag
    assert killed.perform(Head("a/1")).etag == etag
    assert isinstance(killed.perform(PutIfMatch("a/1", b"z", etag)), Replaced)
    assert killed.perform(PutIfMatch("a/1", b"z", etag)) == Changed()


def test_every_folder_that_leads_to_the_root_is_synced(tmp_path: Path) -> None:
    calls = _Calls()
    LocalStore(str(tmp_path / "very" / "deep"), calls.system).perform(PutIfAbsent("a/b/c", b"x"))
    folders = [path for path in calls.synced if ".lakelog-staging/" not in path]
    above = ["", "very", "very/deep", "very/deep/a", "very/deep/a/b"]
    assert {f"{tmp_path}/{name}".rstrip("/") for name in above} <= set(folders)


def test_a_file_system_that_keeps_no_sticky_bit_is_refused(tmp_path: Path) -> None:
    def plain(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        return os.open(path, flags, mode & ~stat.S_ISVTX, dir_fd=dir_fd)

    with pytest.raises(InvalidInputError, match="does not keep the sticky bit"):
        LocalStore(str(tmp_path), _bent(open=plain)).perform(PutIfAbsent("a", b"x"))
    assert not (tmp_path / "a").exists()


_FAILING = """
import asyncio, errno, os, sys
from lakelog.store import LocalStore, PutIfAbsent
from lakelog.store.system import LINUX

def fsync(handle, real=os.fsync):
    if sys.argv[2] in os.readlink(f"/proc/self/fd/{handle}") + "$":
        raise OSError(errno.EIO, "Input/output error")
    real(handle)

type(LINUX).fsync = staticmethod(fsync)
try:
    asyncio.run(LocalStore(sys.argv[1]).perform_async(PutIfAbsent("a/b", b"x")))
finally:
    print("it goes on")
"""


@pytest.mark.parametrize("what", ["/a$", "/root$", "-staging/"])
def test_a_process_whose_fsync_failed_ends_at_once_and_says_why(
    store: LocalStore, what: str
) -> None:
    argv = [sys.executable, "-c", _FAILING, store.root, what]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (74, "")
    assert done.stderr.startswith(f"lakelog: fsync of {store.root}")
    assert "Input/output error" in done.stderr
    assert "Check the disk" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_failed_fsync_answers_nobody(store: LocalStore) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def end(sentence: str) -> NoReturn:
        raise _Killed(sentence)

    store.perform(PutIfAbsent("a/b", b"x"))
    failing = LocalStore(store.root, _bent(fsync=fail, end=end))
    with pytest.raises(_Killed, match="fsync of"):
        asyncio.run(failing.perform_async(PutIfAbsent("a/b", b"y")))


# ---------------------------------------------------------------------------- leftovers


def _leave(store: LocalStore, name: str, *, age_s: float) -> Path:
    path = _root(store) / ".lakelog-staging" / name
    path.write_bytes(b"half")
    os.utime(path, (0, time.time() - age_s))  # noqa: TID251 (a file's age)
    return path


def test_drafts_of_killed_processes_are_swept_by_the_next_one_that_puts(store: LocalStore) -> None:
    store.perform(PutIfAbsent("a", b"x"))
    _leave(store, "0" * 32, age_s=4000)
    _leave(store, "1" * 32, age_s=3000)
    _leave(store, "notes.txt", age_s=4000)
    alive = _leave(store, "2" * 32, age_s=4000)
    with alive.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        LocalStore(store.root).perform(PutIfAbsent("b", b"x"))
        assert _staged(store) == {"1" * 32, "2" * 32, "notes.txt"}
    assert _keys(store) == ["a", "b"]


def test_a_store_looks_for_leftovers_again_after_an_hour(store: LocalStore) -> None:
    later_s = 0.0
    store = LocalStore(store.root, _bent(now_ns=lambda: time.time_ns() + int(later_s * 1e9)))
    store.perform(PutIfAbsent("a", b"x"))
    _leave(store, "0" * 32, age_s=100)
    store.perform(PutIfAbsent("b", b"x"))
    assert _staged(store) == {"0" * 32}
    later_s = 3700
    store.perform(PutIfAbsent("c", b"x"))
    assert _staged(store) == set()


def test_a_writer_holds_its_draft_while_it_writes(store: LocalStore) -> None:
    def look(handle: int, pieces: list[memoryview]) -> int:
        for path in (_root(store) / ".lakelog-staging").iterdir():
            os.utime(path, (0, 0))
        LocalStore(store.root).perform(PutIfAbsent("other", b"x"))
        return os.writev(handle, pieces)

    put = PutIfAbsent("a", b"x")
    assert isinstance(LocalStore(store.root, _bent(writev=look)).perform(put), Created)
    assert _keys(store) == ["a", "other"]

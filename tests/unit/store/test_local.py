"""What only a store of files can get wrong: links, leftovers, folders, order, other processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError
from lakelog.store import (
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
    each_object,
)
from lakelog.store.folders import Folders


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "root"))


def _root(store: LocalStore) -> Path:
    return Path(store.root)


def _keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.key for info in each_object(store.perform, prefix)]


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
    staged = {path.name for path in (_root(store) / ".lakelog-staging").iterdir()}
    assert staged == {"lock"}
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


class _Scans:
    """Counts how often folders are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        scandir = os.scandir

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return scandir(*arguments)

        monkeypatch.setattr("lakelog.store.folders.os.scandir", counted)


def test_a_quiet_folder_is_read_once_for_all_its_pages(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_root(store) / "f").mkdir(parents=True)
    for number in range(3500):
        (_root(store) / "f" / f"{number:05}").touch()
    _settle(_root(store) / "f", _root(store))
    scans = _Scans(monkeypatch)
    assert len(_keys(store, "f/")) == 3500
    assert scans.count == 1
    assert len(_keys(store, "f/")) == 3500
    assert scans.count == 2, "what a finished listing knew was forgotten"


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
    folders = Folders(str(tmp_path), now_ns=lambda: stamp + 1000)
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


def test_a_full_disk_is_an_unknown_outcome(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.perform(PutIfAbsent("a", b"x"))

    def full(handle: int, pieces: list[memoryview]) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakelog.store.local.os.writev", full)
    with pytest.raises(UnavailableError, match="check the disk and its space"):
        store.perform(PutIfAbsent("b", b"x"))
    monkeypatch.undo()
    assert _keys(store) == ["a"]
    assert {path.name for path in (_root(store) / ".lakelog-staging").iterdir()} == set()
    assert store.perform(PutIfAbsent("a", b"x")) == Exists()


def test_what_this_user_may_not_touch_is_said(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.perform(PutIfAbsent("a", b"x"))

    def refuse(*arguments: Any, **named: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lakelog.store.folders.os.open", refuse)
    with pytest.raises(InvalidInputError, match="give this user access"):
        store.perform(Get("a"))


@pytest.mark.parametrize("at_once", [1, 3, 1 << 20])
def test_pieces_stand_one_behind_the_other_however_little_is_written_at_once(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    real = os.write

    def slow(handle: int, pieces: list[memoryview]) -> int:
        return real(handle, b"".join(pieces)[:at_once])

    monkeypatch.setattr("lakelog.store.local.os.writev", slow)
    pieces = (b"a", b"", bytearray(b"bcd"), memoryview(b"efghi"), b"")
    put = PutIfAbsent("pieces", pieces)
    assert put.size == 9
    assert isinstance(store.perform(put), Created)
    assert store.perform(Get("pieces")).body == b"abcdefghi"


def test_more_pieces_than_one_call_takes(store: LocalStore) -> None:
    pieces = tuple(bytes((number % 256,)) * 3 for number in range(3000))
    store.perform(PutIfAbsent("many", pieces))
    assert store.perform(Get("many")).body == b"".join(pieces)

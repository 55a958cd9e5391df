"""Directories: listed once, nothing asked for its size."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from lakelog.cli.dump.find import Found, display_path, find


def _touch(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()


def _find(directory: Path) -> Iterator[Found]:
    return find([str(directory)], refuse=pytest.fail, say=pytest.fail)


class _Entry:
    """A name in a directory, which must not be asked for more."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        assert not follow_symlinks
        return False

    def stat(self) -> None:
        raise AssertionError(self.name)


def test_of_a_hundred_thousand_names_only_the_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scandir(_path: str) -> AbstractContextManager[Iterator[_Entry]]:
        names = (f"segment-{n // 2:020}.{'index' if n % 2 else 'kfs'}" for n in range(100_000))
        return nullcontext(map(_Entry, names))

    monkeypatch.setattr(os, "scandir", scandir)

    found = _find(tmp_path)

    assert next(found)[2:] == (0, 1)
    assert sum(1 for _ in found) == 49_999


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    _touch(tmp_path / "t-0", f"{0:020}.log")
    (tmp_path / "t-0" / "again").symlink_to(tmp_path)

    assert [one.path for one in _find(tmp_path)] == [f"{tmp_path}/t-0/{0:020}.log"]


def test_files_on_their_way_out_are_left_alone(tmp_path: Path) -> None:
    _touch(tmp_path, f"{0:020}.log", f"{0:020}.log.deleted", "0.log", f"{9:020}.log.swap")

    assert [one.base_offset for one in _find(tmp_path)] == [0]


def test_a_directory_that_cannot_be_listed_is_told_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _touch(tmp_path / "t-0", f"{0:020}.log")
    _touch(tmp_path / "t-1", f"{0:020}.log")
    scandir, refused = os.scandir, list[str]()

    def guarded(path: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if path.endswith("t-0"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)

    found = list(find([str(tmp_path)], refuse=refused.append, say=pytest.fail))

    assert [one.path for one in found] == [f"{tmp_path}/t-1/{0:020}.log"]
    assert refused == [f"{tmp_path}/t-0: Permission denied"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a//b/", "a/b"), ("./a", "./a"), ("/", "/"), ("a/../b", "a/../b")],
)
def test_paths_are_shown_as_java_shows_them(given: str, shown: str) -> None:
    assert display_path(given) == shown

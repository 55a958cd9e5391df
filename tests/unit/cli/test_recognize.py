"""A file is taken for what it is, whatever it is called."""

from pathlib import Path

import pytest

from lakelog.cli.dump.files import SegmentFile, SideFile, recognize_file
from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS
from tests.unit.cli.making import flipped, run, write_segment


@pytest.mark.parametrize("name", FORMATS)
def test_a_segment_is_recognized_in_its_place(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name, base_offset=42)

    found = recognize_file(str(path))

    assert isinstance(found, SegmentFile)
    assert (found.format.name, found.base_offset) == (name, 42)


@pytest.mark.parametrize("name", FORMATS)
def test_a_renamed_segment_tells_its_base_offset(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name, base_offset=42)

    found = recognize_file(str(path.rename(tmp_path / f"copy{path.suffix}")))

    assert isinstance(found, SegmentFile)
    assert (found.format.name, found.base_offset) == (name, 42)


@pytest.mark.parametrize("name", ["kafs", "strm"])
def test_a_magic_is_enough(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name, base_offset=42)

    found = recognize_file(str(path.rename(tmp_path / "downloaded")))

    assert isinstance(found, SegmentFile)
    assert (found.format.name, found.base_offset) == (name, 42)


def test_a_file_kafka_is_about_to_delete_keeps_its_side_files(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafkalog", base_offset=42)

    found = recognize_file(str(path.rename(f"{path}.deleted")))

    assert isinstance(found, SegmentFile)
    assert found.base_offset == 42
    assert found.beside(".index") == f"{path.with_suffix('.index')}.deleted"


@pytest.mark.parametrize("name", ["kafkalog", "kafs", "rustlog"])
def test_an_index_belongs_to_the_format_of_its_log(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name, base_offset=42).with_suffix(".index")

    found = recognize_file(str(path))

    assert isinstance(found, SideFile)
    assert (found.format.name, found.kind, found.base_offset) == (name, ".index", 42)


def test_a_kafs_index_is_known_by_its_magic(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafs").with_suffix(".index")

    result = run("dump", path.rename(tmp_path / "downloaded"))

    assert result.stdout.splitlines()[1:] == ["offset: 0 position: 32"]


def test_a_damaged_rustlog_is_known_by_its_directory_or_by_being_told(tmp_path: Path) -> None:
    inside = write_segment(tmp_path / "topics" / "t" / "partitions" / "0", "rustlog")
    outside = write_segment(tmp_path, "rustlog")
    for path in (inside, outside):
        path.write_bytes(flipped(path.read_bytes(), 11))

    assert recognize_file(str(inside)).format.name == "rustlog"
    assert recognize_file(str(outside)).format.name == "kafkalog"
    assert "expected 2 or above" in run("dump", inside).stderr
    assert "expected 2 or above" not in run("dump", outside).stderr
    assert "expected 2 or above" in run("dump", "--format", "rustlog", outside).stderr


def test_anything_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")

    with pytest.raises(InvalidInputError, match=r"notes\.txt"):
        recognize_file(str(path))

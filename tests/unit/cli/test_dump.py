"""dump: what is read, in which order, how much of it, and how it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.formats import FORMATS
from tests.unit.cli.making import VALUE_AT, batch, flipped, run, write_log, write_segment


def _offsets(output: str) -> list[int]:
    return [int(line.split()[2]) for line in output.splitlines() if line.startswith("| offset: ")]


def _dumped(output: str) -> list[str]:
    return [line.split("/")[-1] for line in output.splitlines() if line.startswith("Dumping ")]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_its_records(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name, base_offset=5)

    result = run("dump", path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Dumping {path}\nLog starting offset: 5\nbaseOffset: 5 ")
    assert _offsets(result.stdout) == list(range(5, 255))


@pytest.mark.parametrize("name", FORMATS)
def test_without_data_only_batches_are_shown(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name)

    with_data, without = run("dump", path).stdout, run("dump", "--no-data", path).stdout

    lines = with_data.splitlines()
    assert without.splitlines() == [line for line in lines if not line.startswith("|")]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("start", "end"), [(0, 3), (100, 101), (123, 250), (249, 999), (250, 260)])
def test_offsets_are_asked_for_half_open(tmp_path: Path, name: str, start: int, end: int) -> None:
    path = write_segment(tmp_path, name)

    result = run("dump", "--offset-from", start, "--offset-to", end, path)

    assert result.exit_code == 0
    assert _offsets(result.stdout) == list(range(start, min(end, 250)))


def test_an_index_that_lies_hides_no_records(tmp_path: Path) -> None:
    path = write_log(tmp_path, [batch(offset, 100) for offset in range(0, 1000, 100)])
    at = 5 * len(batch(0, 100))
    lie = (100).to_bytes(4, "big") + at.to_bytes(4, "big")
    path.with_suffix(".index").write_bytes(lie)

    result = run("dump", "--offset-from", 150, "--limit", 2, path)

    assert _offsets(result.stdout) == [150, 151]


def test_limit_counts_records_over_all_files(tmp_path: Path) -> None:
    for base in (0, 250, 500):
        write_segment(tmp_path, "kafs", base)

    result = run("dump", "--limit", 251, tmp_path)

    assert _offsets(result.stdout) == list(range(251))
    assert len(_dumped(result.stdout)) == 2


def test_limit_counts_batches_without_data(tmp_path: Path) -> None:
    path = write_log(tmp_path, [batch(0), batch(3), batch(6)])

    result = run("dump", "--no-data", "--limit", 2, path)

    assert [line.split()[1] for line in result.stdout.splitlines()[2:]] == ["0", "3"]


def test_directories_go_by_offset_and_partitions_by_number(tmp_path: Path) -> None:
    for topic, base in (("t-10", 0), ("t-2", 3000), ("t-2", 0)):
        write_segment(tmp_path / topic, "kafkalog", base, count=1)
    write_segment(tmp_path / "data" / "t" / "0", "kafs", count=1)

    lines = run("dump", tmp_path).stdout.splitlines()

    assert [line for line in lines if line.startswith("Dumping ")] == [
        f"Dumping {tmp_path}/data/t/0/segment-{0:020}.kfs",
        f"Dumping {tmp_path}/t-2/{0:020}.log",
        f"Dumping {tmp_path}/t-2/{3000:020}.log",
        f"Dumping {tmp_path}/t-10/{0:020}.log",
    ]


def test_segments_of_different_formats_share_a_directory(tmp_path: Path) -> None:
    write_segment(tmp_path, "strm", 250, count=1)
    write_segment(tmp_path, "kafs", 0, count=1)

    assert len(_dumped(run("dump", tmp_path).stdout)) == 2


def test_segments_outside_the_offsets_are_not_opened(tmp_path: Path) -> None:
    for base in (0, 250, 500, 750):
        write_segment(tmp_path, "kafs", base)
    (tmp_path / f"segment-{0:020}.kfs").write_bytes(b"")
    (tmp_path / f"segment-{750:020}.kfs").write_bytes(b"")

    result = run("dump", "--offset-from", 300, "--offset-to", 600, tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert _offsets(result.stdout) == list(range(300, 600))


def test_side_files_are_shown_when_named_or_all_are_asked_for(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafkalog")
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (tmp_path / "notes.txt").write_text("not ours")

    names = _dumped(run("dump", "--all-files", tmp_path).stdout)

    assert _dumped(run("dump", tmp_path).stdout) == [path.name]
    assert names == [
        f"{0:020}.index",
        f"{0:020}.log",
        f"{0:020}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert run("dump", tmp_path / "leader-epoch-checkpoint").stdout.splitlines()[1:] == [
        "epoch: 0 startOffset: 0"
    ]


def test_damage_is_told_with_its_place_and_reading_goes_on(tmp_path: Path) -> None:
    good = batch(0)
    parts = [good, flipped(batch(3), VALUE_AT), batch(6), b"noise" * 20, batch(9)]
    path = write_log(tmp_path, parts)

    result = run("dump", path)

    assert result.exit_code == 1
    first, second, closing = result.stderr.splitlines()
    assert first.startswith(f"lakelog: {path} at byte {len(good)}: CRC-32C is ")
    assert second.startswith(f"lakelog: {path} at byte ")
    assert closing == (
        f"lakelog: damage in 2 places, in 1 file, {len(batch(3)) + 100} bytes affected; "
        f"next: lakelog inspect {path}"
    )
    batches = [line for line in result.stdout.splitlines() if line.startswith("baseOffset")]
    assert [line.rsplit(" ", 1)[1] for line in batches] == ["true", "false", "true", "true"]
    assert _offsets(result.stdout) == list(range(12))


def test_a_batch_that_cannot_be_read_is_still_shown(tmp_path: Path) -> None:
    broken = flipped(batch(0), 61)  # The length of the first record.
    path = write_log(tmp_path, [broken, batch(3)])

    result = run("dump", path)

    assert _offsets(result.stdout) == [3, 4, 5]
    assert result.stdout.splitlines()[2].endswith(" isvalid: false")


def test_a_batch_in_the_wrong_place_is_valid_and_told_all_the_same(tmp_path: Path) -> None:
    path = write_log(tmp_path, [batch(0)], base_offset=5)

    result = run("dump", path)

    assert result.exit_code == 1
    assert "base offset 0" in result.stderr
    assert result.stdout.splitlines()[2].endswith(" isvalid: true")


@pytest.mark.parametrize("option", [(), ("--no-data",)])
def test_a_cut_tail_is_damage_and_space_set_aside_is_not(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    cut = write_log(tmp_path / "cut", [batch(0), batch(3)[:80]])
    roomy = write_log(tmp_path / "roomy", [batch(0), bytes(5000)])

    torn, whole = run("dump", *option, cut), run("dump", *option, roomy)

    assert torn.exit_code == 1
    assert torn.stdout.splitlines()[-1] == f"Found 80 invalid bytes at the end of {cut.name}"
    assert (whole.exit_code, whole.stderr) == (0, "")
    assert "invalid bytes" not in whole.stdout


@pytest.mark.parametrize("name", ["kafs", "strm"])
def test_a_sealed_segment_that_was_cut_is_damaged(tmp_path: Path, name: str) -> None:
    path = write_segment(tmp_path, name)
    path.write_bytes(path.read_bytes()[:-1])

    for option in ((), ("--no-data",)):
        assert run("dump", *option, path).exit_code == 1


def test_without_data_a_kafs_header_that_lies_is_damage(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafs")
    path.write_bytes(flipped(path.read_bytes(), 19))

    result = run("dump", "--no-data", path)

    assert result.exit_code == 1
    assert f"{path} at byte 16: 250 records, the header says 251" in result.stderr


@pytest.mark.parametrize("option", [(), ("--no-data",)])
def test_a_damaged_index_is_told_by_its_own_name(tmp_path: Path, option: tuple[str, ...]) -> None:
    path = write_segment(tmp_path, "kafs")
    index = path.with_suffix(".index")
    index.write_bytes(b"?" + index.read_bytes()[1:])

    result = run("dump", *option, path)

    assert result.exit_code == 1
    assert f"lakelog: {index} at byte 0: " in result.stderr
    assert _offsets(result.stdout) == ([] if option else list(range(250)))


def test_bytes_nobody_wrote_end_without_a_traceback(tmp_path: Path) -> None:
    for name, data in (("noise", os.urandom(3000)), ("ones", b"\xff" * 3000), ("short", b"\0")):
        for suffix in ("log", "kfs", "seg", "index", "timeindex", "txnindex", "snapshot"):
            path = tmp_path / f"{name}.{suffix}"
            path.write_bytes(data)
            for option in ((), ("--no-data",), ("--offset-from", 9), ("--json",)):
                result = run("dump", *option, path)
                assert result.exit_code in (0, 1), (path, result.output)
                assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("no-such-file",),
        ("--limit", "-1", "."),
        ("--offset-from", "x", "."),
        ("--format", "avro", "."),
    ],
)
def test_a_wrong_call_ends_with_2(args: tuple[str, ...]) -> None:
    result = run("dump", *args)

    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_file_of_no_format_ends_with_2_behind_the_others(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    path = write_segment(tmp_path, "kafs", count=1)

    result = run("dump", other, path)

    assert result.exit_code == 2
    assert (
        result.stderr == f"lakelog: {other}: not a segment of any format, nor a file beside one\n"
    )
    assert _offsets(result.stdout) == [0]


def test_a_directory_without_segments_ends_with_2(tmp_path: Path) -> None:
    result = run("dump", tmp_path)

    assert (result.exit_code, result.stderr) == (2, f"lakelog: no segments in {tmp_path}\n")


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    path = write_log(tmp_path, [batch(offset, 1000) for offset in range(0, 50_000, 1000)])
    command = [sys.executable, "-c", "from lakelog.cli import main; main()", "dump", str(path)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b"Dumping ")
        child.stdout.close()
        told = child.stderr.read()

    assert (child.returncode, told) == (0, b"")


def test_a_full_disk_is_told_in_a_word(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafs")
    command = [sys.executable, "-c", "from lakelog.cli import main; main()", "dump", str(path)]

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 1
    assert done.stderr == "Error: cannot write to stdout: No space left on device\n"

"""dump, inspect and pipeline verify on the files of a namespace, by the command line."""

import json
from pathlib import Path

import pytest

from lakelog.cli.runs import EXIT_CODES
from lakelog.cli.view import RunView
from lakelog.keep import MergeSettings
from lakelog.log import Topic
from lakelog.pipeline import Merge, Verdict, Verify, run_here
from lakelog.store import StoreSpec
from tests.stores import write_topic
from tests.unit.cli.making import run, write_segment
from tests.unit.pipeline.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def topic(home: Home) -> Topic:
    """24 records, sealed in two segments, which were merged and not swept yet."""
    made = home.topic(partitions=1)
    for _ in range(2):
        home.fill(made, 4)
        run_here(home.seal())
    settings = MergeSettings(segment_bytes=1 << 20, rows_min=2)
    run_here(Merge(target=StoreSpec(home.url), settings=settings))
    assert len(list(Path(home.url).rglob("*.kfs"))) == 3
    return made


def test_inspect_counts_what_the_manifest_names(home: Home, topic: Topic) -> None:
    result = run("inspect", home.url, "--json")
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["records"] for line in lines] == [24]
    assert "2 files are left out that the manifest does not name" in result.stderr


def test_dump_shows_each_record_once(home: Home, topic: Topic) -> None:
    folder = Path(home.url) / topic.where(0).prefix
    result = run("dump", folder)
    assert result.exit_code == 0
    assert result.stdout.count("| offset: ") == 24
    one = folder / "segment-00000000000000000000.kfs"
    assert run("dump", one).stdout.count("| offset: ") == 12


def test_a_segment_that_is_lost_is_told(home: Home, topic: Topic) -> None:
    (named,) = home.named(topic)
    (Path(home.url) / f"{named}.kfs").unlink()
    result = run("inspect", home.url)
    assert result.exit_code == 2
    assert "is missing, and the manifest beside it names it" in result.stderr


def test_a_manifest_that_cannot_be_read_is_told_and_everything_shown(
    home: Home, topic: Topic
) -> None:
    (Path(home.url) / topic.where(0).prefix / "manifest").write_bytes(b"{")
    result = run("inspect", home.url, "--json")
    assert result.exit_code == 2
    assert "also what was replaced" in result.stderr
    assert len(result.stdout.splitlines()) == 4


def test_segments_of_the_same_offsets_without_a_manifest_are_not_shown_in_silence(
    tmp_path: Path,
) -> None:
    path = write_segment(tmp_path / "orders" / "0", "kafs", count=3)
    path.with_name(f"{path.stem}-{'ab' * 16}.kfs").write_bytes(path.read_bytes())
    for command in ("inspect", "dump"):
        result = run(command, tmp_path)
        assert result.exit_code == 2
        assert "no manifest says which of them counts" in result.stderr


# ---------------------------------------------------------------------------- exit codes


def test_verify_of_nothing_ends_with_4_and_a_sentence(tmp_path: Path) -> None:
    result = run("pipeline", "verify", tmp_path, "--layout", "kafs")
    assert result.exit_code == 4
    assert result.stdout.startswith(f"verify {tmp_path}: nothing found")
    assert "no segment in the layout kafs (TOPIC/PARTITION/segment-OFFSET.kfs)" in result.stdout
    assert "looked at  0 segments of 0 topics" in result.stdout


def test_a_dry_run_on_nothing_ends_with_4_too(tmp_path: Path) -> None:
    result = run("pipeline", "verify", tmp_path, "--layout", "kafs", "--dry-run")
    assert (result.exit_code, "no object at all is there" in result.stdout) == (4, True)
    told = json.loads(
        run("pipeline", "verify", tmp_path, "--layout", "kafs", "--dry-run", "--json").stdout
    )
    assert len(told["missing"]) == 1


@pytest.mark.parametrize("verb", ["reindex", "convert"])
def test_other_verbs_on_nothing_end_with_4(tmp_path: Path, verb: str) -> None:
    arguments: list[object] = ["pipeline", verb, tmp_path, "--layout", "kafs"]
    if verb == "convert":
        arguments[3:3] = [tmp_path / "to", "--to", "strm"]
    assert run(*arguments).exit_code == 4


def test_a_topic_without_records_is_good(home: Home) -> None:
    home.topic()
    words = ("pipeline", "verify", home.url, "--layout", "lakelog", "--topic", "orders")
    result = run(*words)
    assert result.exit_code == 0
    assert "looked at  0 segments of 1 topic\n" in result.stdout
    assert json.loads(run(*words, "--json").stdout)["verdict"] == "good"


def test_every_verdict_has_an_exit_code_of_its_own() -> None:
    assert EXIT_CODES.keys() == set(Verdict)
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert not {2, 3} & set(EXIT_CODES.values())


def test_what_has_no_checksum_is_shown_as_unverifiable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_topic(tmp_path, "rustlog")
    report = run_here(Verify(source=StoreSpec(str(tmp_path)), layout="rustlog"))
    RunView("verify", "here", quiet=True).report(report)
    shown = capsys.readouterr().out
    assert shown.startswith("verify here: unverifiable\n  segments   6 unverifiable\n")
    assert "this format has no checksum: a changed payload or time would not show" in shown
    assert EXIT_CODES[report.verdict] == 5


@pytest.mark.parametrize("verb", ["verify", "reindex", "convert"])
def test_help_tells_how_it_ends(verb: str) -> None:
    assert "4 if" in " ".join(run("pipeline", verb, "--help").stdout.split())

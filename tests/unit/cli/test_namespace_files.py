"""dump, inspect and pipeline verify on the files of a namespace, by the command line."""

import json
from pathlib import Path

import pytest

from lakelog.catalog import Topic
from lakelog.cli.runs import EXIT_CODES
from lakelog.cli.view import RunView
from lakelog.host import THIS_HOST
from lakelog.maintenance import MergeSettings
from lakelog.names import head_key
from lakelog.pipeline import Convert, Merge, Verdict, Verify, run_here
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
    run_here(Merge(host=THIS_HOST, target=StoreSpec(home.url), settings=settings))
    assert len(list(Path(home.url).rglob("*.kfs"))) == 3
    return made


def test_inspect_counts_what_the_manifest_names(home: Home, topic: Topic) -> None:
    result = run("inspect", home.url, "--json")
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["records"] for line in lines] == [24]
    assert "2 files are left out that the manifest does not name" in result.stderr


def test_dump_shows_each_record_once(home: Home, topic: Topic) -> None:
    folder = Path(home.url) / topic.path_of(0).prefix
    result = run("dump", folder)
    assert result.exit_code == 0
    assert result.stdout.count("| offset: ") == 24
    one = folder / "segment-00000000000000000000.kfs"
    assert run("dump", one).stdout.count("| offset: ") == 12


# ---------------------------------------------------------------------------- the journal


@pytest.fixture
def unsealed(home: Home, topic: Topic) -> Topic:
    """24 records that are sealed, and 6 that are not."""
    home.fill(topic, 2)
    return topic


LEFT_OUT = "6 records are only in the journal, and left out here (orders-0 from offset 24 on)"


@pytest.mark.parametrize("command", ["inspect", "dump"])
@pytest.mark.parametrize("below", ["", "orders", "orders/0"])
def test_records_that_are_only_in_the_journal_are_told_of(
    home: Home, unsealed: Topic, command: str, below: str
) -> None:
    result = run(command, Path(home.url, below))
    assert result.exit_code == 0
    assert result.stderr.count(LEFT_OUT) == 1
    assert f"lakelog pipeline seal {home.url} --now makes segments of them" in result.stderr


def test_what_is_said_to_seal_them_leaves_nothing_to_tell_of(home: Home, unsealed: Topic) -> None:
    run_here(home.seal())
    for command in ("inspect", "dump"):
        assert "only in the journal" not in run(command, home.url).stderr


def test_a_namespace_without_a_segment_tells_of_its_journal(home: Home) -> None:
    home.fill(home.topic(partitions=2), 4)
    result = run("inspect", Path(home.url).parent)
    assert "12 records are only in the journal" in result.stderr
    assert "orders-1 from offset 0 on" in result.stderr


def test_a_journal_that_cannot_be_read_is_not_taken_for_an_empty_one(
    home: Home, unsealed: Topic
) -> None:
    Path(home.url, head_key(unsealed.lane(0))).write_bytes(b"{")
    result = run("inspect", home.url)
    assert result.exit_code == 0
    assert "records that are only in the journal are left out; it cannot be read" in result.stderr


def test_other_topics_of_a_journal_are_not_told_of(home: Home, topic: Topic) -> None:
    home.fill(home.topic("other"), 4)
    assert "only in the journal" not in run("inspect", Path(home.url, "orders")).stderr


def test_verify_and_convert_by_segments_tell_of_the_journal(home: Home, unsealed: Topic) -> None:
    source = StoreSpec(home.url)
    to = StoreSpec(f"{home.url}-to")
    jobs = (
        Verify(host=THIS_HOST, source=source, layout="kafs"),
        Convert(host=THIS_HOST, source=source, layout="kafs", target=to, target_layout="strm"),
    )
    for job in jobs:
        report = run_here(job)
        (told,) = [one.what for one in report.findings(10)]
        assert told.startswith(f"{home.url}: {LEFT_OUT}: ")
        assert (report.is_good, report.outcomes["unsealed"], report.segments) == (True, 1, 1)
    assert LEFT_OUT not in str(
        run_here(Verify(host=THIS_HOST, source=to, layout="strm")).findings(10)
    )


def test_a_dry_run_of_verify_tells_of_the_journal(home: Home, unsealed: Topic) -> None:
    words = ("pipeline", "verify", home.url, "--layout", "kafs", "--dry-run")
    assert LEFT_OUT in run(*words).stdout
    told = run(*words, "--json")
    assert (told.exit_code, LEFT_OUT in json.loads(told.stdout)["unsealed"][0]) == (0, True)
    assert not json.loads(run(*words, "--topic", "orders", "--json").stdout)["missing"]


# ---------------------------------------------------------------------------- damage


def test_a_segment_that_is_lost_is_told(home: Home, topic: Topic) -> None:
    (named,) = home.named(topic)
    (Path(home.url) / f"{named}.kfs").unlink()
    result = run("inspect", home.url)
    assert result.exit_code == 2
    assert "is missing, and the manifest beside it names it" in result.stderr


def test_a_manifest_that_cannot_be_read_is_told_and_everything_shown(
    home: Home, topic: Topic
) -> None:
    (Path(home.url) / topic.path_of(0).prefix / "manifest").write_bytes(b"{")
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
    report = run_here(Verify(host=THIS_HOST, source=StoreSpec(str(tmp_path)), layout="rustlog"))
    RunView("verify", "here", quiet=True).report(report)
    shown = capsys.readouterr().out
    assert shown.startswith("verify here: unverifiable\n  segments   6 unverifiable\n")
    assert "this format has no checksum: a changed payload or time would not show" in shown
    assert EXIT_CODES[report.verdict] == 5


@pytest.mark.parametrize("verb", ["verify", "reindex", "convert"])
def test_help_tells_how_it_ends(verb: str) -> None:
    assert "4 if" in " ".join(run("pipeline", verb, "--help").stdout.split())

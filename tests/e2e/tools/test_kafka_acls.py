"""kafka-acls says what Apache's says, of a real Kafka with its authorizer and of lakelog with ours.

Each line is run by both tools on both clusters, on twins. What may differ: stack frames, the list
of options behind a complaint, and the order of ACLs, of resources and of operations, which is
another one in every JVM.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.broker.settings import STANDARD_AUTHORIZER
from tests.e2e.tools.apache import Apache, running_apache
from tests.e2e.tools.comparing import APACHES, OURS, run_ours
from tests.parts.archives import quick_kafka
from tests.parts.kafka import Kafka, running_kafka
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import Finished

pytestmark = pytest.mark.kafka

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
TOOL = "kafka-acls"
_FRAMES = re.compile(r"^\tat [^\n]*\n|^\t\.\.\. \d+ more\n", re.MULTILINE)
_LOGGED = re.compile(r"^\[\d{4}-\d\d-\d\d [^\n]*\n", re.MULTILINE)
_USAGE = re.compile(r"^(?:Option +Description|Options, as Apache).*", re.MULTILINE | re.DOTALL)
_SET = re.compile(r"(?<=only supports operations \[)[^\]]*")

STORY = """
AT --list
AT --add --allow-principal User:alice --operation Read --operation describeconfigs --topic TWIN
AT --add --allow-principal User:alice --operation READ --topic TWIN
AT --add --allow-principal User:bob --deny-principal User:eve --deny-host 10.0.0.1 --topic TWIN
AT --add --allow-principal User:p --producer --idempotent --topic TWIN --transactional-id TWIN
AT --add --allow-principal User:c --consumer --topic TWIN --group TWIN
AT --add --allow-principal User:d --resource-pattern-type prefixed --topic TWIN --operation All
AT --add --allow-principal User:CN=x,O=y --cluster --operation Alter --operation ClusterAction
AT --add --allow-principal User:t --delegation-token TWIN --user-principal User:TWIN --operation All
AT --list --topic TWIN
AT --list --topic TWIN-more --resource-pattern-type match
AT --list --topic TWIN --resource-pattern-type any
AT --list --group TWIN --topic TWIN --topic nothing
AT --list --principal User:alice --topic TWIN
AT --list --topic TWIN --principal User:nobody
AT --remove --force --allow-principal User:alice --operation Read --topic TWIN
AT --remove --force --consumer --allow-principal User:c --topic TWIN --group TWIN
AT --list --topic TWIN --group TWIN
AT --remove --force --topic TWIN --resource-pattern-type match
AT --remove --force --group TWIN --transactional-id TWIN
AT --remove --force --cluster --delegation-token TWIN --user-principal User:TWIN
AT --list
"""

COMPLAINTS = """
--list
--bootstrap-server a:1 --bootstrap-controller a:1 --list
AT --list --add
AT
AT --list --producer
AT --list --allow-principal User:a
AT --add --producer --operation Read --topic a
AT --add --principal User:a
AT --add --producer --allow-principal User:a
AT --add --idempotent --allow-principal User:a
AT --add --consumer --topic a --allow-principal User:a
AT --add --consumer --topic a --group b --cluster --allow-principal User:a
AT --add --allow-principal User:a
AT --add --topic a
AT --add --allow-principal User:a --topic a --operation ClusterAction
AT --add --allow-principal User:a --group a --operation Write
AT --add --allow-principal User:a --cluster --operation Read
AT --add --allow-principal User:a --transactional-id a --operation Read
AT --add --allow-principal User:a --delegation-token a --operation Read
AT --add --allow-principal User:a --user-principal a --operation Read
AT --add --allow-principal User:a --topic a --operation Nothing
AT --add --allow-principal alice --topic a
AT --add --allow-principal User:a --topic a --resource-pattern-type match
AT --add --allow-principal User:a --topic a --resource-pattern-type all
AT --list --resource-pattern-type unknown
AT --list --nonsense
AT --remove
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    with running_apache() as running:
        yield running


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with running_kafka(SETTINGS, jvm=quick_kafka()) as running:
        yield running


@pytest.fixture(scope="module")
def lakelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakelog]:
    config = tmp_path_factory.mktemp("acls") / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    with running_lakelog(arguments=["--kafka-config", str(config)]) as running:
        yield running


def told(done: Finished, twin: str) -> tuple[int, list[list[str]], str]:
    """What was said, in an order that every JVM has."""
    out = _FRAMES.sub("", done.stdout).replace(twin, "TWIN")
    # A space stands before the first ACL, whichever that is.
    blocks = [sorted(block.replace("\n \t", "\n\t").splitlines()) for block in out.split("\n\n")]
    err = _USAGE.sub("", _LOGGED.sub("", _FRAMES.sub("", done.stderr)))
    err = _SET.sub(lambda found: ", ".join(sorted(found[0].split(", "))), err)
    return done.rc, sorted(blocks), err.replace(twin, "TWIN")


def words(line: str, bootstrap: str, twin: str) -> list[str]:
    given = f"{line} ".replace("AT ", f"--bootstrap-server {bootstrap} ").replace("TWIN", twin)
    return shlex.split(given)


def test_acls_of_both_live_the_same_life(apache: Apache, kafka: Kafka, lakelog: Lakelog) -> None:
    """Of both tools on both clusters, one after the other: each leaves nothing behind."""
    said: dict[str, list[object]] = {}
    for name, bootstrap in (("Kafka", kafka.bootstrap), ("lakelog", lakelog.bootstrap)):
        for tool, twin in (("Apache's", APACHES), ("ours", OURS)):
            said[f"{tool} on {name}"] = [
                (
                    line,
                    told(
                        apache.run(TOOL, *words(line, bootstrap, twin))
                        if twin == APACHES
                        else run_ours(TOOL, *words(line, bootstrap, twin)),
                        twin,
                    ),
                )
                for line in lines(STORY)
            ]
    expected = said.pop("Apache's on Kafka")
    assert len(expected) > 20
    for who, found in said.items():
        for mine, theirs in zip(found, expected, strict=True):
            assert mine == theirs, who


def test_both_complain_in_the_same_words(apache: Apache, kafka: Kafka) -> None:
    for line in lines(COMPLAINTS):
        given = words(line, kafka.bootstrap, "x")
        expected, found = apache.run(TOOL, *given), run_ours(TOOL, *given)
        assert (line, told(found, OURS)) == (line, told(expected, OURS))
        assert found.rc == 1


def test_without_an_authorizer_both_are_told_so(apache: Apache) -> None:
    with running_lakelog() as plain:
        given = words("AT --list", plain.bootstrap, "x")
        expected, found = apache.run(TOOL, *given), run_ours(TOOL, *given)
        assert told(found, OURS) == told(expected, OURS)
        assert "SecurityDisabledException: No Authorizer is configured." in found.stdout


def test_what_is_removed_is_asked_for_twice(
    lakelog: Lakelog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Apache's asks a terminal, of which a test has none."""
    at = ["--bootstrap-server", lakelog.bootstrap]
    run_ours(TOOL, *at, "--add", "--allow-principal", "User:a", "--topic", "kept")
    for answer, is_left in (("n", True), ("y", False)):
        (tmp_path / answer).write_text(f"{answer}\n")
        with (tmp_path / answer).open() as given:
            monkeypatch.setattr("sys.stdin", given)
            done = run_ours(TOOL, *at, "--remove", "--topic", "kept")
        assert "Are you sure you want to delete all ACLs" in done.stdout
        listed = run_ours(TOOL, *at, "--list", "--topic", "kept").stdout
        assert ("User:a" in listed) == is_left

"""How tools end: in peace, by a complaint, or because something is missing."""

from collections.abc import Sequence
from io import BytesIO

import pytest

from lakelog.cli.commands import KAFKA_TOOLS
from lakelog.errors import UnavailableError
from lakelog.host import install_command
from lakelog_kafka_tools.running import KAFKA_VERSION, Console, run_tool
from lakelog_kafka_tools.thrown import Thrown, failure, illegal, refused
from tests.unit.cli.making import run


def _ended(raised: BaseException | None) -> tuple[int, str]:
    def tool(_: Sequence[str], console: Console) -> int:
        if raised is not None:
            raise raised
        console.exit(7)

    err = BytesIO()
    return run_tool(tool, (), Console(BytesIO(), err)), err.getvalue().decode()


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (None, 7, ""),
        (
            illegal("no").inside("java.lang.RuntimeException"),
            1,
            (
                'Exception in thread "main" java.lang.RuntimeException:'
                " java.lang.IllegalArgumentException: no\n"
                "Caused by: java.lang.IllegalArgumentException: no\n"
            ),
        ),
        (
            ImportError(name="confluent_kafka"),
            1,
            f"lakelog: confluent_kafka is not installed: {install_command('tools')}\n",
        ),
        (UnavailableError("nobody"), 1, "lakelog: nobody\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_tool_ends_with_a_code_and_a_reason(
    raised: BaseException | None, code: int, text: str
) -> None:
    assert _ended(raised) == (code, text)


def test_what_a_broker_says_is_kept_and_what_it_does_not_say_is_known() -> None:
    assert refused(36, "Topic 'a' already exists.").message == "Topic 'a' already exists."
    assert str(refused(3)) == (
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
        " This server does not host this topic-partition."
    )
    assert refused(30_000).kind == refused(-1).kind
    assert failure(69).name == "GROUP_ID_NOT_FOUND"
    assert Thrown("a.B", None).message == "null"


@pytest.mark.parametrize("tool", KAFKA_TOOLS)
def test_every_tool_is_in_the_list_and_answers_as_apache_does(tool: str) -> None:
    told = run(tool, "--version")

    assert KAFKA_TOOLS[tool].summary in run("--help").stdout
    assert (told.exit_code, told.stdout) == (0, f"{KAFKA_VERSION}\n")
    assert run(tool, "--help").exit_code == 1


def test_arguments_are_handed_on_untouched() -> None:
    told = run("kafka-topics", "-h", "--", "--version")

    assert told.exit_code == 1
    assert told.stderr.startswith("h is not a recognized option\n")

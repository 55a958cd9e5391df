"""Command lines are taken apart as Apache's parser takes them."""

import pytest

from lakelog.cli.commands import KAFKA_TOOLS
from lakelog_kafka_tools.grammar import TITLE, Options, parse, read_usage
from lakelog_kafka_tools.thrown import Thrown


def _parse(*arguments: str, tool: str = "kafka-topics") -> Options:
    return parse(read_usage(tool), arguments)


@pytest.mark.parametrize(
    "arguments",
    [("--topic", "a"), ("--topic=a",), ("-topic", "a"), ("-topic=a",), ("x", "--topic", "a", "y")],
)
def test_a_value_stands_behind_its_name_or_an_equals_sign(arguments: tuple[str, ...]) -> None:
    assert _parse(*arguments).value("topic") == "a"


def test_a_value_may_look_like_an_option() -> None:
    assert _parse("--topic", "--list").value("topic") == "--list"


def test_a_value_that_may_be_missing_is_not_an_option() -> None:
    options = _parse("--state", "--list", tool="kafka-consumer-groups")

    assert options.has("state")
    assert options.has("list")
    assert options.value("state") is None
    assert _parse("--state", "empty", tool="kafka-consumer-groups").value("state") == "empty"


def test_nothing_is_read_behind_two_dashes() -> None:
    assert not _parse("--list", "--", "--delete").has("delete")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nonsense",), "nonsense is not a recognized option"),
        (("--top", "a"), "top is not a recognized option"),
        (("-xyz",), "x is not a recognized option"),
        (("--topic",), "Option topic requires an argument"),
    ],
)
def test_what_cannot_be_read_is_complained_of(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(Thrown) as thrown:
        _parse(*arguments)

    assert thrown.value.message == message


def test_one_value_is_asked_for_and_several_may_be_given() -> None:
    options = _parse("--topic", "a", "--topic", "b")

    assert options.values("topic") == ["a", "b"]
    with pytest.raises(Thrown, match="Found multiple arguments for option topic"):
        options.value("topic")


@pytest.mark.parametrize("text", ["x", "", "1.5", "2147483648", "١"])
def test_a_number_is_one_of_java(text: str) -> None:
    with pytest.raises(Thrown, match=f"Cannot parse argument '{text}' of option partitions"):
        _parse("--partitions", text).number("partitions")


def test_values_are_looked_at_when_they_are_asked_for() -> None:
    assert _parse("--partitions", "x").has("partitions")
    assert _parse("--partitions", "-7").number("partitions") == -7


@pytest.mark.parametrize("tool", KAFKA_TOOLS)
def test_every_tool_has_a_usage_that_names_its_options(tool: str) -> None:
    usage = read_usage(tool)
    assert {"help", "version"} <= set(usage.options)
    assert usage.text.startswith(TITLE)
    assert usage.text.count("\n") == len(usage.options) + 1


def test_lists_in_one_value_are_taken_apart() -> None:
    options = _parse("--delete-config", "a,b", "--delete-config=c", tool="kafka-configs")

    assert options.values("delete-config", ",") == ["a", "b", "c"]

"""kafka-configs: what is asked for, what is set, and where a setting comes from."""

import pytest

from lakelog_kafka_tools import apis, configs
from lakelog_kafka_tools.admin import Entry
from lakelog_kafka_tools.configs import entry_text, parse_added, read_entities
from lakelog_kafka_tools.grammar import parse, read_usage
from lakelog_kafka_tools.thrown import Thrown
from tests.unit.kafka_tools.scripted import metadata, scripted, told


def test_values_with_commas_stand_in_brackets() -> None:
    assert parse_added("a=1,b=[x,y],c = ,d=e") == {"a": "1", "b": "x,y", "c": "", "d": "e"}


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=1,b"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(Thrown, match="all configs to be added must be in the format"):
        parse_added(text)


@pytest.mark.parametrize(
    ("arguments", "types", "names"),
    [
        (["--entity-type", "topics", "--entity-name", "a"], ["topics"], ["a"]),
        (["--topic", "a"], ["topics"], ["a"]),
        (["--broker-defaults"], ["brokers"], [""]),
        (
            ["--entity-type", "users", "--entity-type", "clients", "--entity-name", "u",
             "--entity-default"],
            ["users", "clients"],
            ["u", ""],
        ),
        (["--user", "u", "--client-defaults"], ["users", "clients"], ["u", ""]),
        (["--entity-type", "groups"], ["groups"], []),
    ],
)  # fmt: skip
def test_what_is_asked_for(arguments: list[str], types: list[str], names: list[str]) -> None:
    assert read_entities(parse(read_usage("kafka-configs"), arguments)) == (types, names)


def test_a_setting_tells_where_it_comes_from() -> None:
    synonyms = [("log.cleaner.threads", "2", 2), ("log.cleaner.threads", "1", 5)]

    assert entry_text(Entry("log.cleaner.threads", "2", 2, False, synonyms)) == (
        "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
        "log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}"
    )
    assert entry_text(Entry("p", None, 4, True, ())) == "  p=null sensitive=true synonyms={}"


def test_only_what_was_set_is_shown_unless_all_is_asked_for() -> None:
    rows = [
        {"name": "segment.bytes", "value": "1", "config_source": 5},
        {"name": "retention.ms", "value": "7", "config_source": 1},
    ]
    result = {"resource_type": 2, "resource_name": "a", "configs": rows}
    with scripted({apis.METADATA: {}, apis.DESCRIBE_CONFIGS: {"results": [result]}}) as broker:
        broker.answers[apis.METADATA] = metadata(broker.bootstrap, {"name": "a"})
        given = ("--bootstrap-server", broker.bootstrap, "--describe", "--topic")

        assert told(configs.run, *given, "a").out == (
            "Dynamic configs for topic a are:\n  retention.ms=7 sensitive=false synonyms={}\n"
        )
        assert told(configs.run, *given, "a", "--all").out == (
            "All configs for topic a are:\n"
            "  retention.ms=7 sensitive=false synonyms={}\n"
            "  segment.bytes=1 sensitive=false synonyms={}\n"
        )
        assert told(configs.run, *given, "b").out == (
            "The topic 'b' doesn't exist and doesn't have dynamic config.\n"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--describe",), "At least one entity type must be specified"),
        (("--describe", "--entity-type", "x"), "Invalid entity type x, the entity type must be"),
        (("--describe", "--topic", "a", "--group", "b"), "Only 'users' and 'clients' entity types"),
        (("--alter", "--topic", "a"), "At least one of --add-config, --add-config-file, or"),
        (
            ("--describe", "--broker", "x"),
            "The entity name for brokers must be a valid integer broker id, but it is: x",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    found = told(configs.run, "--bootstrap-server", "x:1", *arguments)

    assert found.code == 1
    assert found.err.startswith(message)
    assert found.err.count("\n") == 1


def test_what_a_broker_refuses_is_told_with_the_arguments() -> None:
    refusal = {"error_code": 40, "error_message": "Unknown topic config name: foo"}
    answers = {apis.METADATA: {}, apis.INCREMENTAL_ALTER_CONFIGS: {"responses": [refusal]}}
    with scripted(answers) as broker:
        broker.answers[apis.METADATA] = metadata(broker.bootstrap)
        given = f"--bootstrap-server {broker.bootstrap} --alter --topic a --add-config foo=1"

        found = told(configs.run, *given.split())

    kind = "org.apache.kafka.common.errors.InvalidConfigurationException"
    said = f"{kind}: Unknown topic config name: foo"
    assert found == (
        1,
        "",
        (
            f"Error while executing config command with args '{given}'\n"
            f"java.util.concurrent.ExecutionException: {said}\nCaused by: {said}\n"
        ),
    )

"""Options mean what they mean in Spark's Kafka source, and nonsense is refused by name."""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.history import EARLIEST, LATEST, Mode
from lakelog.spark.options import ReadOptions, is_new_table, parse_options


def parsed(**options: str) -> ReadOptions:
    return parse_options({"path": "/data", "layout": "kafka", **options})


def test_the_default_is_all_of_every_topic() -> None:
    options = parsed()
    assert options.selection.wants("any", 7)
    assert (options.starting.offset, options.ending.offset) == (EARLIEST, LATEST)
    assert not options.include_headers


def test_names_are_not_case_sensitive() -> None:
    assert parse_options({"PATH": "/d", "Layout": "KAFS", "INCLUDEHEADERS": "True"}).include_headers


def test_topics_are_chosen_by_name_pattern_or_partition() -> None:
    assert parsed(subscribe="a, b").selection.topics == frozenset({"a", "b"})
    by_pattern = parsed(subscribePattern="orders-.*").selection
    assert by_pattern.wants("orders-eu", 0)
    assert not by_pattern.wants("my-orders-eu", 0)
    assert parsed(assign='{"a": [0, 2]}').selection.partitions == frozenset({("a", 0), ("a", 2)})


def test_a_timestamp_for_all_goes_before_one_for_each_and_that_before_offsets() -> None:
    every = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a": {"0": 6}}',
        "startingOffsets": '{"a": {"0": 7}}',
    }
    assert parsed(**every).starting.timestamp == 5
    del every["startingTimestamp"]
    assert parsed(**every).starting.timestamps == {("a", 0): 6}
    del every["startingOffsetsByTimestamp"]
    assert parsed(**every).starting.offsets == {("a", 0): 7}


def test_options_of_the_store_keep_their_case() -> None:
    found = parsed(**{"store.aws_region": "eu", "kafka.bootstrap.servers": "h:1"})
    assert found.store_options == {"aws_region": "eu"}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"subscribe": "a", "assign": "{}"}, "only one of subscribe, assign"),
        ({"startingOffsets": "latest"}, "can't be latest"),
        ({"endingOffsets": "earliest"}, "can't be earliest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "can't be -2"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": "[1]"}, "is not a JSON object"),
        ({"startingOffsets": '{"a": 1}'}, "startingOffsets: like"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"includeHeaders": "yes"}, "not true or false"),
        ({"splitBytes": "many"}, "not a number"),
        ({"mode": "DROPMALFORMED"}, "there are FAILFAST, PERMISSIVE"),
        ({"table": "topics"}, "there are records, segments, batches"),
        ({"table": "batches", "startingOffsets": "earliest"}, "startingOffsets is about records"),
        ({"table": "segments", "mode": "PERMISSIVE"}, "mode is about records, not segments"),
        ({"subscrib": "a"}, "no option 'subscrib'; there are path, layout"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        parsed(**options)


@pytest.mark.parametrize("missing", ["path", "layout"])
def test_where_and_how_must_be_said(missing: str) -> None:
    options = {"path": "/data", "layout": "kafka"}
    del options[missing]
    with pytest.raises(InvalidInputError, match=f"option '{missing}' is missing"):
        parse_options(options)


def test_a_table_without_options_says_where_to_give_them() -> None:
    with pytest.raises(InvalidInputError, match=r"SELECT \* FROM t WITH \(path"):
        parse_options({})


def test_a_new_table_may_have_no_options_because_they_would_be_lost() -> None:
    assert not is_new_table({"path": "/d", "layout": "kafka"})
    assert is_new_table({"owner": "me", "provider": "lakelog"})
    for lost, name in (("option.layout", "layout"), ("location", "location")):
        with pytest.raises(InvalidInputError, match=f"keep '{name}' to itself.* WITH"):
            is_new_table({"owner": "me", "provider": "lakelog", lost: "x"})


def test_damage_and_other_tables_are_options() -> None:
    assert (parsed().mode, parsed().table) == (Mode.FAILFAST, "records")
    assert parsed(mode="permissive").mode is Mode.PERMISSIVE
    assert parsed(table="Segments", columns="topic, bytes").table == "segments"

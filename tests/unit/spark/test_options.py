"""Options mean what they mean in Spark's Kafka source, and nonsense is refused by name."""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.segments import EARLIEST, LATEST, Mode
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
    # A part of the name is enough, as for Spark's own source.
    assert by_pattern.wants("my-orders-eu", 0)
    assert not by_pattern.wants("orders", 0)
    assert parsed(subscribePattern=" ^orders$ ").selection.wants("orders", 0)
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
        ({"subscribe": "a", "assign": "{}"}, "only one of subscribe, assign may be given"),
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


def test_where_the_log_is_must_be_said() -> None:
    with pytest.raises(InvalidInputError, match="option 'path' is missing"):
        parse_options({"layout": "kafka"})


# ---------------------------------------------------------------------------- a namespace


def live(*, query: str = "batch", **options: str) -> ReadOptions:
    return parse_options({"path": "/log", "subscribe": "a", **options}, query=query)


def test_a_namespace_is_meant_unless_a_layout_is_given() -> None:
    assert live().is_live
    assert live().fail_on_data_loss
    assert not parsed().is_live


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert live(query="stream").starting.offset == LATEST
    assert live().starting.offset == EARLIEST
    assert live(query="stream", startingOffsets="earliest").starting.offset == EARLIEST
    assert live(query="any", startingOffsets="latest").starting.offset == LATEST


def test_what_is_meant_for_a_kafka_client_is_passed_over() -> None:
    given = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SSL",
        "kafkaConsumer.pollTimeoutMs": "1",
        "fetchOffset.numRetries": "3",
        "groupIdPrefix": "g",
        "maxOffsetsPerTrigger": "5",
    }
    assert live(**given).offsets_max == 5


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("10s", 10_000), ("250", 250), ("2 h", 7_200_000)]
)
def test_times_are_written_as_spark_reads_them(text: str, ms: int) -> None:
    assert live(query="stream", maxTriggerDelay=text).trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("query", "options", "what"),
    [
        ("batch", {"startingOffsets": "latest"}, "starting offset can't be latest for batch"),
        ("batch", {"startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest"),
        ("batch", {"endingOffsets": "earliest"}, "ending offset can't be earliest for batch"),
        ("batch", {"endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be -2"),
        ("batch", {"subscribe": " , "}, "No topics to subscribe to"),
        ("batch", {"minPartitions": "0"}, "minPartitions must be positive"),
        ("batch", {"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
        ("batch", {"assign": "{}"}, "Only one of the following options can be specified"),
        ("batch", {"mode": "PERMISSIVE"}, "use layout kafs"),
        ("batch", {"table": "batches"}, "there are records, partitions, segments"),
        ("batch", {"failOnDataLoss": "no"}, "failOnDataLoss is 'no', not true or false"),
        ("batch", {"topicIds": "[]"}, "topicIds is not a JSON object"),
        (
            "batch",
            {"kafka.auto.offset.reset": "x"},
            "'auto.offset.reset' is not supported. Instead",
        ),
        ("batch", {"kafka.enable.auto.commit": "x"}, "doesn't commit any offsets"),
        ("batch", {"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
        ("stream", {"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ("stream", {"endingTimestamp": "1"}, "ending offset not valid in streaming queries"),
        ("stream", {"table": "partitions"}, "a stream reads records of a namespace"),
        ("stream", {"layout": "kafka"}, "a stream reads records of a namespace"),
        ("stream", {"maxTriggerDelay": "soon"}, "use a time like 15m"),
        (
            "stream",
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            r"minOffsetPerTrigger\(9\) is higher than the maxOffsetsPerTrigger\(5\)",
        ),
    ],
)
def test_it_is_refused_in_the_words_of_spark_s_kafka_source(
    query: str, options: dict[str, str], what: str
) -> None:
    with pytest.raises(InvalidInputError, match=what):
        live(query=query, **options)


def test_one_way_to_choose_topics_must_be_given_for_records_alone() -> None:
    with pytest.raises(InvalidInputError, match="One of the following options must be specified"):
        parse_options({"path": "/log"})
    assert parse_options({"path": "/log", "table": "partitions"}).selection.wants("any", 1)


@pytest.mark.parametrize("pattern", [r"a\p{L}", "[a-z&&[^b]]", r"\Qa.b\E", "(?<name>a)", " "])
def test_a_pattern_that_only_java_understands_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInputError, match=r"[pP]attern"):
        parse_options({"path": "/log", "subscribePattern": pattern})


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

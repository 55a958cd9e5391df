"""kafka-consumer-groups: its tables, and plans for offsets."""

import pytest

from lakelog_kafka_tools import groups_text
from lakelog_kafka_tools.cluster import Node
from lakelog_kafka_tools.group_admin import Committed, Group, GroupListing, Member
from lakelog_kafka_tools.groups import run
from lakelog_kafka_tools.groups_text import Row, plan_text
from lakelog_kafka_tools.resets import partitions_of, read_plan
from lakelog_kafka_tools.thrown import Thrown, refused
from tests.unit.kafka_tools.scripted import told

_NODE = Node(1, "localhost", 9092)
_CLASSIC = Member("m-1", "", "app", "/10.0.0.1", [("t", 1), ("t", 0)])
_NEW = Member("m-2", "i-2", "app", "/10.0.0.1", [("t", 0)], [("t", 0), ("u", 3)], 7, True)


def test_groups_are_listed_with_what_was_asked_for() -> None:
    found = [GroupListing("g", "Classic", "Empty"), GroupListing("a" * 20, "Consumer", "Stable")]

    assert groups_text.listing(found, types=True, states=True).splitlines() == [
        "GROUP                          TYPE                 STATE               ",
        "g                              Classic              Empty               ",
        "aaaaaaaaaaaaaaaaaaaa           Consumer             Stable              ",
    ]


def test_offsets_and_what_is_left_to_read() -> None:
    rows = [
        Row("g", "t", 0, Committed(3, 5), 10, "m-1", "/10.0.0.1", "app"),
        Row("g", "t", 1, None, None, "-", "-", "-"),
    ]

    assert groups_text.offsets(rows, verbose=True).splitlines() == [
        "",
        (
            "GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  "
            "LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID"
        ),
        (
            "g               t               0          5               3               "
            "10              7               m-1             /10.0.0.1       app"
        ),
        (
            "g               t               1          -               -               "
            "-               -               -               -               -"
        ),
    ]


def test_members_of_a_classic_group() -> None:
    group = Group("g", "Stable", "range", _NODE, [_CLASSIC])

    assert groups_text.members(group, verbose=False, shown=True) == (
        "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
        "\ng               m-1             /10.0.0.1       app             2               \n"
    )
    assert "t:0,1                -               -" in groups_text.members(
        group, verbose=True, shown=True
    )


def test_members_of_both_kinds_say_which_they_are() -> None:
    old = _CLASSIC._replace(is_upgraded=False)
    group = Group("g", "Stable", "uniform", _NODE, [_NEW, old], 9, 8)

    head, first, second = groups_text.members(group, verbose=True, shown=True).splitlines()[1:]

    assert "GROUP-INSTANCE-ID" in head
    assert head.endswith("UPGRADED")
    assert first.split() == ["g", "m-2", "i-2", "/10.0.0.1", "app", "1", "7", "t:0", "8",
                             "t:0;u:3", "true"]  # fmt: skip
    assert second.endswith("false")


def test_the_state_of_a_group() -> None:
    group = Group("g", "Stable", "", _NODE, [_CLASSIC], 3, 4)

    assert groups_text.state(group, verbose=True).splitlines() == [
        "",
        (
            "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                "
            "GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS"
        ),
        (
            "g               localhost:9092  (1)       -                    Stable               "
            "3               4                         1"
        ),
    ]


def test_offsets_that_were_to_be_deleted() -> None:
    text = groups_text.deletions({("t", 0): None, ("none", -1): refused(3)})

    assert text == (
        "\nTOPIC           PARTITION  STATUS         "
        "\nnone            -          Error: org.apache.kafka.common.errors."
        "UnknownTopicOrPartitionException: This server does not host this topic-partition."
        "\nt               0          Successful     \n"
    )


def test_a_plan_is_a_table() -> None:
    assert plan_text({"g": {("t", 0): 7}}) == (
        "\nGROUP           TOPIC           PARTITION  NEW-OFFSET"
        "\ng               t               0          7\n"
    )
    assert plan_text({}) == "\n"


def test_a_plan_is_read_with_and_without_groups() -> None:
    assert read_plan("t,0,7\nt,1,8\n", ["g"]) == {"g": {("t", 0): 7, ("t", 1): 8}}
    assert read_plan("g,t,0,7\nh,t,0,9\n", ["g", "h"]) == {"g": {("t", 0): 7}, "h": {("t", 0): 9}}
    with pytest.raises(Thrown, match="not \\[group,\\]topic,partition,offset"):
        read_plan("t,x,7\n", ["g"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t:x", "Invalid partition 'x' specified in topic arg 't:x''"),
        ("t:1:2", "Invalid topic arg 't:1:2', expected topic name and partitions"),
    ],
)
def test_partitions_are_numbers(text: str, message: str) -> None:
    assert partitions_of("t:0,1") == [("t", 0), ("t", 1)]
    with pytest.raises(Thrown) as thrown:
        partitions_of(text)
    assert thrown.value.message == message


def test_an_option_that_needs_another_is_javas_exception() -> None:
    with pytest.raises(Thrown, match=r"Option\(s\) \[members\] are unavailable"):
        told(run, "--bootstrap-server", "x:1", "--list", "--members")

"""Sets of options, with which Spark's Kafka source and ours are asked for the same records.

    EQUAL     the same rows, or none, by both
    REFUSED   an error by both

The topics, their records and their times are those of ``test_spark_live_contract``: ``orders`` has
three partitions of 80 records each and ``orders-eu`` one of 60; ``cut`` begins at 30 of 100, in
``late`` times do not rise, and ``nothing`` has two partitions without a record.
"""

import json

from tests.e2e.live.twins import START_MS

__all__ = ["EQUAL", "REFUSED", "time_of"]

SPAN_MS = 10
"""From one record to the next."""

Options = dict[str, str]
Places = dict[str, list[int]]
ORDERS: Places = {"orders": [0, 1, 2]}
SOON = {"kafkaConsumer.pollTimeoutMs": "2000"}
"""For what lies beyond the end: Spark's Kafka source waits so long before it believes that."""

# ---------------------------------------------------------------------------- which partitions

SELECTIONS: dict[str, tuple[Options, Places]] = {
    "one topic": ({"subscribe": "orders"}, {"orders": [0, 1, 2]}),
    "two topics": (
        {"subscribe": " orders, orders-eu,"},
        {"orders": [0, 1, 2], "orders-eu": [0]},
    ),
    "a pattern": ({"subscribePattern": "orders.*"}, {"orders": [0, 1, 2], "orders-eu": [0]}),
    "some partitions": (
        {"assign": '{"orders": [0, 2], "orders-eu": [0]}'},
        {"orders": [0, 2], "orders-eu": [0]},
    ),
    "a partition that is not there": ({"assign": '{"orders": [1, 9]}'}, {"orders": [1]}),
}


def by_partition(places: Places, *values: int) -> str:
    """A value for each partition, in turn."""
    keys = [(topic, p) for topic, numbers in places.items() for p in numbers]
    shape: dict[str, dict[str, int]] = {}
    for at, (topic, p) in enumerate(keys):
        shape.setdefault(topic, {})[str(p)] = values[at % len(values)]
    return json.dumps(shape)


def time_of(record: int) -> int:
    return START_MS + SPAN_MS * record


def at(record: int) -> str:
    return str(time_of(record))


def ranges(places: Places) -> dict[str, Options]:
    times = (START_MS + 25, START_MS + SPAN_MS * 40, START_MS + SPAN_MS * 57)
    return {
        "all": {"startingOffsets": "earliest", "endingOffsets": "latest"},
        "offsets": {
            "startingOffsets": by_partition(places, 5, -2, 41),
            "endingOffsets": by_partition(places, 50, 60, -1),
        },
        "an empty range": {
            "startingOffsets": by_partition(places, 20, 30),
            "endingOffsets": by_partition(places, 20, 31),
        },
        "times": {"startingTimestamp": at(11), "endingTimestamp": str(START_MS + 495)},
        "a late end": {"startingTimestamp": at(50), "endingTimestamp": at(10_000)},
        "times of partitions": {
            "startingOffsetsByTimestamp": by_partition(places, *times),
            "endingOffsetsByTimestamp": by_partition(places, times[2], times[2] + 1000),
        },
        "a time before offsets": {
            "startingTimestamp": at(30),
            "startingOffsetsByTimestamp": by_partition(places, times[0]),
            "startingOffsets": by_partition(places, 1),
            "endingOffsetsByTimestamp": by_partition(places, times[2]),
            "endingOffsets": by_partition(places, 15),
        },
        "a late start": {
            "startingTimestamp": at(200),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    }


OTHERS: dict[str, Options] = {
    "defaults": {"subscribe": "orders"},
    "headers": {"subscribe": "orders", "includeHeaders": "true"},
    "names in any case": {"SUBSCRIBE": "orders", "StartingOffsets": "EARLIEST"},
    "one task or more": {"subscribe": "orders", "minPartitions": "1"},
    "many tasks": {"subscribe": "orders", "minPartitions": "7", "includeHeaders": "true"},
    "small tasks": {"subscribe": "orders", "maxRecordsPerPartition": "31"},
    "small and many tasks": {
        "subscribe": "orders-eu",
        "maxRecordsPerPartition": "25",
        "minPartitions": "5",
    },
    "words for a client": {
        "subscribe": "orders-eu",
        "kafka.fetch.max.bytes": "100000",
        "kafka.group.id": "mine",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "5",
        "groupIdPrefix": "us",
    },
    "a stream's limit": {"subscribe": "orders-eu", "maxOffsetsPerTrigger": "3"},
    "nothing": {"subscribe": "nothing"},
    "nothing and something": {"subscribePattern": "nothing|orders-eu"},
    "a pattern of a part": {"subscribePattern": "rder"},
    "a pattern with room around it": {"subscribePattern": " orders-eu "},
    "a pattern of nothing": {"subscribePattern": "no such topic"},
    "a log that begins late": {"subscribe": "cut"},
    "all but the first of it": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 30}}',
        "endingOffsets": '{"cut": {"0": 31}}',
    },
    "what was deleted": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 3}}',
        "endingOffsets": '{"cut": {"0": 40}}',
        "failOnDataLoss": "false",
    },
    "what is not there yet": {
        "subscribe": "cut",
        "endingOffsets": '{"cut": {"0": 500}}',
        "failOnDataLoss": "false",
        **SOON,
    },
    "a time in what was deleted": {"subscribe": "cut", "startingTimestamp": at(3)},
    "the very last record": {"subscribe": "orders-eu", "startingTimestamp": at(59)},
    "the time of one record": {
        "subscribe": "orders-eu",
        "startingTimestamp": at(20),
        "endingTimestamp": at(21),
    },
}  # fmt: skip

PRECEDENCE: dict[str, Options] = {
    "a time before the end": {
        "subscribe": "orders",
        "startingOffsets": "latest",
        "startingTimestamp": at(100),
    },
    "times before the end": {
        "subscribe": "orders",
        "startingOffsets": "latest",
        "startingOffsetsByTimestamp": by_partition(ORDERS, time_of(10), time_of(100)),
    },
    "times of ends before the beginning": {
        "subscribe": "orders",
        "endingOffsets": "earliest",
        "endingOffsetsByTimestamp": by_partition(ORDERS, time_of(10), time_of(100)),
    },
    "the time of an end before both": {
        "subscribe": "orders",
        "endingOffsets": "earliest",
        "endingOffsetsByTimestamp": by_partition(ORDERS, time_of(10), time_of(100)),
        "endingTimestamp": at(33),
    },
    "from a time to offsets": {
        "subscribe": "orders",
        "startingTimestamp": at(33),
        "endingOffsets": by_partition(ORDERS, 20, -1, 50),
    },
    "from offsets to a time": {
        "subscribe": "orders",
        "startingOffsets": by_partition(ORDERS, 20, -2, 30),
        "endingTimestamp": at(133),
    },
    "from times to a time": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": by_partition(ORDERS, time_of(1), time_of(90)),
        "endingTimestamp": at(133),
    },
    "-2 and -1 among offsets, in another order": {
        "assign": '{"orders-eu": [0], "orders": [2, 1]}',
        "startingOffsets": '{"orders": {"2": -2, "1": 79}, "orders-eu": {"0": 59}}',
        "endingOffsets": '{"orders-eu": {"0": -1}, "orders": {"2": 1, "1": -1}}',
    },
    "one late start of three": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": by_partition(ORDERS, time_of(10), time_of(999), time_of(90)),
        "startingOffsetsByTimestampStrategy": "LATEST",
    },
    "late from start to end": {
        "subscribe": "orders",
        "startingTimestamp": at(999),
        "endingTimestamp": at(999),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "an end before everything": {"subscribe": "orders-eu,cut", "endingTimestamp": at(-100)},
    "-2 and -1 among times": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": by_partition(ORDERS, -1, -2, time_of(50)),
    },
    "-2 and -1 among times of ends": {
        "subscribe": "orders",
        "endingOffsetsByTimestamp": by_partition(ORDERS, -1, -2, time_of(50)),
    },
    "-2 as a time": {"subscribe": "orders", "startingTimestamp": "-2", "endingTimestamp": "-1"},
    "-1 as a time": {"subscribe": "orders", "startingTimestamp": "-1"},
    "from the beginning of time": {"subscribe": "orders-eu,cut", "startingTimestamp": "0"},
}

TASKS: dict[str, Options] = {
    "a range in many tasks": {
        "subscribe": "orders",
        "startingOffsets": by_partition(ORDERS, 5, 10, 75),
        "endingOffsets": by_partition(ORDERS, 6, 60, 80),
        "minPartitions": "6",
    },
    "more tasks than records": {
        "subscribe": "orders-eu",
        "startingOffsets": '{"orders-eu": {"0": 28}}',
        "endingOffsets": '{"orders-eu": {"0": 31}}',
        "minPartitions": "100",
    },
    "a record a task": {
        "subscribe": "orders-eu",
        "startingOffsets": '{"orders-eu": {"0": 28}}',
        "endingOffsets": '{"orders-eu": {"0": 33}}',
        "maxRecordsPerPartition": "1",
    },
    "times, at least two and at most seven": {
        "subscribe": "orders",
        "startingTimestamp": at(100),
        "endingTimestamp": at(130),
        "minPartitions": "2",
        "maxRecordsPerPartition": "7",
        "includeHeaders": "true",
    },
}

# One task for a partition: where there are more, those of Spark's Kafka source that lose something
# take each other's consumers, and fail now and then.
LOSSES: dict[str, Options] = {
    "all of it was deleted": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 3}}',
        "endingOffsets": '{"cut": {"0": 10}}',
        "failOnDataLoss": "false",
    },
    "more than there is on both sides": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 0}}',
        "endingOffsets": '{"cut": {"0": 120}}',
        "failOnDataLoss": "FALSE",
        **SOON,
    },
    "losses of two topics": {
        "subscribe": "cut,orders-eu",
        "startingOffsets": '{"cut": {"0": 3}, "orders-eu": {"0": 3}}',
        "endingOffsets": '{"cut": {"0": -1}, "orders-eu": {"0": 90}}',
        "failOnDataLoss": "false",
        **SOON,
    },
    "nothing of what was deleted": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 3}}',
        "endingOffsets": '{"cut": {"0": 3}}',
    },
    "nothing, by offsets": {
        "subscribe": "nothing",
        "startingOffsets": '{"nothing": {"0": 0, "1": -2}}',
        "endingOffsets": '{"nothing": {"0": -1, "1": 0}}',
    },
    "nothing, by time": {
        "subscribe": "nothing",
        "startingTimestamp": at(0),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "nothing, to a time": {"subscribe": "nothing", "endingTimestamp": at(0), "minPartitions": "4"},
}

WORDS: dict[str, Options] = {
    "every name in another case": {
        "ASSIGN": '{"orders": [0]}',
        "STARTINGOFFSETSBYTIMESTAMP": json.dumps({"orders": {"0": time_of(50)}}),
        "endingoffsets": '{"orders": {"0": 50}}',
        "INCLUDEHEADERS": "TRUE",
        "minpartitions": "2",
        "FailOnDataLOSS": "False",
    },
    "spaces around words": {
        "subscribe": "orders",
        "startingOffsets": " Earliest ",
        "endingOffsets": " LATEST ",
    },
    "a topic twice": {"subscribe": "orders-eu,orders-eu"},
    "a pattern of one of two": {"subscribePattern": "orders(?!-eu).*"},
    "a pattern in any case": {"subscribePattern": "(?i)ORDERS-E."},
    "a pattern of classes": {"subscribePattern": r"^[n-p]r\w+\-[^0-9]{2}$"},
    "more words for a client": {
        "subscribe": "orders-eu",
        "kafka.client.id": "me",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "5",
        "kafka.security.protocol": "PLAINTEXT",
        "minOffsetsPerTrigger": "5",
        "maxTriggerDelay": "1s",
    },
}

UNORDERED: dict[str, Options] = {
    "times that do not rise": {"subscribe": "late", "startingTimestamp": at(58)},
    "times that do not rise, from and to": {
        "subscribe": "late",
        "startingTimestamp": str(time_of(52) + 1),
        "endingTimestamp": str(time_of(58) + 1),
    },
}

EQUAL: dict[str, Options] = (
    {
        f"{who}: {what}": {**chosen, **where, "includeHeaders": str(len(what) % 2 == 0).lower()}
        for who, (chosen, places) in SELECTIONS.items()
        for what, where in ranges(places).items()
        if who in ("two topics", "some partitions") or what in ("all", "offsets", "times")
    }
    | OTHERS
    | PRECEDENCE
    | TASKS
    | LOSSES
    | WORDS
    | UNORDERED
)

REFUSED: dict[str, Options] = {
    "no topics": {},
    "no name": {"subscribe": " ,"},
    "two ways to choose": {"subscribe": "orders", "subscribePattern": "o.*"},
    "an empty pattern": {"subscribePattern": " "},
    "no assignment": {"assign": "orders"},
    "an unknown topic": {"subscribe": "unknown"},
    "a beginning at the end": {"subscribe": "orders", "startingOffsets": "latest"},
    "one partition's beginning at its end": {
        "subscribe": "orders-eu",
        "startingOffsets": '{"orders-eu": {"0": -1}}',
    },
    "an end at the beginning": {"subscribe": "orders", "endingOffsets": "earliest"},
    "one partition's end at its beginning": {
        "subscribe": "orders-eu",
        "endingOffsets": '{"orders-eu": {"0": -2}}',
    },
    "too few partitions": {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 1}}'},
    "too many partitions": {
        "subscribe": "orders-eu",
        "startingOffsets": '{"orders-eu": {"0": 1, "1": 1}}',
    },
    "too few ends": {"subscribe": "orders", "endingOffsets": '{"orders": {"0": 1}}'},
    "too few times": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": '{"orders": {"0": 1}}',
    },
    "a beginning behind the end": {
        "subscribe": "orders-eu",
        "startingOffsets": '{"orders-eu": {"0": 9}}',
        "endingOffsets": '{"orders-eu": {"0": 8}}',
    },
    "no JSON": {"subscribe": "orders", "startingOffsets": "{"},
    "no offsets": {"subscribe": "orders", "startingOffsets": '{"orders": 3}'},
    "a time that no record reaches": {"subscribe": "orders", "startingTimestamp": at(10_000)},
    "no tasks": {"subscribe": "orders", "minPartitions": "0"},
    "no records": {"subscribe": "orders", "maxRecordsPerPartition": "0"},
    "what was deleted": {"subscribe": "cut", "startingOffsets": '{"cut": {"0": 3}}'},
    "what is not there yet": {
        "subscribe": "cut",
        "endingOffsets": '{"cut": {"0": 500}}',
        **SOON,
    },
    "one topic of two": {"subscribe": "orders-eu,unknown"},
    "offset -3": {"subscribe": "orders-eu", "startingOffsets": '{"orders-eu": {"0": -3}}'},
    "no pattern": {"subscribePattern": "orders("},
    "an end before its beginning, by time": {
        "subscribe": "orders",
        "startingTimestamp": at(99),
        "endingTimestamp": at(9),
    },
    "a beginning that is not there yet, whatever is lost": {
        "subscribe": "cut",
        "startingOffsets": '{"cut": {"0": 500}}',
        "failOnDataLoss": "false",
    },
    "auto.offset.reset": {"subscribe": "orders", "kafka.auto.offset.reset": "earliest"},
    "a deserializer": {"subscribe": "orders", "kafka.value.deserializer": "x"},
    "commits": {"subscribe": "orders", "kafka.enable.auto.commit": "true"},
}

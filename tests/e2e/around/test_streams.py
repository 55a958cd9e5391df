"""Kafka Streams counts words on lakelog, is stopped, and goes on counting where it was.

    lines --stream--> words --repartitioned--> counts, in memory --changelog--> out

It makes two topics of its own, one compacted, deletes from the other what it has read, and brings
its counts back from the first.
"""

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.parts.jars import around_classpath
from tests.parts.jvm import QUICK, java
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import mortal
from tests.patience import LateError, in_time

SOURCE = Path(__file__).parent / "java" / "WordCount.java"
LINES = ["to be or not to be", "that is the question", "to sleep perchance to dream"]
ROUNDS = 40
PATIENCE_S = 90


@contextmanager
def counting(broker: Lakelog, home: Path) -> Iterator[None]:
    """Let it count until the context ends, then end it in good order."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    argv = [java(), *QUICK, "-Xmx256m", quiet, "-cp", around_classpath(SOURCE), "WordCount"]
    argv += [broker.bootstrap, "words", "lines", "counts", str(home)]
    with (home / "words.log").open("ab") as log:
        child = subprocess.Popen(
            mortal(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        killer = threading.Timer(PATIENCE_S, child.kill)
        killer.start()
        try:
            first = child.stdout.readline()
            if first != "running\n":
                raise LateError(f"{first!r}: {(home / 'words.log').read_text()[-3000:]}")
            killer.cancel()
            yield
        finally:
            killer.cancel()
            child.stdin.close()
            child.wait(60)
    assert child.returncode == 0, (home / "words.log").read_text()[-3000:]


def send(broker: Lakelog) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(ROUNDS):
        for line in LINES:
            producer.produce("lines", line, key=str(number))
    assert producer.flush(PATIENCE_S) == 0


def await_counts(broker: Lakelog, expected: Counter[str]) -> None:
    """Read counts until every word has as many as it should; none may ever have more."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader-{sum(expected.values())}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["counts"])
    newest: dict[str, int] = {}
    left = PATIENCE_S * 2
    try:
        while newest != expected:
            message = consumer.poll(0.5)
            left -= message is None
            in_time(left > 0, f"{newest} is not {dict(expected)}")
            if message is not None and message.error() is None:
                word, count = message.key().decode(), int(message.value())
                assert count <= expected[word]
                newest[word] = count
    finally:
        consumer.close()


@pytest.mark.kafka
def test_words_are_counted_and_go_on_being_counted_by_the_next_process(tmp_path: Path) -> None:
    once = Counter(word for line in LINES for word in line.split() for _ in range(ROUNDS))
    with running_lakelog() as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic("lines", 3), NewTopic("counts", 2)]
        for made in client.create_topics(topics).values():
            made.result(30)
        send(broker)
        for rounds in (1, 2):
            home = tmp_path / str(rounds)
            home.mkdir()
            with counting(broker, home):
                await_counts(broker, Counter({word: rounds * n for word, n in once.items()}))
            send(broker)
        names = client.list_topics(timeout=30).topics
        changelog = [name for name in names if name.endswith("-changelog")]
        assert len(changelog) == 1
        assert sum(name.endswith("-repartition") for name in names) == 1

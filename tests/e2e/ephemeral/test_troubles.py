"""Each trouble that a test can ask for: what a real client sees of it, and that nothing which was
acknowledged is lost.

The client is librdkafka, made as the fixtures of pytest make it; what is in the log is read from
the store.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.ephemeral import EphemeralBroker
from lakelog.errors import InvalidInputError, NotFoundError
from pytest_lakelog.clients import Clients
from tests.patience import HANGS_S

AWHILE_S = 0.5
"""Long enough for an answer that is not held up."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EphemeralBroker]:
    with EphemeralBroker() as broker:
        yield broker


@pytest.fixture
def topic(broker: EphemeralBroker) -> str:
    return broker.create_topic()


@pytest.fixture
def clients(broker: EphemeralBroker) -> Iterator[Clients]:
    with Clients(broker.bootstrap_servers, "confluent-kafka") as clients:
        yield clients


class Acknowledged:
    """A producer, and what it was told of each value."""

    def __init__(self, clients: Clients, settings: dict[str, Any] | None = None) -> None:
        self._producer = clients.producer(settings or {})
        self.values: list[bytes] = []
        self.refused: list[bytes] = []

    def send(self, topic: str, *values: bytes) -> "Acknowledged":
        for value in values:
            self._producer.produce(topic, value, on_delivery=self._told)
        return self

    def wait(self, within_s: float = HANGS_S) -> int:
        """Return how many were not answered within so long."""
        return int(self._producer.flush(within_s))

    def _told(self, error: Any, message: Any) -> None:
        (self.refused if error else self.values).append(message.value())


def values(broker: EphemeralBroker, topic: str) -> list[bytes | None]:
    return [one.value for one in broker.records(topic)]


@pytest.mark.parametrize("trouble", [{"store": "unavailable"}, {"disk": "full"}])
def test_what_the_store_does_not_take_is_acknowledged_once_it_does(
    broker: EphemeralBroker, topic: str, clients: Clients, trouble: dict[str, str]
) -> None:
    told = Acknowledged(clients).send(topic, b"before")
    assert told.wait() == 0
    with broker.trouble(**trouble):
        told.send(topic, b"meanwhile")
        assert told.wait(AWHILE_S) == 1
        assert told.values == [b"before"]
        assert values(broker, topic) == [b"before"]
    assert told.wait() == 0
    assert told.values == [b"before", b"meanwhile"]
    assert values(broker, topic) == [b"before", b"meanwhile"]


def test_a_producer_that_gives_up_is_told_so(broker: EphemeralBroker, topic: str) -> None:
    with Clients(broker.bootstrap_servers) as clients, broker.trouble(store="unavailable"):
        told = Acknowledged(clients, {"message.timeout.ms": 1_000}).send(topic, b"in vain")
        assert told.wait() == 0
        assert (told.values, told.refused) == ([], [b"in vain"])


def test_a_slow_store_makes_slow_acknowledgements(
    broker: EphemeralBroker, topic: str, clients: Clients
) -> None:
    told = Acknowledged(clients).send(topic, b"before")
    assert told.wait() == 0
    with broker.trouble(store="slow", delay_s=0.3):
        began = time.monotonic()
        assert told.send(topic, b"meanwhile").wait() == 0
        assert time.monotonic() - began >= 0.3
    assert values(broker, topic) == [b"before", b"meanwhile"]


def test_a_put_whose_answer_was_lost_is_found_again_and_not_repeated(
    broker: EphemeralBroker, topic: str, clients: Clients
) -> None:
    sent = [b"%d" % number for number in range(20)]
    told = Acknowledged(clients)
    with broker.trouble(store="ambiguous"):
        for value in sent:
            assert told.send(topic, value).wait() == 0
    assert told.values == sent
    assert values(broker, topic) == sent


def test_a_lost_answer_is_asked_for_again_and_only_idempotence_keeps_the_record_single(
    broker: EphemeralBroker, topic: str, clients: Clients
) -> None:
    told = Acknowledged(clients)
    with broker.trouble(answers="lost", times=1):
        assert told.send(topic, b"once").wait() == 0
    assert told.values == [b"once"]
    assert values(broker, topic) == [b"once"]
    careless = Acknowledged(clients, {"enable.idempotence": False})
    with broker.trouble(answers="lost", times=1):
        assert careless.send(topic, b"twice").wait() == 0
    assert careless.values == [b"twice"]
    assert values(broker, topic) == [b"once", b"twice", b"twice"]


def test_answers_about_one_topic_are_slow_and_those_about_another_are_not(
    broker: EphemeralBroker, topic: str, clients: Clients
) -> None:
    other = broker.create_topic()
    late, quick = Acknowledged(clients), Acknowledged(clients)
    for told, where in ((late, topic), (quick, other)):
        assert told.send(where, b"before").wait() == 0
    with broker.trouble(answers="slow", topic=topic, delay_s=2.0):
        began = time.monotonic()
        late.send(topic, b"late")
        assert broker.wait_for(topic, 2)[1].value == b"late"
        assert quick.send(other, b"quick").wait() == 0
        assert late.values == [b"before"]
        assert late.wait() == 0
        assert time.monotonic() - began >= 2.0
    assert values(broker, topic) == [b"before", b"late"]
    assert values(broker, other) == [b"before", b"quick"]


def test_clients_outlive_a_broker_that_is_down_for_a_while(
    broker: EphemeralBroker, topic: str, clients: Clients
) -> None:
    told = Acknowledged(clients).send(topic, b"before")
    assert told.wait() == 0
    consumer = clients.consumer(topic)
    assert consumer.poll(HANGS_S).value() == b"before"
    consumer.commit(asynchronous=False)
    address = broker.bootstrap_servers
    with broker.trouble(broker="down"):
        told.send(topic, b"meanwhile")
        assert told.wait(AWHILE_S) == 1
    assert broker.bootstrap_servers == address
    assert told.wait() == 0
    message = consumer.poll(HANGS_S)
    while message is not None and message.error() is not None:
        message = consumer.poll(HANGS_S)
    assert message is not None
    assert message.value() == b"meanwhile"
    assert values(broker, topic) == [b"before", b"meanwhile"]


def test_a_rebalance_now_takes_partitions_and_gives_them_back(
    broker: EphemeralBroker, clients: Clients
) -> None:
    topic, seen = broker.create_topic(partitions=2), list[str]()
    told = Acknowledged(clients).send(topic, b"1", b"2")
    assert told.wait() == 0
    consumer = clients.consumer(settings={"group.id": "shaken", "client.id": "one"})
    consumer.subscribe(
        [topic],
        on_assign=lambda *_: seen.append("assigned"),
        on_revoke=lambda *_: seen.append("revoked"),
    )
    read = {consumer.poll(HANGS_S).value() for _ in range(2)}
    consumer.commit(asynchronous=False)
    assert broker.groups()["shaken"].members == ("one",)
    assert sum(broker.groups()["shaken"].offsets.values()) == 2
    broker.rebalance("shaken")
    until_s = time.monotonic() + HANGS_S
    while seen != ["assigned", "revoked", "assigned"] and time.monotonic() < until_s:
        consumer.poll(0.05)
    assert seen == ["assigned", "revoked", "assigned"]
    assert told.send(topic, b"3").wait() == 0
    read.add(consumer.poll(HANGS_S).value())
    assert read == {b"1", b"2", b"3"}
    with pytest.raises(NotFoundError, match="no-such-group"):
        broker.rebalance("no-such-group")


def test_one_trouble_at_a_time_and_only_those_that_there_are(broker: EphemeralBroker) -> None:
    with (
        broker.trouble(store="slow", disk="full"),
        pytest.raises(InvalidInputError, match="name all that go together"),
        broker.trouble(answers="lost"),
    ):
        pass
    with (
        pytest.raises(InvalidInputError, match='store="unavailable" or'),
        broker.trouble(store="?"),
    ):
        pass
    with pytest.raises(InvalidInputError, match="needs one of"), broker.trouble():
        pass
    with (
        pytest.raises(InvalidInputError, match="about answers"),
        broker.trouble(disk="full", times=1),
    ):
        pass


def test_what_does_not_come_is_said(broker: EphemeralBroker, topic: str) -> None:
    with pytest.raises(TimeoutError, match="has 0 records and not 1"):
        broker.wait_for(topic, 1, timeout_s=0.1)
    with pytest.raises(NotFoundError):
        broker.records("no-such-topic")
    with pytest.raises(InvalidInputError, match=topic):
        broker.create_topic(topic)

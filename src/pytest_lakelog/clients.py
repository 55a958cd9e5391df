"""Producers and consumers for tests: of the client that is installed, quick, and closed at the end.

Each client has its own settings for the same thing. What makes a test slow is waiting: for more
records to send with the first, for a fetch to fill, for the next heartbeat to tell of a rebalance,
for a broker that was away to be tried again. Whatever a test gives overrides these.

A client of aiokafka belongs to the loop of its test, which alone can close it: use ``async with``.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.host import new_id

__all__ = ["Clients"]

FLUSH_S = 10.0

_MODULES = {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "aiokafka": "aiokafka"}

_CONFLUENT = {
    "log_level": 3,
    "socket.nagle.disable": True,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
}
_CONFLUENT_PRODUCER = {**_CONFLUENT, "linger.ms": 0, "enable.idempotence": True}
_CONFLUENT_CONSUMER = {
    **_CONFLUENT,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 10,
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 100,
}
_PYTHON = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 10}
_PYTHON_PRODUCER = {**_PYTHON, "linger_ms": 0, "acks": "all"}
_PYTHON_CONSUMER = {
    **_PYTHON,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 100,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 100,
}
_ASYNC_PRODUCER = {
    "linger_ms": 0,
    "acks": "all",
    "enable_idempotence": True,
    "retry_backoff_ms": 10,
}
_ASYNC_CONSUMER = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 100,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 100,
    "retry_backoff_ms": 10,
}


class _Client(NamedTuple):
    """How the clients of one library are made."""

    producer: Callable[[str, Mapping[str, Any], ExitStack], Any]
    consumer: Callable[[str, tuple[str, ...], Mapping[str, Any], ExitStack], Any]


class Clients:
    """The clients of one test. Use it as a context: at its end they are closed."""

    def __init__(self, bootstrap_servers: str, library: str = "") -> None:
        """Take a library.

        Raises:
            InvalidInputError: it is not known, or none is installed.
        """
        self._bootstrap = bootstrap_servers
        self._client = _CLIENTS[_choose(library)]
        self._closing = ExitStack()

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def producer(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Return a new producer. Settings with dots in their names are given as a mapping."""
        return self._client.producer(self._bootstrap, {**(settings or {}), **more}, self._closing)

    def consumer(self, *topics: str, settings: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Return a new consumer, which has subscribed to topics."""
        given = {**(settings or {}), **more}
        return self._client.consumer(self._bootstrap, topics, given, self._closing)


def _choose(library: str) -> str:
    if library and library not in _MODULES:
        raise InvalidInputError(f"lakelog_client = {library}: use one of {', '.join(_MODULES)}")
    for name, module in _MODULES.items():
        if name == (library or name) and find_spec(module) is not None:
            return name
    wanted = library or "a client of Kafka"
    raise InvalidInputError(
        f"{wanted} is not installed: pip install {library or 'confluent-kafka'}"
    )


def _group() -> str:
    return f"group-{new_id().hex()[:12]}"


# ---------------------------------------------------------------------------- confluent-kafka


def _confluent_producer(bootstrap: str, given: Mapping[str, Any], closing: ExitStack) -> Any:
    from confluent_kafka import Producer

    made = Producer({**_CONFLUENT_PRODUCER, "bootstrap.servers": bootstrap, **given})
    closing.callback(made.flush, FLUSH_S)
    return made


def _confluent_consumer(
    bootstrap: str, topics: tuple[str, ...], given: Mapping[str, Any], closing: ExitStack
) -> Any:
    from confluent_kafka import Consumer

    where = {"bootstrap.servers": bootstrap, "group.id": _group()}
    made = Consumer({**_CONFLUENT_CONSUMER, **where, **given})
    closing.callback(made.close)
    if topics:
        made.subscribe(list(topics))
    return made


# ---------------------------------------------------------------------------- kafka-python


def _python_producer(bootstrap: str, given: Mapping[str, Any], closing: ExitStack) -> Any:
    from kafka import KafkaProducer

    made = KafkaProducer(**{**_PYTHON_PRODUCER, "bootstrap_servers": bootstrap, **given})
    closing.callback(made.close, timeout=FLUSH_S)
    return made


def _python_consumer(
    bootstrap: str, topics: tuple[str, ...], given: Mapping[str, Any], closing: ExitStack
) -> Any:
    from kafka import KafkaConsumer

    where = {"bootstrap_servers": bootstrap, "group_id": _group()}
    made = KafkaConsumer(*topics, **{**_PYTHON_CONSUMER, **where, **given})
    closing.callback(made.close)
    return made


# ---------------------------------------------------------------------------- aiokafka


def _async_producer(bootstrap: str, given: Mapping[str, Any], _: ExitStack) -> Any:
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(**{**_ASYNC_PRODUCER, "bootstrap_servers": bootstrap, **given})


def _async_consumer(
    bootstrap: str, topics: tuple[str, ...], given: Mapping[str, Any], _: ExitStack
) -> Any:
    from aiokafka import AIOKafkaConsumer

    where = {"bootstrap_servers": bootstrap, "group_id": _group()}
    return AIOKafkaConsumer(*topics, **{**_ASYNC_CONSUMER, **where, **given})


_CLIENTS = {
    "confluent-kafka": _Client(_confluent_producer, _confluent_consumer),
    "kafka-python": _Client(_python_producer, _python_consumer),
    "aiokafka": _Client(_async_producer, _async_consumer),
}

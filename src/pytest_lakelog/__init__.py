"""Kafka in pytest: fixtures that every test has where ``lakelog[server]`` is installed.

    kafka_broker              a broker: of the session, or of what the setting lakelog_scope says
    kafka_bootstrap_servers   its address, for any client
    kafka_topic               a topic of this test
    kafka_producer, kafka_consumer
                              functions that make clients, which are closed when the test ends

pytest imports this module in every run of everybody who has it installed. So it imports nothing but
pytest: the broker is imported by the first test that asks for one.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lakelog.ephemeral import EphemeralBroker

__all__ = [
    "kafka_bootstrap_servers",
    "kafka_broker",
    "kafka_consumer",
    "kafka_producer",
    "kafka_topic",
    "pytest_addoption",
]

SCOPES = ("session", "package", "module", "class", "function")
_NAME_CHARS_MAX = 100
_OTHER = re.compile(r"[^a-zA-Z0-9._-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of this plugin to those of pytest."""
    parser.addini(
        "lakelog_scope",
        "How many tests share a Kafka broker: session, package, module, class or function.",
        default="session",
    )
    parser.addini(
        "lakelog_properties",
        "Lines of Kafka's server.properties for the broker, name=value.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "lakelog_client",
        "Which client the fixtures make: confluent-kafka, kafka-python or aiokafka; if it is not"
        " set, the first of these that is installed.",
        default="",
    )


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ARG001 (pytest's names)
    scope = config.getini("lakelog_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"lakelog_scope = {scope}: use one of {', '.join(SCOPES)}")
    return scope


@pytest.fixture(scope=_scope)
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[EphemeralBroker]":
    """A broker in a thread of this process, on a temporary folder."""
    try:
        from lakelog.ephemeral import EphemeralBroker
    except ImportError as error:
        raise pytest.UsageError(
            f"a Kafka broker needs {error.name}: pip install 'lakelog[server]'"
        ) from error
    lines = (line.partition("=") for line in request.config.getini("lakelog_properties"))
    with EphemeralBroker({name.strip(): value.strip() for name, _, value in lines}) as broker:
        yield broker


@pytest.fixture(scope=_scope)
def kafka_bootstrap_servers(kafka_broker: "EphemeralBroker") -> str:
    """What any client of Kafka is told: bootstrap.servers."""
    return kafka_broker.bootstrap_servers


@pytest.fixture
def kafka_topic(kafka_broker: "EphemeralBroker", request: pytest.FixtureRequest) -> str:
    """A topic of this test, which is named like it."""
    from lakelog.host import new_id

    stem = _OTHER.sub("-", request.node.name)[:_NAME_CHARS_MAX].strip("-")
    return kafka_broker.create_topic(f"{stem}-{new_id().hex()[:8]}")


@pytest.fixture
def kafka_producer(
    kafka_broker: "EphemeralBroker", request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """A function that makes a producer; its arguments are settings, by the names of the client."""
    from pytest_lakelog.clients import Clients

    with Clients(kafka_broker.bootstrap_servers, request.config.getini("lakelog_client")) as made:
        yield made.producer


@pytest.fixture
def kafka_consumer(
    kafka_broker: "EphemeralBroker", request: pytest.FixtureRequest
) -> Iterator[Callable[..., Any]]:
    """A function that makes a consumer of topics, in a group of its own unless one is named."""
    from pytest_lakelog.clients import Clients

    with Clients(kafka_broker.bootstrap_servers, request.config.getini("lakelog_client")) as made:
        yield made.consumer

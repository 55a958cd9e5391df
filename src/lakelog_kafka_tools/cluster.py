"""Which broker is asked, and how often.

Any broker tells which others there are, which coordinates a group and which leads a partition. A
request that reaches none, or one that is just handing its part over, is sent again until the time
of a call is over; then the call fails with the message of Java's admin client.
"""

import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from lakelog.errors import UnavailableError
from lakelog_kafka_tools import apis
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.java import split
from lakelog_kafka_tools.link import Link
from lakelog_kafka_tools.settings import read_security, timeout_ms
from lakelog_kafka_tools.thrown import Thrown, check_codes, config_error, kafka_error, refused

__all__ = [
    "Cluster",
    "Connect",
    "Node",
    "check_bootstrap",
    "open_cluster",
    "parse_bootstrap",
    "worst_code",
]

T = TypeVar("T")
Code = Callable[[dict[str, Any]], int]
"""Finds the error code of an answer."""
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_REQUEST_S = 30.0
_CONNECT_S = 10.0
_PAUSE_S = 0.1
_MOVING = {5, 6, 7, 14, 15, 16, 41}
"""Leaders, coordinators and controllers that are not there yet, or not any more."""


class Node(NamedTuple):
    """A broker, by its id and its address."""

    id: int
    host: str
    port: int


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Return the addresses in a list of them.

    Raises:
        Thrown: one is no address, or no host name of them can be resolved.
    """
    addresses: list[tuple[str, int]] = []
    is_resolved = False
    for part in (one.strip() for one in text.split(",")):
        if not part:
            continue
        found = _ADDRESS.fullmatch(part)
        if found is None:
            raise _not_made(f"Invalid url in bootstrap.servers: {part}")
        addresses.append((found[1], int(found[2])))
        try:
            is_resolved |= bool(socket.getaddrinfo(found[1], int(found[2])))
        except (OSError, OverflowError):
            continue
    if not is_resolved:
        raise _not_made("No resolvable bootstrap urls given in bootstrap.servers")
    return addresses


def check_bootstrap(text: str | None) -> str | None:
    """Return what is wrong with a list of addresses, as some tools check it before all else."""
    if text is None or not text.strip():
        return "Error while validating the bootstrap address\n"
    if all(_ADDRESS.fullmatch(part) for part in split(text, ",")):
        return None
    return "Please provide valid host:port like host1:9091,host2:9092\n"


def _not_made(why: str) -> Thrown:
    message = "Failed to create new KafkaAdminClient"
    return Thrown("org.apache.kafka.common.KafkaException", message, cause=config_error(why))


def worst_code(rows: str) -> Code:
    """Return what finds the highest error code in the rows of an answer that are called so."""
    return lambda answer: max((int(row["error_code"]) for row in answer[rows]), default=0)


def open_cluster(
    bootstrap: str,
    properties: Mapping[str, str],
    warn: Callable[[str], None],
    timeout: int | None = None,
) -> "Cluster":
    """Return a cluster that is not connected to yet.

    Raises:
        Thrown: the addresses of its brokers cannot be used.
    """
    return Cluster(
        addresses=parse_bootstrap(bootstrap),
        properties=properties,
        warn=warn,
        timeout_s=(timeout_ms(properties) if timeout is None else timeout) / 1000,
    )


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A cluster, and the connections to it."""

    addresses: list[tuple[str, int]]
    properties: Mapping[str, str]
    warn: Callable[[str], None]
    timeout_s: float
    _nodes: dict[int, Node] = field(default_factory=dict)
    _controller: int = -1
    _links: dict[tuple[str, int], Link] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    def close(self) -> None:
        """End all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def ask(self, api: Api, request: dict[str, Any], call: str) -> dict[str, Any]:
        """Ask any broker."""
        return self.again(call, lambda: self.any().ask(api, request, _REQUEST_S))

    def ask_node(self, node: int, api: Api, request: dict[str, Any], call: str) -> dict[str, Any]:
        """Ask one broker."""
        return self.again(call, lambda: self.node(node).ask(api, request, _REQUEST_S))

    def ask_controller(
        self, api: Api, request: dict[str, Any], call: str, code: Code
    ) -> dict[str, Any]:
        """Ask the broker that the others call controller; ``code`` finds out whether it is."""

        def attempt() -> dict[str, Any]:
            self.learn_nodes()
            link = self.node(self._controller) if self._controller in self._nodes else self.any()
            return _unmoved(link.ask(api, request, _REQUEST_S), code)

        return self.again(call, attempt)

    def ask_coordinator(
        self, group: str, api: Api, request: dict[str, Any], call: str, code: Code
    ) -> tuple[dict[str, Any], Node]:
        """Ask the coordinator of a group; return the answer, and the broker that gave it."""

        def attempt() -> tuple[dict[str, Any], Node]:
            node = self._find_coordinator(group)
            answer = self._link(node.host, node.port).ask(api, request, _REQUEST_S)
            return _unmoved(answer, code), node

        return self.again(call, attempt)

    def _find_coordinator(self, group: str) -> Node:
        request = {"key": group, "key_type": 0}
        found = self.any().ask(apis.FIND_COORDINATOR, request, _REQUEST_S)
        check_codes([found])
        return Node(found["node_id"], found["host"], found["port"])

    def again(self, call: str, attempt: Callable[[], T]) -> T:
        """Try until it succeeds, or fails in a way that no retry mends, or the time is over."""
        until = time.monotonic() + self.timeout_s
        while True:
            try:
                return attempt()
            except UnavailableError as error:
                self.close()
                self._warn_once(str(error))
                if time.monotonic() >= until:
                    message = f"Timed out waiting for a node assignment. Call: {call}"
                    raise kafka_error("Timeout", message) from error
            except Thrown as thrown:
                if thrown.code not in _MOVING or time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE_S)  # noqa: TID251 (between two attempts)

    def _warn_once(self, why: str) -> None:
        if why not in self._warned:
            self._warned.add(why)
            self.warn(f"{why}. Trying again until {self.timeout_s:g} seconds are over.")

    def learn_nodes(self) -> dict[int, Node]:
        """Return the brokers that are alive, by their ids."""
        answer = self.any().ask(apis.METADATA, {"topics": []}, _REQUEST_S)
        self.learn_from(answer)
        return self._nodes

    def nodes(self, call: str) -> dict[int, Node]:
        """Return the brokers that are alive, by their ids; ask as often as it takes."""
        return self.again(call, self.learn_nodes)

    def learn_from(self, metadata: dict[str, Any]) -> None:
        """Take the brokers and the controller from an answer to a Metadata request."""
        self._nodes = {
            row["node_id"]: Node(row["node_id"], row["host"], row["port"])
            for row in metadata["brokers"]
        }
        self._controller = metadata["controller_id"]

    def node(self, number: int) -> Link:
        """Return a connection to one broker."""
        if number not in self._nodes:
            self.learn_nodes()
        if number not in self._nodes:
            raise UnavailableError(f"there is no broker {number}")
        return self._link(self._nodes[number].host, self._nodes[number].port)

    def any(self) -> Link:
        """Return a connection to any broker."""
        for link in self._links.values():
            return link
        known = [(node.host, node.port) for node in self._nodes.values()]
        reasons: list[str] = []
        for host, port in [*known, *self.addresses]:
            try:
                return self._link(host, port)
            except UnavailableError as error:
                reasons.append(str(error))
        raise UnavailableError("; ".join(dict.fromkeys(reasons)))

    def _link(self, host: str, port: int) -> Link:
        if (host, port) not in self._links:
            client = self.properties.get("client.id", "lakelog")
            security = read_security(self.properties)
            self._links[host, port] = Link(host, port, security, client, _CONNECT_S)
        return self._links[host, port]


def _unmoved(answer: dict[str, Any], code: Code) -> dict[str, Any]:
    """Return an answer; raise an error that says that another broker is to be asked."""
    if code(answer) in _MOVING:
        raise refused(code(answer))
    return answer


Connect = Callable[..., Cluster]
"""What opens a cluster: ``open_cluster``, or what a test gives instead."""

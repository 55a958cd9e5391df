"""How much of a broker its clients may use: one table, of which docs/reference/limits.md is made.

    Limits        what can be set, a field each: its default, and a sentence on what it protects
    FIXED_LIMITS  what cannot (``fixed_limits``): constants that stand where they are used

A new limit is a field here, or a constant with a row there. ``python -m tests.generated`` then
writes the page anew, and a field that has a name in Kafka can be set in a server.properties.
"""

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.wire import (
    FRAME_BYTES_MIN,
    ApiKey,
)

__all__ = ["LIMITS", "Limit", "Limits"]

FRAME_LENGTH_MAX = (1 << 31) - 1
HTTP_CONNECTIONS_MAX = 32
REWRITTEN_BYTES_PER_S = 4 << 20
_KEY_BYTES = 2


class Limit(NamedTuple):
    """One row of the table."""

    name: str
    """The field of ``Limits``, or the constant."""
    default: int
    what: str
    """What is limited."""
    beyond: str
    """What happens beyond it."""
    protects: str
    """From what it keeps the broker, or the other clients."""
    kafka: str = ""
    """Kafka's name for it; nothing: Kafka has none."""
    divided: bool = False
    """Whether it is of the machine: of so many workers each has a part."""


def _limit(
    default: int, what: str, *, beyond: str, protects: str, kafka: str = "", divided: bool = False
) -> int:
    """Return a field of ``Limits`` that carries its row of the table."""
    row = {"what": what, "beyond": beyond, "protects": protects, "kafka": kafka, "divided": divided}
    return field(default=default, metadata=row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What can be set."""

    request_bytes_max: int = _limit(
        100 << 20,
        "The largest request. It may hold batches of many partitions; how large each may be, their"
        " topics say.",
        kafka="socket.request.max.bytes",
        beyond="the connection is closed",
        protects="memory from one request",
    )
    control_bytes_max: int = _limit(
        4 << 20,
        "The largest request other than Produce.",
        beyond="the connection is closed",
        protects="memory from requests that wait for long, and the loop from reading them",
    )
    frame_ms: int = _limit(
        30_000,
        "How long a request may take to come, from its first byte to its last.",
        beyond="the connection is closed",
        protects="memory from requests that never become whole",
    )
    frame_bytes_per_s: int = _limit(
        1 << 20,
        "For so many bytes of it a request has a second more.",
        beyond="the connection is closed",
        protects="the same, and lets large requests come over slow networks",
    )
    memory_bytes: int = _limit(
        256 << 20,
        "Bytes of requests that are worked on.",
        kafka="queued.max.request.bytes",
        beyond="sockets are not read; small requests still pass. As much again may come of"
        " requests that are not whole: then the oldest of them, of the address that has most, is"
        " closed",
        protects="memory, whatever the store does; raise it for many producers on a slow store",
        divided=True,
    )
    address_percent: int = _limit(
        50,
        "The part of the memory for requests, of that for answers, and of each shard of consumer"
        " groups that the clients of one address may have.",
        beyond="their sockets are not read, their fetches wait, and the groups that they made do"
        " not grow",
        protects="clients of other addresses; behind a proxy, `lakelog.address.percent=100`",
    )
    connection_bytes: int = _limit(
        32 << 20,
        "Bytes of requests of one connection that are worked on.",
        beyond="its socket is not read",
        protects="the other connections from one that takes all the memory",
    )
    connection_requests: int = _limit(
        100,
        "Requests of one connection that wait for answers.",
        beyond="its socket is not read",
        protects="memory from what each request costs beside its bytes",
    )
    answer_bytes: int = _limit(
        256 << 20,
        "Bytes of answers that clients have not taken yet; one address may have its part of them.",
        beyond="a fetch asks for less, or waits until there is room; slow readers have a second",
        protects="memory from clients that fetch and do not read",
        divided=True,
    )
    answer_ms: int = _limit(
        60_000,
        "For how long a client may take its answers too slowly.",
        beyond="the connection is closed, and what it did not take is dropped",
        protects="memory from clients that fetch and do not read",
    )
    answer_bytes_per_s: int = _limit(
        16 << 10,
        "How fast a client has to take its answers.",
        beyond="the time above begins",
        protects="memory from clients that read a byte now and then",
    )
    connections: int = _limit(
        20_000,
        "Connections in all.",
        kafka="max.connections",
        beyond="a new connection is closed at once, and counted",
        protects="memory and open files",
        divided=True,
    )
    connections_per_address: int = _limit(
        0,
        "Connections of one address; 0: three quarters of all that there may be.",
        kafka="max.connections.per.ip",
        beyond="a new connection is closed at once, and counted",
        protects="connections of other addresses",
        divided=True,
    )
    connection_rate: int = _limit(
        2_000,
        "Connections that are made in a second, in all.",
        kafka="max.connection.creation.rate",
        beyond="a new connection is closed at once, and counted",
        protects="the loop from clients that connect again and again",
        divided=True,
    )
    address_connection_rate: int = _limit(
        1_000,
        "Connections that one address makes in a second.",
        beyond="a new connection is closed at once, and counted",
        protects="other addresses, which may connect at once",
        divided=True,
    )
    handshakes: int = _limit(
        256,
        "TLS handshakes that have begun and not ended; those of one address may be its part.",
        beyond="the oldest that has taken a second is closed, or others wait until one has; one "
        "more of an address that has its part is closed",
        protects="the loop from signatures, and memory from handshakes that are never finished",
        divided=True,
    )
    handshake_ms: int = _limit(
        10_000,
        "How long a TLS handshake may take.",
        beyond="the connection is closed",
        protects="handshakes of others from those that are never finished",
    )
    login_ms: int = _limit(
        10_000,
        "How long a client may take to log in, on a listener with SASL.",
        beyond="the connection is closed",
        protects="connections from those who are nobody",
    )
    login_bytes: int = _limit(
        512 << 10,
        "The largest request of a client that has not logged in.",
        kafka="sasl.server.max.receive.size",
        beyond="the connection is closed",
        protects="memory from those who are nobody",
    )
    login_memory_bytes: int = _limit(
        16 << 20,
        "Bytes of requests of all clients that have not logged in; an address may have its part.",
        beyond="their sockets are not read, and the oldest request that is not whole is closed",
        protects="the memory of those who have logged in from those who have not",
        divided=True,
    )
    failed_login_delay_ms: int = _limit(
        100,
        "How long after a login that failed its client is told, and its connection closed.",
        kafka="connection.failed.authentication.delay.ms",
        beyond="a guess takes so long",
        protects="passwords from being guessed",
    )
    login_threads: int = _limit(
        2,
        "Passwords and tokens that are checked at once, of one address one.",
        beyond="others wait for their turn, until they have not logged in in time",
        protects="the processor from logins that fail",
    )
    files_reserved: int = _limit(
        512,
        "Open files that are left to the store; half of all if the process may have fewer than"
        " twice as many.",
        beyond="there are fewer connections than `max.connections`, and the log says so if they are"
        " less than half",
        protects="writing and reading from clients that connect and say nothing",
    )
    idle_ms: int = _limit(
        600_000,
        "For how long a connection may ask for nothing.",
        kafka="connections.max.idle.ms",
        beyond="it is closed",
        protects="connections from clients that are gone",
    )
    fetch_bytes_max: int = _limit(
        55 << 20,
        "Bytes that one fetch is answered with.",
        kafka="fetch.max.bytes",
        beyond="the rest is for the next fetch; one batch is answered, however large",
        protects="memory from one answer",
    )
    cache_bytes: int = _limit(
        256 << 20,
        "Bytes of the log that are kept in memory: half for what was just written, half for what"
        " was read from the store.",
        beyond="the oldest are dropped, and read from the store when somebody asks for them",
        protects="memory",
        divided=True,
    )
    group_offsets_bytes: int = _limit(
        4 << 20,
        "Bytes of the offsets that one group has committed, at 120 for each partition and what it"
        " says beside.",
        beyond="a commit for more partitions is refused: INVALID_COMMIT_OFFSET_SIZE",
        protects="the other groups of its shard, which are stored together",
    )
    shard_new_bytes: int = _limit(
        8 << 20,
        "Bytes of a shard of consumer groups up to which new groups are taken. There are eight"
        " shards, and a group is in one of them by its name.",
        beyond="a new group is refused: GROUP_MAX_SIZE_REACHED, or INVALID_COMMIT_OFFSET_SIZE."
        " Those that are there go on, and may grow to `SHARD_BYTES_MAX`",
        protects="groups that are in use, and commits from rewriting more and more",
    )
    shard_groups: int = _limit(
        10_000,
        "Groups of one shard.",
        beyond="likewise",
        protects="memory, and the loop from listing them",
    )
    fetch_sessions: int = _limit(
        1_000,
        "Fetch sessions that are remembered.",
        kafka="max.incremental.fetch.session.cache.slots",
        beyond="one that was not used for two minutes is forgotten, or the fetch has no session",
        protects="memory from what each consumer wants",
        divided=True,
    )
    fetch_session_partitions: int = _limit(
        262_144,
        "Partitions that all fetch sessions want.",
        beyond="likewise; a session that comes to want more is forgotten, and begun anew",
        protects="memory from sessions with very many partitions",
        divided=True,
    )
    topics: int = _limit(
        20_000,
        "Topics that there may be for a broker to make one more.",
        beyond="POLICY_VIOLATION; a topic that a Metadata request names is not made, and told as"
        " unknown",
        protects="memory, and the listing of topics that every broker takes now and then",
    )
    partitions: int = _limit(
        100_000,
        "Partitions that all topics may have for a broker to make more.",
        beyond="INVALID_PARTITIONS; a topic that a Metadata request names is not made, and told as"
        " unknown",
        protects="memory, and answers that name every partition",
    )
    auto_created_per_s: int = _limit(
        20,
        "Topics that are made in a second because Metadata requests name them, and in one such"
        " request (`auto.create.topics.enable`).",
        beyond="LEADER_NOT_AVAILABLE, on which clients ask again",
        protects="the store from names that a client makes up",
        divided=True,
    )
    drain_ms: int = _limit(
        30_000,
        "For how long a broker that is asked to stop waits for the store.",
        beyond="what was not stored by then is answered as unknown",
        protects="a restart from a store that does not answer",
    )

    def __post_init__(self) -> None:
        if not 1 <= self.request_bytes_max <= FRAME_LENGTH_MAX:
            raise InvalidInputError(
                f"socket.request.max.bytes is {self.request_bytes_max}: use 1 to "
                f"{FRAME_LENGTH_MAX}, which is as long as a frame can say that it is"
            )
        if not 1 <= self.address_percent <= 100:
            raise InvalidInputError(
                f"lakelog.address.percent is {self.address_percent}: use 1 to 100"
            )

    def flaw(self, size: int, key: bytes | bytearray) -> str:
        """Say what is wrong with a request of such a size; nothing if it may come.

        ``key`` says which API it is of: two bytes, or less if they have not come.
        """
        if not FRAME_BYTES_MIN <= size <= self.request_bytes_max:
            return (
                f"a request of {size} bytes is refused: it may have {FRAME_BYTES_MIN} to "
                f"{self.request_bytes_max} (socket.request.max.bytes)"
            )
        if size <= self.control_bytes_max or len(key) < _KEY_BYTES:
            return ""
        api = int.from_bytes(key, "big")
        if api == ApiKey.PRODUCE:
            return ""
        most = self.control_bytes_max
        return (
            f"a request of {size} bytes to API {api} is refused: only Produce may have over {most}"
        )


LIMITS: tuple[Limit, ...] = tuple(
    Limit(one.name, int(one.default), **one.metadata)  # type: ignore[arg-type]
    for one in fields(Limits)
)

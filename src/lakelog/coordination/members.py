"""Members: the brokers of a cluster, as each tells of itself.

    beat     {"format":1,"node":3,"run":"…","beats":17}             rewritten every heartbeat
    member   {"format":1,"node":3,"run":"…","state":"serving",      rewritten when it changes
              "listeners":{"PLAINTEXT":"host:9092"},"rack":"a","version":"0.2.0",
              "epochs":{"0":5},"past":{"0":4,"7":2},"hint":"…"}

``run`` names one run of a broker process; a node id is taken over by the next run of it. ``epochs``
are the leader epochs of the lanes that this member leads. ``past`` are the highest that any run of
this node id has ever announced: a new run keeps them, so that no epoch is told that is lower than
one that a client has seen.

Only the member itself writes its two objects. So a field that is not known is passed over: another
version wrote it for members that understand it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from lakelog.formats import decode_fields, decoding, number
from lakelog.names import LANES_MAX, beat_key, member_key

__all__ = [
    "MEMBER_BYTES_MAX",
    "NODE_ID_MAX",
    "Beat",
    "Member",
    "State",
    "decode_beat",
    "decode_member",
    "encode_beat",
    "encode_member",
]

FORMAT = 1
NODE_ID_MAX = (1 << 31) - 1
"""Kafka's node ids are 32-bit integers."""

MEMBER_BYTES_MAX = 256 << 10
"""Epochs of 1,024 lanes, twice, take some 30 KB."""

LISTENERS_MAX = 32
TEXT_CHARS_MAX = 1024
RUN_BYTES = 16


class State(StrEnum):
    """What a member does."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    """It is about to leave: it serves what it leads until another leads it."""
    LEFT = "left"


class Beat(NamedTuple):
    """The last heartbeat of a node id."""

    run: bytes
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One broker, as it tells of itself."""

    node: int
    run: bytes
    state: State = State.STARTING
    listeners: Mapping[str, str] = field(default_factory=dict)
    """The address for clients of each listener, ``host:port``, by the listener's name."""
    rack: str | None = None
    version: str = ""
    knows_etcd: bool = False
    """Whether it was told of an etcd, where members and groups may be moved to."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """The lanes that it leads, and the leader epoch of each."""
    past: Mapping[int, int] = field(default_factory=dict)
    """The highest leader epoch of each lane that this node id has ever announced."""
    hint: str = ""
    """Another one after each change that this broker made to a topic or a config."""

    @property
    def serves(self) -> bool:
        """Whether it should be given lanes and groups."""
        return self.state is State.SERVING

    def highest(self, lane: int) -> int:
        """Return the highest epoch of a lane that this node id has announced; -1: none."""
        return max(self.epochs.get(lane, -1), self.past.get(lane, -1))


def encode_beat(node: int, beat: Beat) -> bytes:
    """Return a heartbeat as it is stored."""
    return _json(format=FORMAT, node=node, run=beat.run.hex(), beats=beat.beats)


def decode_beat(data: bytes, node: int) -> Beat:
    """Return the heartbeat of a node id.

    Raises:
        CorruptError: it is none, or that of another node id.
        UnsupportedError: a later version made it.
    """
    key = beat_key(node)
    with decoding("heartbeat", key):
        fields = _fields_of(data, node, key)
        return Beat(_run(fields["run"]), number(fields["beats"]))


def encode_member(member: Member) -> bytes:
    """Return a member as it is stored."""
    return _json(
        format=FORMAT,
        node=member.node,
        run=member.run.hex(),
        state=member.state.value,
        listeners=dict(member.listeners),
        rack=member.rack,
        version=member.version,
        epochs=dict(sorted(member.epochs.items())),
        past=dict(sorted(member.past.items())),
        hint=member.hint,
        **({"etcd": True} if member.knows_etcd else {}),
    )


def decode_member(data: bytes, node: int) -> Member:
    """Return the member of a node id.

    Raises:
        CorruptError: it is none, or that of another node id.
        UnsupportedError: a later version made it.
    """
    key = member_key(node)
    with decoding("member", key):
        fields = _fields_of(data, node, key)
        return Member(
            node=node,
            run=_run(fields["run"]),
            state=State(fields["state"]),
            listeners=_listeners(fields["listeners"]),
            rack=None if fields["rack"] is None else _text(fields["rack"]),
            version=_text(fields["version"]),
            epochs=_epochs(fields["epochs"]),
            past=_epochs(fields["past"]),
            hint=_text(fields["hint"]),
            knows_etcd=fields.get("etcd", False) is True,
        )


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _fields_of(data: bytes, node: int, key: str) -> dict[str, Any]:
    """Return the fields of an object of a node id."""
    fields = decode_fields(data, format_=FORMAT, where=key, known=None)
    if number(fields["node"]) != node:
        raise ValueError(f"it is of node {fields['node']}, and not of {node}")
    return fields


def _run(value: Any) -> bytes:
    run = bytes.fromhex(value)
    if len(run) != RUN_BYTES:
        raise ValueError(f"a run has {RUN_BYTES} bytes, and not {len(run)}")
    return run


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise TypeError(f"{str(value)[:50]!r} is no text of at most {TEXT_CHARS_MAX} characters")
    return value


def _listeners(value: Any) -> dict[str, str]:
    if len(value) > LISTENERS_MAX:
        raise ValueError(f"it has {len(value)} listeners, at most {LISTENERS_MAX} are allowed")
    return {_text(name): _text(address) for name, address in value.items()}


def _epochs(value: Any) -> dict[int, int]:
    """Return epochs by lane; JSON has no keys but texts."""
    found = {int(lane): number(epoch) for lane, epoch in value.items()}
    if any(not 0 <= lane < LANES_MAX or epoch < 0 for lane, epoch in found.items()):
        raise ValueError(f"lanes are 0 to {LANES_MAX - 1}, and epochs are not negative")
    return found

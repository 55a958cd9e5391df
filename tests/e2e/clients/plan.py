"""What a client is told to do: one plan, in one JSON argument, for programs in four languages.

Records are labelled: a value is "{label} {number} {padding}". The padding makes them worth
compressing, for librdkafka leaves a batch as it is when that did not make it smaller.
"""

import dataclasses
import json
import sys
from dataclasses import dataclass

__all__ = ["PARTITIONS", "WHEN", "Plan", "say", "times", "told_plan"]

PARTITIONS = 3
WHEN = ("three", "two", "three again")
"""How many members the group has, in the order of the story."""

_STEP_MS = 10
_TIMES = 40
_TARGET = 21.5


@dataclass(frozen=True, kw_only=True)
class Plan:
    bootstrap: str
    prefix: str
    codecs: tuple[str, ...]
    records: int = 60
    """Of each codec, keyed."""
    wave: int = 12
    """Records to each partition of the group's topic, three times."""
    padding: str = "lake " * 40
    times: tuple[tuple[int, int], ...] = ()
    """Partition and timestamp of each record of the topic of times."""
    target_ms: int = 0
    """The time to look for."""
    patience_s: int = 60
    """How long to wait for anything."""

    def topic(self, name: str) -> str:
        """The name of a topic, or of a group."""
        return f"{self.prefix}-{name}"

    def value(self, label: str, number: int) -> str:
        return f"{label} {number} {self.padding}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.codecs, "idempotent")

    @property
    def all_records(self) -> int:
        """In the topic of codecs."""
        return self.records * len(self.labels)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def times(base_ms: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Timestamps that rise, that jump back and forth, and that are all too old; and the target.

    The first record at or after the target is in the middle of the first partition, and behind a
    younger one and before many older ones in the second. There is none in the third.
    """
    steps = range(_TIMES)
    rising = [(0, base_ms + _STEP_MS * step) for step in steps]
    jumping = [(1, base_ms + _STEP_MS * (step * 7 % _TIMES)) for step in steps]
    old = [(2, base_ms - _STEP_MS * (step + 1)) for step in steps]
    return (*rising, *jumping, *old), base_ms + int(_STEP_MS * _TARGET)


def told_plan() -> Plan:
    """The plan of this process, if it is a program."""
    fields = json.loads(sys.argv[1])
    listed = {name: tuple(fields[name]) for name in ("codecs", "times")}
    return Plan(**{**fields, **listed})


def say(step: str, **fields: object) -> None:
    """Print one step. Every line is one write, so that it arrives whole and at once."""
    sys.stdout.write(json.dumps({"step": step, **fields}) + "\n")
    sys.stdout.flush()

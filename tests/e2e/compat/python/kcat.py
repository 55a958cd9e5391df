"""The worker of kcat: every producer and consumer is a process of its own.

kcat has no calls for administrators. A producer that is to go on is another process, for kcat
reads its input in blocks and would keep the rest of one to itself. A consumer that seeks is ended,
and started again at its new place, for that is how kcat is told where to read. It commits by itself
what it has printed.
"""

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.e2e.compat.operations import OPERATIONS
from tests.e2e.compat.python.answering import AbsentError, absent, answer_all, new_name
from tests.parts.kcat import kcat
from tests.parts.process import mortal

__all__ = ["Kcat"]

_WAIT_S = 60
_NO_ADMIN = "kcat has no calls for administrators"
_SETTINGS = {
    "acks": "acks", "codec": "compression.type", "idempotent": "enable.idempotence",
    "in_flight": "max.in.flight.requests.per.connection", "batch_bytes": "batch.size",
    "max_bytes": "message.max.bytes", "refresh_ms": "topic.metadata.refresh.interval.ms",
    "reset": "auto.offset.reset", "isolation": "isolation.level", "instance": "group.instance.id",
}  # fmt: skip
_ERRORS = {
    "Message size too large": "MESSAGE_TOO_LARGE",
    "Broker failed to validate record": "INVALID_RECORD",
    "Transactional Id authorization failed": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}
"""What librdkafka says, and what Kafka calls it."""
_REBALANCED = re.compile(r"% Group \S+ rebalanced.*?\b(assign|revoke)\w*\b.*: (.*)")
_PLACE = re.compile(r"([^\s,]+) \[(\d+)\]")


class FailedError(Exception):
    """kcat ended with an error, or told of one."""


# A child dies with the thread that started it, and an answer's thread does not live long.
_starter = ThreadPoolExecutor(1)


class _Reader:
    """A process that prints records, and says on standard error which partitions it has."""

    def __init__(self, argv: Sequence[str], words: Path) -> None:
        self.words = words
        self._rest = b""
        with words.open("ab") as errors:
            self._process = _starter.submit(
                lambda: subprocess.Popen(
                    mortal(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
                )
            ).result()
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()

    def poll(self, ms: int) -> list[dict[str, Any]]:
        if not select.select([self._output], [], [], ms / 1_000)[0]:
            return []
        read = os.read(self._output, 1 << 20)
        if not read:
            raise FailedError(self.words.read_text())
        *lines, self._rest = (self._rest + read).split(b"\n")
        return [json.loads(line) for line in lines]

    def changes(self) -> list[tuple[str, list[tuple[str, int]]]]:
        found = map(_REBALANCED.match, self.words.read_text().splitlines())
        return [
            (
                f"{one[1].removesuffix('e')}ed",
                [(topic, int(partition)) for topic, partition in _PLACE.findall(one[2])],
            )
            for one in found
            if one
        ]

    def close(self) -> None:
        self._process.terminate()
        if status := self._process.wait(_WAIT_S):
            raise FailedError(f"{status}: {self.words.read_text()}")


class Kcat:
    """kcat, for an address."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self._argv = [kcat(), "-b", bootstrap, "-m", str(_WAIT_S)]
        self._home = home
        self._readers: dict[str, _Reader] = {}
        self._how: dict[str, list[str]] = {}

    # ---------------------------------------------------------------- producing

    def version(self) -> str:
        said = subprocess.run([kcat(), "-V"], capture_output=True, text=True).stdout
        found = re.search(r"Version (\S+) .*(librdkafka \S+)", said)
        return f"{found[1]} ({found[2]})" if found else "unknown"

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        settings: Mapping[str, object],
        **_: object,
    ) -> list[None]:
        if any(one["timestamp"] is not None for one in records):
            raise AbsentError("it cannot set timestamps")
        # Its own choice is random, unless it is told to choose as Java does.
        how = ["-P", "-t", topic, "-X", "partitioner=murmur2_random", *_named(settings)]
        for (partition, headers), part in _alike(records).items():
            more = [] if partition is None else ["-p", str(partition)]
            more += [word for name, value in headers for word in ("-H", f"{name}={value}")]
            more += ["-Z"] if any(one["value"] is None for one in part) else []
            self._run(*how, *more, "-K", "\t", stdin="".join(map(_line, part)))
        return [None for _ in records]

    def transact(self, name: str, topic: str, values: list[str], end: str) -> None:
        if end == "abort":
            raise AbsentError("it aborts only when it is interrupted")
        text = "".join(f"{value}\n" for value in values)
        self._run("-P", "-t", topic, "-X", f"transactional.id={name}", stdin=text)

    # ---------------------------------------------------------------- topics

    def topics(self) -> dict[str, int]:
        listed = json.loads(self._run("-L", "-J"))["topics"]
        return {one["topic"]: len(one["partitions"]) for one in listed}

    def describe_cluster(self) -> dict[str, object]:
        found = json.loads(self._run("-L", "-J"))
        brokers = [(one["id"], *one["name"].rsplit(":", 1)) for one in found["brokers"]]
        return {"brokers": brokers, "controller": found["controllerid"], "cluster": None}

    def offsets(self, topic: str, partition: int, at: str | int) -> int | None:
        time_ms = {"earliest": -2, "latest": -1}.get(str(at), at)
        said = self._run("-Q", "-t", f"{topic}:{partition}:{time_ms}")
        found = re.search(r"offset (-?\d+)", said)
        return int(found[1]) if found and int(found[1]) >= 0 else None

    # ---------------------------------------------------------------- consuming

    def open(
        self,
        group: str | None,
        topics: list[str],
        pattern: str | None,
        assign: list[tuple[str, int]],
        settings: Mapping[str, Any],
    ) -> str:
        if settings.get("protocol"):
            raise AbsentError("its librdkafka is older than the new protocol of groups")
        how = ["-J", "-u", *_named(settings)]
        if settings.get("assignor") == "cooperative":
            how += ["-X", "partition.assignment.strategy=cooperative-sticky"]
        name = new_name()
        if assign:
            start = "end" if settings["reset"] == "latest" else "beginning"
            only = ["-p", str(assign[0][1])] if len(assign) == 1 else []
            self._how[name] = [*how, "-C", "-t", assign[0][0], *only]
            self._start(name, *self._how[name], "-o", start)
        else:
            assert group is not None
            self._start(name, *how, "-G", group, *([pattern] if pattern else topics))
        return name

    def _start(self, name: str, *arguments: str) -> None:
        words = self._home / f"{name}.words"
        self._readers[name] = _Reader([*self._argv, *arguments], words)

    def poll(self, consumer: str, ms: int, **_: object) -> list[dict[str, object]]:
        return [
            {
                "topic": one["topic"], "partition": one["partition"], "offset": one["offset"],
                "key": one["key"], "value": one["payload"], "timestamp": one["ts"],
                "headers": _pairs(one.get("headers", [])),
            }
            for one in self._readers[consumer].poll(ms)
        ]  # fmt: skip

    def assigned(self, consumer: str) -> list[tuple[str, int]]:
        owned: set[tuple[str, int]] = set()
        for kind, places in self._readers[consumer].changes():
            owned = owned | {*places} if kind == "assigned" else owned - {*places}
        return list(owned)

    def changes(self, consumer: str) -> list[tuple[str, list[tuple[str, int]]]]:
        return self._readers[consumer].changes()

    def seek(self, consumer: str, offset: int, **_: object) -> None:
        self._readers[consumer].close()
        self._start(consumer, *self._how[consumer], "-o", str(offset))

    def commit(self, metadata: str, **_: object) -> None:
        if metadata:
            raise AbsentError("it commits by itself, without metadata")

    def close(self, consumer: str) -> None:
        self._readers.pop(consumer).close()

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            mortal([*self._argv, *arguments]),
            input=stdin, capture_output=True, text=True, timeout=_WAIT_S,
        )  # fmt: skip
        _check(done.stderr)
        if done.returncode:
            raise FailedError(done.stderr)
        return done.stdout


def _pairs(headers: list[str]) -> list[tuple[str, str]]:
    """Headers are told as one list of names and values."""
    return list(zip(headers[::2], headers[1::2], strict=True))


def _alike(records: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Records that one process can send: of one partition, with the same headers."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in records:
        headers = tuple((name, value) for name, value in one["headers"])
        found.setdefault((one["partition"], headers), []).append(one)
    return found


def _line(record: Mapping[str, Any]) -> str:
    if record["key"] is None and record["value"] is not None:
        return f"{record['value']}\n"
    return f"{record['key'] or ''}\t{record['value'] or ''}\n"


def _named(settings: Mapping[str, object]) -> list[str]:
    named = {_SETTINGS[name]: value for name, value in settings.items() if name in _SETTINGS}
    pairs = [f"{name}={str(value).lower()}" for name, value in named.items()]
    return [word for pair in pairs for word in ("-X", pair)]


def _check(words: str) -> None:
    if "failed" in words or "ERROR" in words:
        raise FailedError(words)


def _name_of(error: Exception) -> str:
    for words, name in _ERRORS.items():
        if words in str(error):
            return name
    return type(error).__name__


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lakelog-kcat-") as home:
        client = Kcat(sys.argv[1], Path(home))
        own = {name: getattr(client, name) for name in vars(Kcat) if not name.startswith("_")}
        missing = {
            "pause": absent("it cannot pause"),
            "resume": absent("it cannot resume"),
            "committed": absent("it does not tell what it has committed"),
        }
        others = dict.fromkeys(OPERATIONS, absent(_NO_ADMIN))
        answer_all({**others, **own, **missing}, _name_of)


if __name__ == "__main__":
    main()

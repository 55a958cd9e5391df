"""A history in the shape of Jepsen's, one operation in each line, as JSON.

    {"index": 7, "time": 1200000, "process": 3, "type": "ok", "f": "send", "who": "java",
     "value": [["send", 0, [5, "java:12"]]]}

``time`` is in nanoseconds. ``type`` is ``invoke``, and then ``ok``, ``fail`` (it was not done) or
``info`` (nobody knows). A process has one operation under way, so that a producer which sends ahead
is several processes; whose they are stands in ``who``, which Jepsen does not mind. Partitions are
keys.

    send           [["send", key, value]]; when it is ok, [["send", key, [offset, value]]]
    poll           [["poll"]]; then [["poll", {key: [[offset, value]]}]]
    assign         [key]: the reader begins anew there        revoke   [key]: it has lost them
    commit         {key: offset}          committed      {key: offset}, of the group ``who``
    scan           {key: [[offset, value]]}: all that Spark reads of a topic at once
    starts, ends   {key: offset}          error          what an application was told besides
    quiet          all of a producer's sends were answered

``send`` and ``poll`` are those of ``jepsen.tests.kafka``, whose checker takes them as EDN
(``edn``); the others are ours.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.cluster.history import DEFINITE, History, value_of

__all__ = ["history_of", "operations", "read_operations", "write_operations"]

Line = list[Any]
"""Of a diary."""
Operation = dict[str, Any]

_BETWEEN = {
    "committed": "commit",
    "fetched": "committed",
    "scanned": "scan",
    "starts": "starts",
    "ends": "ends",
}
"""Lines that have a begin and an end, and what they are in Jepsen's shape."""

_AT_ONCE = {"assigned": "assign", "revoked": "revoke"}


def operations(lines: Iterable[Line]) -> list[Operation]:
    """Return what diaries say, in the order of time."""
    rows = sorted(_rows(lines), key=lambda row: row[0])
    processes = _Processes()
    found = []
    for index, (at, pair, one) in enumerate(rows):
        process = processes.of(one["who"], pair, one["type"])
        order = {"index": index, "time": round(at * 1e9), "process": process}
        found.append(order | one)
    return found


class _Processes:
    """Gives each operation a process of its client that has no other under way."""

    def __init__(self) -> None:
        self._free: dict[str, list[int]] = defaultdict(list)
        self._busy: dict[object, int] = {}
        self._count = 0

    def of(self, who: str, pair: object, kind: str) -> int:
        if pair in self._busy:
            process = self._busy.pop(pair)
            if kind != "info":  # After that Jepsen takes a process for crashed.
                heapq.heappush(self._free[who], process)
            return process
        if self._free[who]:
            process = heapq.heappop(self._free[who])
        else:
            process, self._count = self._count, self._count + 1
        if kind == "invoke":
            self._busy[pair] = process
        else:
            heapq.heappush(self._free[who], process)
        return process


def _rows(lines: Iterable[Line]) -> Iterator[tuple[float, object, Operation]]:
    """Yield when each operation is, what it belongs together with, and what it is."""
    sent: dict[str, int] = {}
    for number, line in enumerate(lines):
        match line:
            case ["sent", at, who, n, key]:
                sent[value_of(who, n)] = key
                value = [["send", key, value_of(who, n)]]
                yield at, (who, n), _operation("invoke", "send", who, value)
            case ["acked", at, who, n, key, offset]:
                value = [["send", key, [offset, value_of(who, n)]]]
                yield at, (who, n), _operation("ok", "send", who, value)
            case ["refused", at, who, n, why]:
                kind = "fail" if why in DEFINITE else "info"
                value = [["send", sent[value_of(who, n)], value_of(who, n)]]
                yield at, (who, n), _operation(kind, "send", who, value) | {"error": why}
            case ["polled", begun, at, who, polled]:
                yield begun, number, _operation("invoke", "poll", who, [["poll"]])
                yield at, number, _operation("ok", "poll", who, [["poll", polled]])
            case ["read", at, who, key, offset, text]:
                polled = [["poll", {str(key): [[offset, text]]}]]
                yield at, number, _operation("invoke", "poll", who, [["poll"]])
                yield at, number, _operation("ok", "poll", who, polled)
            case [verb, begun, at, who, told] if verb in _BETWEEN:
                yield begun, number, _operation("invoke", _BETWEEN[verb], who, None)
                yield at, number, _operation("ok", _BETWEEN[verb], who, told)
            case [("assigned" | "revoked") as verb, at, who, keys]:
                yield at, number, _operation("ok", _AT_ONCE[verb], who, keys)
            case ["error", at, who, what]:
                yield at, number, _operation("info", "error", who, what)
            case ["quiet", at, who]:
                yield at, number, _operation("ok", "quiet", who, None)
            case _:
                raise ValueError(f"no line of a diary: {line!r}")


def _operation(kind: str, function: str, who: str, value: object) -> Operation:
    return {"type": kind, "f": function, "who": who, "value": value}


def lines_of(found: Iterable[Operation]) -> Iterator[Line]:
    """Yield the lines of diaries that operations were made of."""
    begun: dict[int, float] = {}
    verbs = {function: verb for verb, function in (_BETWEEN | _AT_ONCE).items()}
    for one in found:
        at, who, process, value = one["time"] / 1e9, one["who"], one["process"], one["value"]
        match one["type"], one["f"]:
            case "invoke", "send":
                yield ["sent", at, who, _number(value[0][2]), value[0][1]]
            case "invoke", _:
                begun[process] = at
            case "ok", "send":
                offset, text = value[0][2]
                yield ["acked", at, who, _number(text), value[0][1], offset]
            case "fail" | "info", "send":
                yield ["refused", at, who, _number(value[0][2]), one["error"]]
            case "ok", "poll":
                yield ["polled", begun[process], at, who, value[0][1]]
            case _, ("assign" | "revoke") as function:
                yield [verbs[function], at, who, value]
            case _, "error":
                yield ["error", at, who, value]
            case _, "quiet":
                yield ["quiet", at, who]
            case _, function:
                yield [verbs[function], begun[process], at, who, value]


def _number(text: str) -> int:
    return int(text.rpartition(":")[2])


def history_of(found: Iterable[Operation]) -> History:
    """Return the history that operations tell."""
    history = History()
    for line in lines_of(found):
        history.take(line)
    return history


def write_operations(lines: Iterable[Line], path: Path) -> int:
    """Write what diaries say, and return how many operations that are."""
    found = operations(lines)
    with path.open("w") as file:
        for one in found:
            file.write(json.dumps(one) + "\n")
    return sum(one["type"] == "invoke" for one in found)


def read_operations(path: Path) -> Iterator[Operation]:
    """Yield the operations of a file."""
    with path.open() as file:
        for line in file:
            yield json.loads(line)

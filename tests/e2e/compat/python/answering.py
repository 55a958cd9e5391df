"""What workers in Python share: each question is answered by a thread of its own."""

import itertools
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["NAMES", "AbsentError", "Operation", "absent", "answer_all", "new_name"]

Operation = Callable[..., object]

NAMES = {
    0: "NONE", 1: "OFFSET_OUT_OF_RANGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 10: "MESSAGE_TOO_LARGE",
    36: "TOPIC_ALREADY_EXISTS", 37: "INVALID_PARTITIONS", 42: "INVALID_REQUEST",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 68: "NON_EMPTY_GROUP", 69: "GROUP_ID_NOT_FOUND",
    86: "GROUP_SUBSCRIBED_TO_TOPIC", 87: "INVALID_RECORD",
}  # fmt: skip
"""Kafka's errors by their codes, as far as a behaviour asks for one."""

_lock = threading.Lock()
_numbers = itertools.count()


class AbsentError(Exception):
    """The client has no such call."""


def absent(why: str) -> Operation:
    """An operation that the client does not have."""

    def refuse(**_: object) -> None:
        raise AbsentError(why)

    return refuse


def new_name() -> str:
    """A name for a consumer."""
    return f"consumer-{next(_numbers)}"


def answer_all(operations: Mapping[str, Operation], name_of: Callable[[Exception], str]) -> None:
    """Answer the questions of standard input until it ends."""

    def answer(asked: dict[str, Any]) -> None:
        number, op = asked.pop("id"), asked.pop("op")
        try:
            told: dict[str, object] = {"ok": operations[op](**asked)}
        except AbsentError as error:
            told = {"absent": str(error)}
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            told = {"error": name_of(error), "words": f"{type(error).__name__}: {error}"}
        line = json.dumps({"id": number, **told}) + "\n"
        with _lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    for line in sys.stdin:
        threading.Thread(target=answer, args=[json.loads(line)], daemon=True).start()

"""What a supervisor and one of its workers say to each other, over a pair of sockets.

    frame => length u32, JSON of so many bytes

    supervisor                                       worker
      | -- Plan, pickled, in one frame ----------------> |  the first frame of all
      | <------------------------- {"serving": node} --  |  once: clients may come
      | -- {"ask": 7, "what": "health"} ---------------> |
      | <--- {"ask": 7, "ready": true, "why": "ready"} - |
      | -- {"ask": 8, "what": "metrics", "accept": …} -> |
      | <------- {"ask": 8, "text": …, "kind": …} -----  |
      | -- it closes ---------------------------------->  ends at once

Credentials are in the plan and never in arguments, which everybody on the machine can read. To
stop, a worker gets SIGTERM, as any broker does.
"""

import asyncio
import json
import pickle
import socket
import struct
from typing import Any

from lakelog.broker import Status
from lakelog.cli.running import Plan
from lakelog.host import leave_process

__all__ = ["Link", "read_frame", "receive_plan", "send_plan", "write_frame"]

_LENGTH = struct.Struct(">I")
FRAME_BYTES_MAX = 256 << 20


def send_plan(link: socket.socket, plan: Plan) -> None:
    """Tell a worker that was just started what it is to run."""
    body = pickle.dumps(plan)
    link.sendall(_LENGTH.pack(len(body)) + body)


def receive_plan(link: socket.socket) -> Plan:
    """Wait for what the supervisor wants to be run.

    Raises:
        EOFError: it is gone.
    """
    (length,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    plan = pickle.loads(_exactly(link, length))  # noqa: S301 (whoever started us wrote it)
    assert isinstance(plan, Plan)
    return plan


def _exactly(link: socket.socket, size: int) -> bytes:
    data = link.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise EOFError
    return data


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next frame; None: the other side is gone."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > FRAME_BYTES_MAX:
            return None
        frame: dict[str, Any] = json.loads(await reader.readexactly(length))
    except (OSError, asyncio.IncompleteReadError):
        return None
    return frame


def write_frame(writer: asyncio.StreamWriter, frame: dict[str, Any]) -> None:
    """Send a frame."""
    body = json.dumps(frame).encode()
    writer.write(_LENGTH.pack(len(body)) + body)


class Link:
    """The worker's end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._writer: asyncio.StreamWriter | None = None
        self._serving: dict[str, Any] | None = None

    def say_serving(self, node: int) -> None:
        """Let the supervisor know that clients may come."""
        self._serving = {"serving": node}
        if self._writer is not None:
            write_frame(self._writer, self._serving)

    async def answer(self, status: Status) -> None:
        """Answer the supervisor for as long as it lives, and no longer."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._end)
        if self._serving is not None:
            write_frame(self._writer, self._serving)
        while (asked := await read_frame(reader)) is not None:
            try:
                told = await _answer(status, asked)
            except Exception as error:  # noqa: BLE001 (the next question may find an answer)
                told = {"failed": repr(error)[:256]}
            write_frame(self._writer, {"ask": asked["ask"], **told})
            await self._writer.drain()
        leave_process(1)


async def _answer(status: Status, asked: dict[str, Any]) -> dict[str, Any]:
    if asked["what"] == "health":
        is_ready, why = await status.health()
        return {"ready": is_ready, "why": why}
    text, kind = await status.scrape(asked["accept"])
    return {"text": text.decode(), "kind": kind}

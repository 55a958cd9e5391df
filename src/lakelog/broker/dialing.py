"""Calling another broker, as itself.

Over TLS, if its listener has that, it shows this broker's certificate; it logs in, if it has to.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Generator

from lakelog.broker.login_settings import PeerLogin
from lakelog.broker.tls import ListenerTls
from lakelog.security import ScramMechanism, prove
from lakelog.wire import (
    decode_sasl_answer,
    encode_sasl_authenticate,
    encode_sasl_handshake,
)

__all__ = ["ANSWER_BYTES_MAX", "Dial", "Streams", "dialer", "read_answer"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, int], Awaitable[Streams]]
"""Connects to a host and a port; OSError, EOFError: nobody answers, or not as it should."""

ANSWER_BYTES_MAX = 1 << 10


def dialer(tls: ListenerTls | None = None, login: PeerLogin | None = None) -> Dial:
    """Return what calls brokers on a listener."""

    async def dial(host: str, port: int) -> Streams:
        context: ssl.SSLContext | None = None if tls is None else tls.peer_context
        streams = await asyncio.open_connection(host, port, limit=ANSWER_BYTES_MAX, ssl=context)
        if login is not None:
            try:
                await _log_in(streams, login)
            except BaseException:
                streams[1].close()
                raise
        return streams

    return dial


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """Return the next answer.

    Raises:
        EOFError: there is none, or it is too large.
    """
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > ANSWER_BYTES_MAX:
        raise EOFError(f"an answer of {size} bytes")
    return await reader.readexactly(size)


async def _log_in(streams: Streams, login: PeerLogin) -> None:
    reader, writer = streams
    writer.write(encode_sasl_handshake(login.mechanism))
    if int.from_bytes((await read_answer(reader))[4:6], "big"):
        raise EOFError(f"the other broker does not offer {login.mechanism}")

    async def said(data: bytes) -> bytes:
        writer.write(encode_sasl_authenticate(data))
        return decode_sasl_answer(await read_answer(reader))

    if login.mechanism == "PLAIN":
        await said(f"\0{login.user}\0{login.password}".encode())
        return
    nonce = base64.b64encode(os.urandom(24)).decode()
    steps = prove(ScramMechanism(login.mechanism), login.user, login.password, nonce)
    data: bytes | None = next(steps)
    while data is not None:
        data = await asyncio.to_thread(_next, steps, await said(data))


def _next(steps: Generator[bytes, bytes, bool], answer: bytes) -> bytes | None:
    """Return what is to be sent next; None: we are in. It hashes a password, for milliseconds.

    Raises:
        EOFError: the other one does not know the password, either.
    """
    try:
        return steps.send(answer)
    except StopIteration as end:
        if not end.value:
            raise EOFError("the other broker does not prove that it knows the password") from None
        return None

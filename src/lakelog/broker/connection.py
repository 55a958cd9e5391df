"""One connection: frames in, answers out in the order of the requests.

    socket --> chunk --> frames --> dispatch --> slots --> socket
                                                 1 2 3 4   an answer waits for those before it

Bytes are received into chunks, and requests are views of them: a batch is not copied between the
socket and the store. A chunk begins small and grows with what has really come, never with what a
length field promises; so a short frame that announces a large one costs next to nothing.

When a connection has too much on its way, or the whole broker has, its socket is not read until
there is room: memory is bounded, and the client feels it.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from lakelog.broker.budget import Budget
from lakelog.broker.limits import Limits
from lakelog.errors import LakelogError
from lakelog.formats import Bytes
from lakelog.wire import FRAME_BYTES_MIN, ProduceShape

if TYPE_CHECKING:
    from lakelog.broker.api.fetch import Fetching
    from lakelog.broker.services import Call

__all__ = ["Connection", "Frames", "Slot"]

CHUNK_BYTES_MIN = 4 << 10
CHUNK_BYTES_MAX = 1 << 20
GROWTH = 2
FRAMES_A_CHUNK = 4
SMALL_BYTES = 64 << 10
"""Also when the budget is spent a connection may have so much: heartbeats must pass."""

WRITE_BYTES_HIGH = 1 << 20
JOIN_BYTES_MAX = 64 << 10
"""Answers that are so small in all are copied into one piece: the kernel takes each by itself."""

_SIZE = struct.Struct(">i")


class Slot:
    """The place of one answer."""

    __slots__ = ("_connection", "is_done", "pieces", "sent", "size", "work")

    def __init__(self, connection: "Connection", size: int) -> None:
        self._connection = connection
        self.size = size
        """Bytes of the request."""
        self.pieces: list[Bytes] = []
        self.is_done = False
        self.work: Any = None
        """What can be cancelled if the connection ends."""
        self.sent: Callable[[], None] | None = None
        """Called when the answer has been handed over."""

    def answer(self, pieces: list[Bytes]) -> None:
        """Answer, once those before have been."""
        self.pieces = [_SIZE.pack(sum(map(len, pieces))), *pieces]
        self.done()

    def send(self, frame: bytes) -> None:
        """Answer with a whole frame."""
        self.pieces = [frame]
        self.done()

    def done(self) -> None:
        """There is nothing more to come of it."""
        if not self.is_done:
            self.is_done = True
            self._connection.settle(self)

    def fail(self, why: str) -> None:
        """There will be no answer: end the connection."""
        self._connection.close(why)


class Frames(Protocol):
    """Whoever takes requests."""

    limits: Limits
    budget: Budget

    def opened(self, connection: "Connection") -> bool:
        """Take note of a connection; False: there are too many."""
        ...

    def closed(self, connection: "Connection", why: str) -> None:
        """Take note that it has ended."""
        ...

    def sent(self, size: int) -> None:
        """Take note of bytes that were sent."""
        ...

    def frame(self, connection: "Connection", frame: memoryview, slot: Slot) -> None:
        """Answer a request, now or later.

        Raises:
            LakelogError: this is no request that can be answered.
        """
        ...


class Connection(asyncio.BufferedProtocol):
    """A socket of a client."""

    def __init__(self, frames: Frames, listener: str) -> None:
        self._frames = frames
        self._limits, self._budget = frames.limits, frames.budget
        self.listener = listener
        self.host = ""
        self.call: Call | None = None
        """Who it was that asked last: kept, because it is nearly always the same."""
        self.shape: ProduceShape | None = None
        """What its requests to produce look like."""
        self.asking: asyncio.Task[None] | None = None
        """A request to produce that waits for its topic, and must not be overtaken."""
        self.in_turn = asyncio.Lock()
        """Held by a request that changes something until it has: the next may not overtake it. A
        commit of older offsets would undo a newer one."""
        self.changes: set[asyncio.Task[None]] = set()
        """Requests that change something, and are not answered yet."""
        self.fetches: deque[Fetching] = deque()
        """One at a time, until its answer is on its way: answers are large, and some clients do not
        read them."""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._chunk = bytearray()
        self._start = self._end = 0
        """Where what has not been taken begins in the chunk, and where it ends."""
        self._wanted = CHUNK_BYTES_MIN
        self._largest = 0
        """Frame so far."""
        self._slots: deque[Slot] = deque()
        self._taken = 0
        """Bytes of the budget."""
        self._partial = 0
        """Bytes of a large frame that is not whole."""
        self._is_settling = self._is_paused = self._is_full = self._is_held = False
        self._is_waiting = False
        """For room in the budget: it will be called, once."""
        self.used_s = self._loop.time()
        self.why = ""

    # ------------------------------------------------------------------------ asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)  # type: ignore[attr-defined]
        if not self._frames.opened(self):
            self.close("too many connections")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (chunks grow by what came)
        """Return where the next bytes go."""
        if self._end == len(self._chunk):
            self._next_chunk()
        return memoryview(self._chunk)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come, frame by frame."""
        self._end += nbytes
        chunk, start, end = self._chunk, self._start, self._end
        view = memoryview(chunk)
        self.used_s = self._loop.time()
        self._is_held = False
        try:
            while end - start >= 4 and not self._is_full:
                (size,) = _SIZE.unpack_from(chunk, start)
                if not FRAME_BYTES_MIN <= size <= self._limits.request_bytes_max:
                    self.close(f"a frame of {size} bytes")
                    return
                if min(size, end - start) > SMALL_BYTES and self._budget.is_spent:
                    self._is_held = True  # Until there is room: it stays where it is.
                    self._adjust()
                    break
                if end - start - 4 < size:
                    break
                self._take(view[start + 4 : start + 4 + size], size)
                start += 4 + size
                if size > self._largest:
                    self._largest = size
        except LakelogError as error:
            self.close(str(error))
            return
        self._start = start
        self._count_partial(0 if self._is_full else end - start)
        if end == len(chunk):
            # A few frames in a chunk: more would keep all of it in memory for one of them.
            most = min(max(FRAMES_A_CHUNK * self._largest, SMALL_BYTES), CHUNK_BYTES_MAX)
            self._wanted = min(GROWTH * self._wanted, most)

    def _count_partial(self, left: int) -> None:
        """Count what has come of a large frame that is not whole. Nobody waits for room here: then
        all might wait for each other. Who goes beyond what there is has to come again.
        """
        held = left if left > SMALL_BYTES else 0
        if held != self._partial:
            self._budget.partial += held - self._partial
            self._partial = held
            if self._budget.partial > self._budget.total:
                self.close("requests that are not whole take all the memory there is for them")

    def relax(self) -> None:
        """Hold no memory while nothing comes."""
        if self._start == self._end:
            self._chunk, self._start, self._end = bytearray(), 0, 0
            self._wanted = CHUNK_BYTES_MIN

    def eof_received(self) -> bool:
        """The client says no more: so neither do we."""
        return False

    def pause_writing(self) -> None:
        """The client does not read its answers: do not read its requests."""
        self._is_paused = True
        self._adjust()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_paused = False
        self.settle()
        self._adjust()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: nobody waits for the answers any more.

        What is on its way to the store stays in memory, and in the budget, until it is there: else
        a client that connects again and again could fill the memory.
        """
        self._transport = None
        for slot in self._slots:
            if slot.is_done:
                self._free(slot)
            elif slot.work is not None:
                slot.work.cancel()
                slot.done()
        self._slots.clear()
        self._count_partial(0)
        self._budget.forget(self._resume)
        self._frames.closed(self, self.why or (repr(exc) if exc else ""))

    # ------------------------------------------------------------------------ reading

    def _next_chunk(self) -> None:
        """Make room: a new chunk, with what is left of the old one at its beginning."""
        left = self._end - self._start
        size = self._wanted
        if left:
            size = max(size, GROWTH * left)
            if left >= 4:
                (frame,) = _SIZE.unpack_from(self._chunk, self._start)
                size = min(size, max(4 + frame, self._wanted))
        if size <= left:
            size = left + self._wanted  # Whole frames that wait to be taken.
        chunk = bytearray(size)
        chunk[:left] = memoryview(self._chunk)[self._start : self._end]
        self._chunk, self._start, self._end = chunk, 0, left

    def _take(self, frame: memoryview, size: int) -> None:
        slot = Slot(self, size)
        self._slots.append(slot)
        self._taken += size
        self._budget.take(size)
        try:
            self._frames.frame(self, frame, slot)
        except BaseException:
            slot.done()
            raise
        if self._taken > SMALL_BYTES or len(self._slots) > self._limits.connection_requests:
            self._adjust()

    def _adjust(self) -> None:
        """Read or do not read, as there is room."""
        full = (
            self._is_paused
            or self._taken > self._limits.connection_bytes
            or len(self._slots) > self._limits.connection_requests
        )
        spent = self._budget.is_spent and (self._is_held or self._taken > SMALL_BYTES)
        if self._transport is None:
            return
        if spent and not self._is_waiting:
            # Also if it is full for another reason: when that has passed, nobody else will call.
            self._is_waiting = True
            self._budget.wait(self._resume)
        if (full or spent) == self._is_full:
            return
        self._is_full = full or spent
        if self._is_full:
            self._transport.pause_reading()
        else:
            self._loop.call_soon(self._go_on)

    def _resume(self) -> None:
        """There is room in the budget again."""
        self._is_waiting = False
        self._adjust()

    def _go_on(self) -> None:
        """Take frames that had come before reading was stopped, and then read on."""
        if self._transport is not None and self._end > self._start:
            self.buffer_updated(0)
        if self._transport is not None and not self._is_full:
            self._transport.resume_reading()

    # ------------------------------------------------------------------------ answering

    def settle(self, slot: Slot | None = None) -> None:
        """Send what can be sent, once for all that is settled in this turn of the loop."""
        if self._transport is None:
            if slot is not None:
                self._free(slot)
        elif not self._is_settling:
            self._is_settling = True
            self._loop.call_soon(self._send)

    def _free(self, slot: Slot) -> None:
        self._taken -= slot.size
        self._budget.give(slot.size)

    def _send(self) -> None:
        self._is_settling = False
        transport = self._transport
        if transport is None:
            return
        slots, out, freed = self._slots, [], 0
        while slots and slots[0].is_done and not self._is_paused:
            slot = slots.popleft()
            out += slot.pieces
            freed += slot.size
            # What answers knows its slot, and the slot what answers: nobody else would part them.
            slot.pieces, slot.work = [], None
            if slot.sent is not None:
                self._loop.call_soon(slot.sent)
        if out:
            size = sum(map(len, out))
            if size < JOIN_BYTES_MAX:
                transport.write(b"".join(out))
            else:
                transport.writelines(out)
            self._frames.sent(size)
        if freed:
            self._taken -= freed
            self._budget.give(freed)
            if self._is_full:
                self._adjust()

    def close(self, why: str) -> None:
        """End the connection."""
        if self._transport is not None and not self._transport.is_closing():
            self.why = why
            self._transport.close()

    def abort(self) -> None:
        """End it, and do not wait for what is on its way."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_lost(self) -> bool:
        return self._transport is None

    @property
    def is_busy(self) -> bool:
        """Whether answers are owed or on their way."""
        return bool(self._slots) or self.is_sending

    @property
    def is_sending(self) -> bool:
        """Whether answers are on their way."""
        transport = self._transport
        return self._is_settling or bool(transport and transport.get_write_buffer_size())

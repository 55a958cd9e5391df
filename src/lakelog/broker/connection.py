"""One connection: frames in, answers out in the order of the requests.

    socket --> chunk --> frames --> dispatch --> slots --> socket
                                                 1 2 3 4   an answer waits for those before it

Bytes are received into chunks, and requests are views of them: a batch is not copied between the
socket and the store.

When a connection has too much on its way, or its address, or the whole broker, its socket is not
read until there is room: memory is bounded, and the client feels it. What has come of a request
that is not whole is memory, too: it has a deadline, and beyond a bound the oldest has to go.
"""

import asyncio
from collections import deque
from mmap import mmap
from typing import TYPE_CHECKING

from lakelog.broker.budget import address_of
from lakelog.broker.chunks import CHUNK_BYTES_MIN, SIZE, SMALL_BYTES, grown, next_chunk
from lakelog.broker.meters import Meter
from lakelog.broker.response_slots import Frames, ResponseSlot
from lakelog.broker.unread_answers import UnreadAnswers
from lakelog.errors import LakelogError
from lakelog.security import ANONYMOUS, Principal, SaslMachine
from lakelog.wire import FRAME_BYTES_MIN, ProduceShape

if TYPE_CHECKING:
    from lakelog.broker.api.fetch import Fetching

__all__ = ["Connection"]

READ_BYTES_MAX = 256 << 10  # At once: others want to be read as well.
WRITE_BYTES_HIGH = 1 << 20
JOIN_BYTES_MAX = 64 << 10
"""Answers that are so small in all are copied into one piece: the kernel takes each by itself."""

RELAX_S = 1.0
"""A connection that is silent for so long holds no memory to read into."""


class Connection(asyncio.BufferedProtocol):
    """A socket of a client."""

    def __init__(self, frames: Frames, listener: str) -> None:
        self._frames = frames
        self._limits = frames.limits
        self._budget, self._buffers = frames.budget, frames.buffers
        self.listener = listener
        self.principal: Principal = ANONYMOUS
        """Whom the client has proved to be."""
        self.login: SaslMachine | None = None
        """Its logins, if its client has to log in."""
        self.meter: Meter | None = None
        """Of what its client uses, once there are quotas."""
        self.is_admitted = False
        """Whether it is counted already, as those are that came through a handshake."""
        self.host = ""
        self.address = ""
        """The address whose share of memory it uses."""
        self.judged: object = None
        """The mark of the ACLs by which requests that look like its shape were allowed."""
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
        self.unread = UnreadAnswers(frames.answers, frames.limits, self._loop.time())
        self._chunk: bytearray | mmap = bytearray()
        self._start = self._end = 0
        """Where what has not been taken begins in the chunk, and where it ends."""
        self._wanted = CHUNK_BYTES_MIN
        self._largest = 0
        """Frame so far."""
        self._slots: deque[ResponseSlot] = deque()
        self._taken = 0
        """Bytes of the budget."""
        self._held = 0
        """Bytes of a frame that is not whole, or that waits: they are in the buffers' count."""
        self._begun_s: float | None = None
        """Since when that frame comes; the time that it was not read does not count."""
        self._stopped_s = 0.0
        self._is_send_due = self._is_paused = self._is_held = False
        self.is_stopped = False
        """Whether it is not read, since there is no room."""
        self._is_ended = False
        self._is_waiting = False
        """For room in the budget: it will be called, once."""
        self.used_s = self._loop.time()
        self.why = ""
        self.is_told = False
        """Whether the log has been told why it ends."""

    # ------------------------------------------------------------------------ asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        self.address = address_of(self.host)
        self.unread.begin(self.address, transport.get_write_buffer_size)  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)  # type: ignore[attr-defined]
        if refusal := self._frames.opened(self):
            self.close(refusal)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (chunks grow by what came)
        """Return where the next bytes go."""
        if self._end == len(self._chunk):
            left = memoryview(self._chunk)[self._start : self._end]
            self._chunk, self._start, self._end = next_chunk(left, self._wanted), 0, len(left)
        # Without a budget a large request is left where it is, as soon as it has said its size.
        most = CHUNK_BYTES_MIN if self._budget.is_spent(self.address) else READ_BYTES_MAX
        return memoryview(self._chunk)[self._end : self._end + most]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come, frame by frame."""
        if self._is_ended:
            return  # The connection has ended.
        self._end += nbytes
        self.used_s = self._loop.time()
        self._is_held = False
        end, is_full_chunk = self._end, self._end == len(self._chunk)
        try:
            start = self._take_frames(self._start, end)
        except LakelogError as error:
            self.close(str(error))
            return
        if start < 0:
            return
        if end == start or start != self._start or self._begun_s is None:
            self._begin_frame(is_begun=end > start)
        self._start = start
        self._hold(end - start)
        if is_full_chunk:
            self._wanted = grown(self._wanted, self._largest)

    def _take_frames(self, start: int, end: int) -> int:
        """Take frames that are whole, as long as there is room; return where the next one begins,
        or -1 if the connection has ended.
        """
        chunk, most = self._chunk, self._limits.control_bytes_max
        view = memoryview(chunk)
        while end - start >= 4 and not self.is_stopped:
            (size,) = SIZE.unpack_from(chunk, start)
            if not FRAME_BYTES_MIN <= size <= most:
                flaw = self._limits.flaw(size, chunk[start + 4 : min(start + 6, end)])
                if flaw:
                    self.close(flaw)
                    return -1
            if size > SMALL_BYTES and self._budget.is_spent(self.address):
                self._is_held = True  # Until there is room: it stays where it is.
                self.adjust()
                break
            if end - start - 4 < size:
                break
            self._take(view[start + 4 : start + 4 + size], size)
            if self._is_ended:
                return -1
            start += 4 + size
            if size > self._largest:
                self._largest = size
        return start

    def _begin_frame(self, *, is_begun: bool) -> None:
        """Take note of when a frame began to come; or that there is none."""
        if is_begun:
            self._begun_s = self.used_s
            self._buffers.begin(self, self.address)
        elif self._begun_s is not None:
            self._begun_s = None
            self._buffers.end(self, self.address)

    def _hold(self, left: int) -> None:
        """Count what has come and is not taken. There is no waiting for room here: connections
        could wait for each other for ever. Beyond what there is, the oldest one is closed.
        """
        if left != self._held:
            buffers = self._buffers
            buffers.count(left - self._held, self.address)
            self._held = left
            if buffers.used > buffers.total:
                buffers.fit()

    def watch(self, now_s: float) -> None:
        """Called now and then: free the memory of a silent connection, and end a slow one."""
        idle_s = now_s - self.used_s
        if idle_s > RELAX_S and self._start == self._end:
            self._chunk, self._start, self._end = bytearray(), 0, 0
            self._wanted = CHUNK_BYTES_MIN
        if idle_s * 1000 > self._limits.idle_ms and not self.is_busy and not self.is_stopped:
            self.close(f"no request came for {idle_s:.0f} s (connections.max.idle.ms)")
        if slow := self.unread.watch(now_s):
            self.drop(slow)
        if self._begun_s is not None and not self.is_stopped:
            size = 0
            if self._end - self._start >= 4:
                (size,) = SIZE.unpack_from(self._chunk, self._start)
            due_s = self._limits.frame_ms / 1000 + size / self._limits.frame_bytes_per_s
            if now_s - self._begun_s > due_s:
                came = self._end - self._start
                self.drop(
                    f"{came} bytes of a request of {size} bytes came in"
                    f" {now_s - self._begun_s:.0f} s: it has to be whole after {due_s:.0f} s"
                )

    def pause_writing(self) -> None:
        """The client does not read its answers: do not read its requests."""
        self._is_paused = True
        self.adjust()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_paused = False
        self.unread.look()
        self.send_soon()
        self.adjust()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: the client takes no more answers.

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
        self._end_reading()
        if self.meter is not None:
            self.meter.end()
        self.unread.end()
        self._budget.forget(self._resume, self.address)
        self._frames.closed(self, self.why or (repr(exc) if exc else ""))

    # ------------------------------------------------------------------------ reading

    def _take(self, frame: memoryview, size: int) -> None:
        slot = ResponseSlot(self, size)
        self._slots.append(slot)
        self._taken += size
        self._budget.take(size, self.address)
        try:
            self._frames.frame(self, frame, slot)
        except BaseException:
            slot.done()
            raise
        if self._taken > SMALL_BYTES or len(self._slots) > self._limits.connection_requests:
            self.adjust()

    def adjust(self) -> None:
        """Read or do not read, as there is room and quotas let it."""
        full = (
            self._is_paused
            or (self.meter is not None and self.meter.is_muted)
            or self._taken > self._limits.connection_bytes
            or len(self._slots) > self._limits.connection_requests
        )
        spent = (self._is_held or self._taken > SMALL_BYTES) and self._budget.is_spent(self.address)
        if self._transport is None:
            return
        if spent and not self._is_waiting:
            # Also if it is full for another reason: when that has passed, no other call comes.
            self._is_waiting = True
            self._budget.wait(self._resume, self.address)
        if (full or spent) == self.is_stopped:
            return
        self.is_stopped = full or spent
        if self.is_stopped:
            self._transport.pause_reading()
            self._stopped_s = self._loop.time()
        else:
            self.used_s = self._loop.time()  # While it was not read it could not be silent.
            if self._begun_s is not None:
                self._begun_s += self.used_s - self._stopped_s
            self._loop.call_soon(self._go_on)

    def _resume(self) -> None:
        """There is room in the budget again."""
        self._is_waiting = False
        self.adjust()

    def _go_on(self) -> None:
        """Take frames that had come before reading was stopped, and then read on."""
        if not self._is_ended and self._end > self._start:
            self.buffer_updated(0)
        if self._transport is not None and not self._is_ended and not self.is_stopped:
            self._transport.resume_reading()

    # ------------------------------------------------------------------------ answering

    def send_soon(self, slot: ResponseSlot | None = None) -> None:
        """Send what can be sent, once for all slots that are done in this turn of the loop."""
        if self._transport is None:
            if slot is not None:
                self._free(slot)
        elif not self._is_send_due:
            self._is_send_due = True
            self._loop.call_soon(self._send)

    def _free(self, slot: ResponseSlot) -> None:
        self._taken -= slot.size
        self._budget.give(slot.size, self.address)
        self.unread.gone(slot.counted)

    def shrink(self, slot: ResponseSlot, size: int) -> None:
        """Give back what is no longer needed of a request that waits for its answer."""
        self._taken -= slot.size - size
        self._budget.give(slot.size - size, self.address)
        slot.size = size
        if self.is_stopped:
            self.adjust()

    def _send(self) -> None:
        self._is_send_due = False
        transport = self._transport
        if transport is None:
            return
        slots, out, freed, counted, why = self._slots, [], 0, 0, ""
        while slots and slots[0].is_done and not self._is_paused:
            slot = slots.popleft()
            out += slot.pieces
            freed += slot.size
            counted += slot.counted
            # What answers refers to its slot, and the slot to what answers: end that cycle.
            slot.pieces, slot.work = [], None
            why = why or slot.why
            if slot.sent is not None:
                self._loop.call_soon(slot.sent)
        if out:
            size = sum(map(len, out))
            if size < JOIN_BYTES_MAX:
                transport.write(b"".join(out))
            else:
                transport.writelines(out)
            self._frames.sent(size)
            self.unread.wrote(size, counted)
            if counted:
                self._loop.call_soon(self.unread.look)  # The kernel has taken its part by then.
        if freed:
            self._taken -= freed
            self._budget.give(freed, self.address)
            if self.is_stopped:
                self.adjust()
        if why:
            self.close(why)

    def close(self, why: str) -> None:
        """End the connection."""
        if self._transport is not None and not self._is_ended:
            self.why = why
            self._end_reading()
            self._transport.close()

    def drop(self, why: str) -> None:
        """End it now: what is on its way is lost, and what has come of a request is forgotten."""
        self._end_reading()
        if self._transport is not None:
            self.why = self.why or why
            self._transport.abort()

    def _end_reading(self) -> None:
        """Take no more requests, and hold nothing to read into."""
        self._is_ended = True
        self._begin_frame(is_begun=False)
        self._hold(0)
        self._chunk, self._start, self._end = bytearray(), 0, 0

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
        return self._is_send_due or bool(transport and transport.get_write_buffer_size())

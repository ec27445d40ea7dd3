"""One client's connection: frames in, answers out, in the order of the requests. It never looks inside a frame."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from typing_extensions import Buffer

from oncelog.coordination import Promise, Task
from oncelog.server.listening import peer_host
from oncelog.server.memory import MemoryBudget
from oncelog.server.receive_buffer import GROWTH, RECEIVE_BYTES, ReceiveBuffer
from oncelog.wire import WireError

logger = logging.getLogger("oncelog.connections")

FRAMES_MAX = 256
"""So many are cut out of what came at a time. A small frame takes several times its bytes, and there may be thousands."""
LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")
WRITE_BUFFER_BYTES_MAX = 256 * 1024
SENT_AT_ONCE_BYTES = 1024 * 1024
"""The most of a large answer that is handed to the transport at once: it stays in memory until it is sent."""
TURN_S = 0.005
GATHERED_BYTES_MAX = 4096
GATHERED_MAX = 8
"""So many answers to requests that came together leave together, for a system call takes a fifth of the time of a small request."""

Answer = list[Buffer] | None
Handler = Callable[["Connection", memoryview], Answer | Promise[Answer]]


class Connection(asyncio.BufferedProtocol):
    """Serves one request at a time, as Kafka does: what a client sent later waits for what it sent before.

    Bytes come into `buffer`, which all connections of an event loop share. A frame that is whole there is served from there if
    it can be served at once, and copied if not; the beginning of the next is kept. A large one that is not whole is lent the
    buffer, or gets one of its own that grows as its bytes come.
    """

    __slots__ = (
        "_answering",
        "_buffer",
        "_closing",
        "_frame",
        "_frame_filled",
        "_frame_room",
        "_frame_size",
        "_handler",
        "_has_no_room",
        "_holds_answer",
        "_is_cut_short",
        "_memory",
        "_on_bug",
        "_on_close",
        "_on_open",
        "_refusal",
        "_request_bytes_max",
        "_rest",
        "_sent_of_first",
        "_served_bytes",
        "_serving",
        "_task",
        "_transport",
        "_unsent",
        "_unsent_bytes",
        "_waiting",
        "_write_paused",
        "close_reason",
        "last_active_s",
        "listener",
        "number",
        "peer_host",
        "peer_port",
        "principal",
    )

    def __init__(
        self,
        number: int,
        listener: str,
        handler: Handler,
        request_bytes_max: int,
        buffer: ReceiveBuffer,
        memory: MemoryBudget,
        on_open: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self.number = number
        self.listener = listener
        self.principal: str | None = None
        self._handler = handler
        self._request_bytes_max = request_bytes_max
        self._on_open = on_open
        self._on_close = on_close
        self._on_bug = on_bug
        self._transport: asyncio.Transport | None = None
        self._buffer = buffer
        self._memory = memory
        self._rest = b""
        self._is_cut_short = False
        self._frame: bytearray | memoryview | None = None
        self._frame_size = 0
        self._frame_room = 0
        self._frame_filled = 0
        self._has_no_room = False
        self._served_bytes = 0
        self._waiting: deque[memoryview] = deque()
        self._unsent: deque[Buffer] = deque()
        self._unsent_bytes = 0
        self._sent_of_first = 0
        self._holds_answer = False
        self._task: Task[Any] | None = None
        self._answering = False
        self._serving = False
        self._write_paused = False
        self._closing = False
        self._refusal: str | None = None
        self.close_reason: str | None = None
        self.last_active_s = 0.0
        self.peer_host = ""
        self.peer_port = 0

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are such without being declared so.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self.last_active_s = asyncio.get_running_loop().time()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer_host, self.peer_port = peer_host(peer[0]), peer[1]
        self._on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._waiting.clear()
        self._end_task()
        self._frame = None
        self._forget_unsent()
        self._memory.forget(self)
        if self.close_reason is None:
            logger.debug("connection of %s:%d is closed", self.peer_host, self.peer_port)
        else:
            logger.info("connection of %s:%d is closed: %s", self.peer_host, self.peer_port, self.close_reason)
        self._on_close(self)

    def get_buffer(self, size_hint: int) -> memoryview:
        frame = self._frame
        if frame is not None:
            if isinstance(frame, bytearray) and len(frame) < self._frame_room:
                try:
                    frame.extend(bytes(self._frame_room - len(frame)))
                except MemoryError:
                    self._begin_to_close(f"the machine has no memory for a request of {self._frame_size} bytes")
                    # Not from here: uvloop is about to read into what it is given.
                    asyncio.get_running_loop().call_soon(self.abort)
                    return self._buffer.place_behind(b"")
            return memoryview(frame)[self._frame_filled :]
        return self._buffer.place_behind(self._rest)

    def buffer_updated(self, size_bytes: int) -> None:
        if self._closing:
            return
        self.last_active_s = asyncio.get_running_loop().time()
        frame = self._frame
        if frame is None:
            self._receive_frames(size_bytes)
        else:
            self._receive_part(frame, size_bytes)

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER, if it has shown one."""
        assert self._transport is not None, "it is connected"
        tls = self._transport.get_extra_info("ssl_object")
        shown: bytes | None = None if tls is None else tls.getpeercert(binary_form=True)
        return shown

    def serve_with(self, handler: Handler, request_bytes_max: int) -> None:
        """Serve further requests with another handler, up to this size: the client has logged in."""
        self._handler = handler
        self._request_bytes_max = request_bytes_max

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._unsent:
            self._send()
        else:
            self._note_unsent()
        if self._closing:
            self._close_when_sent()
        elif not self._write_paused:
            self._serve()

    # --- frames

    def _receive_frames(self, size_bytes: int) -> None:
        waiting = len(self._waiting)
        self._split(memoryview(self._buffer.received).toreadonly(), len(self._rest) + size_bytes)
        received = len(self._waiting) - waiting
        self._serve()
        if self._waiting:
            self._keep_waiting(received)

    def _receive_part(self, frame: bytearray | memoryview, size_bytes: int) -> None:
        """More of a large frame has come."""
        self._frame_filled += size_bytes
        if self._frame_filled < self._frame_size:
            if self._frame_filled == self._frame_room:
                self._ask_for_room()
            self._serve()
            return
        self._frame = None
        self._waiting.append(memoryview(frame).toreadonly())
        if isinstance(frame, bytearray):
            self._serve()
            return
        if not self._closing:
            self._memory.end_request(self, self._frame_room - self._frame_size)
        self._serve()
        if self._waiting:
            self._keep_waiting(1)
        self._buffer.give_back(frame)

    def _keep_waiting(self, received: int) -> None:
        """The last frames, of which so many are in the buffer, have to wait: it is another connection's from now on."""
        waiting = self._waiting
        for place in range(max(0, len(waiting) - received), len(waiting)):
            waiting[place] = memoryview(bytes(waiting[place]))

    def _split(self, view: memoryview, stop: int) -> None:
        """Cut what came into frames; keep the beginning of the last one, or what comes after as many as may wait."""
        start = 0
        self._is_cut_short = False
        while stop - start >= LENGTH_BYTES:
            if len(self._waiting) == FRAMES_MAX:
                self._is_cut_short = True
                break
            (size,) = _LENGTH.unpack_from(view, start)
            if not 0 < size <= self._request_bytes_max:
                # What came before it is answered first.
                self._refusal = f"a request of {size} bytes is not taken"
                return
            begin = start + LENGTH_BYTES
            end = begin + size
            if end <= stop:
                if _is_large(size):
                    self._memory.begin_request(self, size)
                self._waiting.append(view[begin:end])
                start = end
            elif _is_large(size):
                self._begin_large_frame(view, begin, stop, size)
                start = stop
            else:
                break
        self._rest = bytes(view[start:stop]) if start < stop else b""

    def _split_rest(self) -> None:
        """Go on where frames were cut short."""
        rest = memoryview(self._rest)
        self._split(rest, len(rest))

    def _begin_large_frame(self, view: memoryview, begin: int, stop: int, size: int) -> None:
        self._frame_size = size
        self._frame_filled = stop - begin
        lent = self._buffer.lend(begin, stop, size) if view.obj is self._buffer.received else None
        if lent is not None:
            self._frame = lent
            self._frame_room = memoryview(lent.obj).nbytes
            self._memory.begin_request(self, self._frame_room)
            return
        self._frame_room = min(size, max(RECEIVE_BYTES, stop - begin))
        self._frame = bytearray(self._frame_room)
        self._frame[: stop - begin] = view[begin:stop]
        self._memory.begin_request(self, self._frame_room)
        if self._frame_filled == self._frame_room:
            self._ask_for_room()

    def _ask_for_room(self) -> None:
        room = min(self._frame_size, GROWTH * self._frame_filled)
        self._has_no_room = not self._memory.extend_request(self, room - self._frame_room)
        # It is taken when there is more to read: the caller may still have a view of the frame.
        self._frame_room = room

    def room_made(self) -> None:
        """The memory that this connection has waited for is there."""
        self._has_no_room = False
        if self._transport is not None and not self._closing:
            self._pause_or_resume_reading(self._transport)

    # --- answers

    @property
    def is_answering(self) -> bool:
        return self._answering

    @property
    def is_closing(self) -> bool:
        return self._closing

    def _serve(self) -> None:
        """Hand on requests until one has to wait for its answer, or the client does not read its answers.

        One that sends much at once is served for a while, and goes on after the others.
        """
        self._serving = True
        end_s = 0.0
        try:
            while not (self._answering or self._write_paused or self._closing) and self._has_more():
                frame = self._waiting.popleft()
                size_bytes = len(frame)
                self._served_bytes = size_bytes if _is_large(size_bytes) else 0
                self._answering = True
                answer = self._handler(self, frame)
                if isinstance(answer, Promise):
                    if self._unsent:
                        self._send()
                    self._task = answer if isinstance(answer, Task) else None
                    answer.then(self._answer)
                else:
                    self._answer(answer)
                if not (self._answering or self._closing) and self._has_more():
                    end_s = end_s or time.monotonic() + TURN_S
                    if time.monotonic() >= end_s:
                        asyncio.get_running_loop().call_soon(self._serve)
                        break
        except WireError as error:
            self.close(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug, and the process must not go on
            self._on_bug(error)
            return
        finally:
            self._serving = False
        if self._unsent:
            self._send()
        if self._refusal is not None and not (self._waiting or self._answering):
            self.close(self._refusal)
        if self._transport is not None and not self._closing:
            self._pause_or_resume_reading(self._transport)

    def _has_more(self) -> bool:
        """True if a request is cut out of the received bytes and waits for its turn."""
        if not self._waiting and self._is_cut_short:
            self._split_rest()
        return bool(self._waiting)

    def _pause_or_resume_reading(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            # Its client has gone, and it will be said.
            return
        should_read = not (self._waiting or self._is_cut_short or self._refusal is not None or self._has_no_room)
        if should_read != transport.is_reading():
            if should_read:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _answer(self, chunks: Answer) -> None:
        self._answering = False
        self._task = None
        if self._closing or self._transport is None:
            return
        if self._served_bytes:
            self._memory.end_request(self, self._served_bytes)
        if chunks is not None:
            self._unsent += chunks
            size_bytes = sum(map(len, chunks))  # type: ignore[arg-type]
            self._unsent_bytes += size_bytes
            is_small = size_bytes < GATHERED_BYTES_MAX
            if not (self._waiting and self._serving and is_small and len(self._unsent) < GATHERED_MAX):
                self._send()
        elif self._holds_answer:
            self._note_unsent()
        if (self._waiting or self._is_cut_short or self._refusal is not None) and not self._serving:
            # Not from here: the flow that released this answer is in the middle of its own work.
            asyncio.get_running_loop().call_soon(self._serve)

    def _send(self) -> None:
        """Hand on as much as the transport takes; the rest follows when it has room again."""
        transport = self._transport
        if transport is None or transport.is_closing():
            self._forget_unsent()
            return
        while self._unsent and not self._write_paused:
            part = self._next_part()
            if len(part) == 1:
                transport.write(part[0])  # type: ignore[arg-type]
            else:
                transport.writelines(part)  # type: ignore[arg-type]
        if self._write_paused or self._holds_answer:
            self._note_unsent()

    def _next_part(self) -> list[Buffer]:
        """The next chunks of what is not sent, or a part of one."""
        unsent = self._unsent
        if self._unsent_bytes <= SENT_AT_ONCE_BYTES and not self._sent_of_first:
            part = list(unsent)
            self._forget_unsent()
            return part
        part = []
        left_bytes = SENT_AT_ONCE_BYTES
        while unsent and left_bytes:
            rest = memoryview(unsent[0])[self._sent_of_first :]
            if len(rest) > left_bytes:
                part.append(rest[:left_bytes])
                self._sent_of_first += left_bytes
                break
            part.append(rest if self._sent_of_first else unsent[0])
            left_bytes -= len(rest)
            self._unsent_bytes -= memoryview(unsent.popleft()).nbytes
            self._sent_of_first = 0
        return part

    def _forget_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = self._sent_of_first = 0

    def _note_unsent(self) -> None:
        """Tell how much memory the answers still take: a chunk is free when all of it has left."""
        in_transport = self._transport.get_write_buffer_size() if self._write_paused and self._transport else 0
        size_bytes = self._unsent_bytes + in_transport
        self._holds_answer = size_bytes > 0
        self._memory.answer(self, size_bytes)

    @property
    def untaken_bytes(self) -> int:
        in_transport = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._unsent_bytes - self._sent_of_first + in_transport

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        """Have memory for a large answer before it is made; released with how long it may be."""
        self._holds_answer = True
        return self._memory.reserve(self, most_bytes, least_bytes)

    def close(self, reason: str | None = None) -> None:
        """Close after what was answered already is sent. `reason` is None when the client did nothing wrong."""
        if self._closing:
            return
        self._begin_to_close(reason)
        if self._unsent and not self._write_paused:
            self._send()
        self._close_when_sent()

    def _begin_to_close(self, reason: str | None) -> None:
        self._closing = True
        self.close_reason = reason
        self._waiting.clear()
        self._end_task()

    def _close_when_sent(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._unsent:
            transport.pause_reading()
        else:
            transport.close()

    def _end_task(self) -> None:
        """Nobody reads the answer of the request that waits any more."""
        task, self._task = self._task, None
        if task is not None:
            task.end()

    def abort(self, reason: str | None = None) -> None:
        """Close, and send nothing more."""
        if not self._closing:
            self._begin_to_close(reason)
        self._forget_unsent()
        if self._transport is not None:
            self._transport.abort()


def _is_large(size_bytes: int) -> bool:
    return LENGTH_BYTES + size_bytes > RECEIVE_BYTES

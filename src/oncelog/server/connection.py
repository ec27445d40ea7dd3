"""One client's connection: frames in, answers out, in the order of the requests. It never looks inside a frame."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from typing_extensions import Buffer

from oncelog.wire import WireError

if TYPE_CHECKING:
    from oncelog.coordination import Parked

RECEIVE_BYTES = 64 * 1024
LENGTH_BYTES = 4
LARGE_FRAME_BYTES = 2 * 1024 * 1024
"""What a large frame gets at once: more than any client asks for by default. What is never filled costs no memory."""
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
TURN_S = 0.005

Answer = list[Buffer] | None
Handler = Callable[["Connection", memoryview], "Parked[Answer]"]


class Connection(asyncio.BufferedProtocol):
    """Serves one request at a time, as Kafka does: what a client sent later waits for what it sent before.

    A frame that fits the receive buffer is handed on from there; a larger one gets a buffer of its own that grows as
    its bytes come, so that a length that is never filled costs nothing.
    """

    __slots__ = (
        "_answering",
        "_buffer",
        "_closing",
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_handler",
        "_held",
        "_on_bug",
        "_on_close",
        "_on_open",
        "_refusal",
        "_request_bytes_max",
        "_serving",
        "_start",
        "_stop",
        "_transport",
        "_waiting",
        "_write_paused",
        "close_reason",
        "last_active_s",
        "peer_host",
        "peer_port",
    )

    def __init__(
        self,
        handler: Handler,
        request_bytes_max: int,
        on_open: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._handler = handler
        self._request_bytes_max = request_bytes_max
        self._on_open = on_open
        self._on_close = on_close
        self._on_bug = on_bug
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(RECEIVE_BYTES)
        self._start = 0
        self._stop = 0
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._frame_filled = 0
        self._waiting: deque[memoryview] = deque()
        self._answering = False
        self._serving = False
        self._held = False
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
            self.peer_host, self.peer_port = peer[0], peer[1]
        self._on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._waiting.clear()
        self._on_close(self)

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._frame is not None:
            if self._frame_filled == len(self._frame):
                self._frame.extend(bytes(min(len(self._frame), self._frame_size - len(self._frame))))
            return memoryview(self._frame)[self._frame_filled :]
        return memoryview(self._buffer)[self._stop :]

    def buffer_updated(self, size_bytes: int) -> None:
        self.last_active_s = asyncio.get_running_loop().time()
        if self._frame is not None:
            self._frame_filled += size_bytes
            if self._frame_filled == self._frame_size:
                frame, self._frame = self._frame, None
                self._waiting.append(memoryview(frame).toreadonly())
        else:
            self._stop += size_bytes
            self._split()
        self._serve()

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._serve()

    # --- frames

    def _split(self) -> None:
        """Cut the receive buffer into frames; keep what is left of the last one."""
        while self._stop - self._start >= LENGTH_BYTES:
            (size,) = struct.unpack_from(">i", self._buffer, self._start)
            if not 0 < size <= self._request_bytes_max:
                # What came before it is answered first.
                self._refusal = f"a request of {size} bytes is not taken"
                return
            begin = self._start + LENGTH_BYTES
            if self._stop - begin >= size:
                self._waiting.append(memoryview(bytes(memoryview(self._buffer)[begin : begin + size])))
                self._start = begin + size
            elif LENGTH_BYTES + size > RECEIVE_BYTES:
                self._begin_large_frame(begin, size)
                return
            else:
                break
        self._move_rest_to_front()

    def _begin_large_frame(self, begin: int, size: int) -> None:
        filled = self._stop - begin
        self._frame = bytearray(min(size, LARGE_FRAME_BYTES))
        self._frame[:filled] = memoryview(self._buffer)[begin : self._stop]
        self._frame_size = size
        self._frame_filled = filled
        self._start = self._stop = 0

    def _move_rest_to_front(self) -> None:
        rest = self._stop - self._start
        if self._start:
            self._buffer[:rest] = self._buffer[self._start : self._stop]
            self._start, self._stop = 0, rest

    def hold(self) -> None:
        """Serve nothing until `go_on`."""
        self._held = True

    def go_on(self) -> None:
        self._held = False
        if self._waiting:
            # Not from here: another connection is in the middle of its own work.
            asyncio.get_running_loop().call_soon(self._serve)
        elif self._transport is not None and not self._closing:
            self._pause_or_resume_reading(self._transport)

    # --- answers

    @property
    def is_answering(self) -> bool:
        return self._answering

    def _serve(self) -> None:
        """Hand on requests until one has to wait for its answer, or the client does not read its answers.

        One that sends much at once is served for a while, and goes on after the others.
        """
        self._serving = True
        end_s = time.monotonic() + TURN_S
        try:
            while self._waiting and not (self._answering or self._write_paused or self._closing or self._held):
                frame = self._waiting.popleft()
                self._answering = True
                self._handler(self, frame).then(self._answer)
                if self._waiting and not self._answering and time.monotonic() >= end_s:
                    asyncio.get_running_loop().call_soon(self._serve)
                    break
        except WireError as error:
            self.close(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug, and the process must not go on
            self._on_bug(error)
            return
        finally:
            self._serving = False
        if self._refusal is not None and not (self._waiting or self._answering):
            self.close(self._refusal)
        if self._transport is not None and not self._closing:
            self._pause_or_resume_reading(self._transport)

    def _pause_or_resume_reading(self, transport: asyncio.Transport) -> None:
        should_read = not self._waiting and self._refusal is None and not self._held
        if should_read and not transport.is_reading():
            transport.resume_reading()
        elif not should_read and transport.is_reading():
            transport.pause_reading()

    def _answer(self, chunks: Answer) -> None:
        self._answering = False
        if self._closing or self._transport is None:
            return
        if chunks is not None:
            if len(chunks) == 1:
                self._transport.write(chunks[0])  # type: ignore[arg-type]
            else:
                self._transport.writelines(chunks)  # type: ignore[arg-type]
        if (self._waiting or self._refusal is not None) and not self._serving:
            # Not from here: whoever released this answer is in the middle of its own work.
            asyncio.get_running_loop().call_soon(self._serve)

    def close(self, reason: str | None = None) -> None:
        """Close after what was answered already is sent. `reason` is None when the client did nothing wrong."""
        if self._closing:
            return
        self._closing = True
        self.close_reason = reason
        self._waiting.clear()
        if self._transport is not None:
            self._transport.close()

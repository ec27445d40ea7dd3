"""One connection to one server: frames in, frames out, and one end."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from typing import cast

LENGTH = struct.Struct("!i")
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""A server sends no more than jute.maxbuffer, 1 MiB unless it is raised; this length is that of no ZooKeeper."""

Guard = Callable[[Callable[[], None]], None]


class ServerConnection(asyncio.Protocol):
    """`on_frame` gets each frame without its length, `ended` the reason when there will be no more; both are called in `guard`.

    Frames that are sent in one turn of the event loop leave together.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        guard: Guard,
        on_frame: Callable[[ServerConnection, bytes], None],
        ended: Callable[[ServerConnection, str], None],
    ) -> None:
        self._loop = loop
        self._guard = guard
        self._on_frame = on_frame
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._outgoing: list[bytes] = []
        self._reason = ""
        self.over: asyncio.Future[None] = loop.create_future()
        self.welcomed_at: float | None = None
        """When the server gave a session on it."""
        self.begun_at = self.sent_at = loop.time()

    def send(self, frame: bytes) -> None:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(frame)

    def abort(self, reason: str) -> None:
        """End it now. `ended` is called when this call is over."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()
        elif not self.over.done():
            self.over.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
            # So it can be where nobody listens at a port of this machine, and what is sent would be taken for an answer.
            self.abort("it is a connection to itself")
        self._flush()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        begin = 0
        while not self._reason and len(received) - begin >= LENGTH.size:
            (size_bytes,) = LENGTH.unpack_from(received, begin)
            if not 0 <= size_bytes <= FRAME_BYTES_MAX:
                self.abort(f"a frame of {size_bytes} bytes is none of ZooKeeper")
                break
            end = begin + LENGTH.size + size_bytes
            if len(received) < end:
                break
            frame = bytes(received[begin + LENGTH.size : end])
            begin = end
            # Each by itself: an error at one must not leave those behind it lying.
            self._guard(partial(self._on_frame, self, frame))
        del received[:begin]

    def connection_lost(self, error: Exception | None) -> None:
        self._outgoing.clear()
        reason = self._reason or (str(error) if error else "the server closed the connection")
        if not self.over.done():
            self.over.set_result(None)
        self._guard(lambda: self._ended(self, reason))

    def _flush(self) -> None:
        if self._transport is None or not self._outgoing:
            return
        frames, self._outgoing = self._outgoing, []
        if not self._transport.is_closing():
            self.sent_at = self._loop.time()
            self._transport.write(b"".join(frames))

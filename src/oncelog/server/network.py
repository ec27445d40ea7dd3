"""Links to other brokers over TCP: frames out, frames in. It never looks inside a frame.

Bytes come into a buffer that all links of an event loop share: it belongs to one of them from `get_buffer` to `buffer_updated`,
and nothing comes in between. A frame that is whole in there is copied out once; of one that is not, what follows comes straight
into a buffer of its own, which grows as its bytes come, for a length alone costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from typing_extensions import Buffer

from oncelog.environment import LINK_TRANSITIONS, LinkListener, LinkState
from oncelog.wire import FRAME_LENGTH, WireError, frame_bytes

logger = logging.getLogger("oncelog.links")

RECEIVE_BYTES = 64 * 1024
FIRST_ROOM_BYTES = 1024 * 1024
GROWTH = 4
FRAME_BYTES_MAX = 1024 * 1024 * 1024

Guard = Callable[[Callable[[], None]], None]
"""Runs a callback, and sees to what leaves it."""


OPENING, OPEN, CLOSED = LinkState


class SocketNetwork:
    """Makes links over TCP on one event loop. A frame that says it is longer than `frame_bytes_max` ends its link."""

    __slots__ = ("_buffer", "_frame_bytes_max", "_guard", "_loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, guard: Guard, *, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self._loop = loop
        self._guard = guard
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(RECEIVE_BYTES)

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> SocketLink:
        link = SocketLink(f"{host}:{port}", listener, self._guard, self._buffer, self._frame_bytes_max)
        link.opening = self._loop.create_task(self._open(link, host, port, timeout_ms))
        return link

    async def _open(self, link: SocketLink, host: str, port: int, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._loop.create_connection(lambda: link, host, port)
        except TimeoutError as error:
            # The operating system may be the one that has waited for long enough.
            late = f"did not answer in {timeout_ms} ms" if not error.errno else _words(error)
            link.end(f"{link.name} {late}")
        except ConnectionRefusedError:
            link.end(f"{link.name} refused the connection: nobody listens there")
        except socket.gaierror as error:
            link.end(f"{link.name}: the host is not known ({_words(error)})")
        except (OSError, UnicodeError, OverflowError) as error:
            # The last two: names and ports that none can have.
            link.end(f"{link.name} cannot be reached: {_words(error)}")


class SocketLink(asyncio.BufferedProtocol):
    """One link. `opening` is the task that makes it."""

    __slots__ = (
        "_buffer",
        "_frame",
        "_frame_bytes_max",
        "_frame_filled",
        "_frame_size",
        "_guard",
        "_listener",
        "_rest",
        "_state",
        "_transport",
        "_unsent",
        "name",
        "opening",
    )

    def __init__(
        self, name: str, listener: LinkListener, guard: Guard, buffer: bytearray, frame_bytes_max: int
    ) -> None:
        self.name = name
        self.opening: asyncio.Task[None] | None = None
        self._listener = listener
        self._guard = guard
        self._buffer = buffer
        self._frame_bytes_max = frame_bytes_max
        self._state = OPENING
        self._transport: asyncio.Transport | None = None
        self._unsent: list[Buffer] = []
        self._rest = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._frame_filled = 0

    # --- what whoever made it calls

    def send(self, chunks: Sequence[Buffer]) -> None:
        if self._state is OPENING:
            self._unsent.extend(chunks)
        elif self._state is OPEN:
            self._write(chunks)

    def close(self) -> None:
        """What was sent and has not left by now does not leave any more: who wants an answer waits for it first."""
        if self._state is CLOSED:
            return
        self._move(CLOSED)
        self._forget()
        if self.opening is not None:
            self.opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    # --- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are such without being declared so.
        self._transport = transport = cast("asyncio.Transport", transport)
        if self._state is CLOSED:
            transport.abort()
            return
        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._move(OPEN)
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._write(unsent)
        self._guard(partial(self._listener.opened, self))

    def get_buffer(self, size_hint: int) -> memoryview:
        frame = self._frame
        if frame is None:
            rest = self._rest
            self._buffer[: len(rest)] = rest
            return memoryview(self._buffer)[len(rest) :]
        if self._frame_filled == len(frame):
            # Not when the bytes came: whoever called then may still have had a view of the frame.
            room_bytes = min(self._frame_size, GROWTH * self._frame_filled)
            frame.extend(bytes(room_bytes - len(frame)))
        return memoryview(frame)[self._frame_filled :]

    def buffer_updated(self, size_bytes: int) -> None:
        frame = self._frame
        if frame is None:
            self._split(len(self._rest) + size_bytes)
            return
        self._frame_filled += size_bytes
        if self._frame_filled == self._frame_size:
            self._frame = None
            self._rest = b""
            self._hand_on(memoryview(frame).toreadonly())

    def connection_lost(self, error: Exception | None) -> None:
        is_cut = bool(self._rest) or self._frame is not None
        if error is not None:
            self.end(f"the connection to {self.name} is lost: {_words(error)}")
        elif is_cut:
            self.end(f"{self.name} closed the connection in the middle of a frame")
        else:
            self.end(f"{self.name} closed the connection")

    # --- inside

    def end(self, reason: str) -> None:
        """It is over, and whoever made it hears why."""
        if self._state is CLOSED:
            return
        self._move(CLOSED)
        self._forget()
        if self._transport is not None:
            self._transport.abort()
        logger.debug("link to %s is closed: %s", self.name, reason)
        self._guard(partial(self._listener.closed, reason))

    def _split(self, stop: int) -> None:
        """Hand on each frame that is whole, and keep the beginning of the next."""
        start = 0
        view = memoryview(self._buffer)
        while stop - start >= FRAME_LENGTH.size:
            begin = start + FRAME_LENGTH.size
            try:
                size = frame_bytes(view[start:begin], self._frame_bytes_max)
            except WireError as error:
                self.end(f"{self.name} sent what is no frame: {error}")
                return
            if stop - begin < size:
                if FRAME_LENGTH.size + size > RECEIVE_BYTES:
                    self._begin_large_frame(view[begin:stop], size)
                    start = stop
                break
            # A copy, for the buffer is the next one's: the listener may even take longer than that to read it.
            frame = memoryview(bytes(view[begin : begin + size]))
            start = begin + size
            self._hand_on(frame)
            if self._state is CLOSED:
                return
        self._rest = bytes(view[start:stop])

    def _begin_large_frame(self, beginning: memoryview, size: int) -> None:
        self._frame_size = size
        self._frame_filled = len(beginning)
        self._frame = bytearray(min(size, FIRST_ROOM_BYTES))
        self._frame[: len(beginning)] = beginning

    def _hand_on(self, frame: memoryview) -> None:
        self._guard(partial(self._listener.received, frame))

    def _write(self, chunks: Sequence[Buffer]) -> None:
        assert self._transport is not None, "an open link has a transport"
        if len(chunks) == 1:
            self._transport.write(chunks[0])  # type: ignore[arg-type]
        else:
            self._transport.writelines(chunks)  # type: ignore[arg-type]

    def _forget(self) -> None:
        self._unsent = []
        self._frame = None
        self._rest = b""

    def _move(self, state: LinkState) -> None:
        assert (self._state, state) in LINK_TRANSITIONS, (self.name, self._state, state)
        self._state = state


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

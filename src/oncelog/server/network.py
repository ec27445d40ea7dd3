"""Links to other brokers over TCP, with or without TLS: frames out, frames in. It never looks inside a frame.

All links of an event loop share one receive buffer: it belongs to one of them from `get_buffer` to `buffer_updated`, and nothing
comes in between. A whole frame is copied out of it once. The rest of an unfinished frame is received into a buffer of its own,
which grows as bytes come: a length alone costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from typing_extensions import Buffer

from oncelog.environment import LINK_TRANSITIONS, LinkListener, LinkState
from oncelog.wire import FRAME_LENGTH, WireError, frame_bytes

if TYPE_CHECKING:
    from oncelog.server.link_security import LinkSecurity, SecuredLink

logger = logging.getLogger("oncelog.links")

RECEIVE_BYTES = 64 * 1024
FIRST_ROOM_BYTES = 1024 * 1024
GROWTH = 4
FRAME_BYTES_MAX = 1024 * 1024 * 1024
TLS_ALERT = b"\x15\x03"
"""How a TLS record begins that says no to what was no TLS (RFC 8446 §5.1)."""

Guard = Callable[[Callable[[], None]], None]
"""Runs a callback, and sees to what leaves it."""


OPENING, OPEN, CLOSED = LinkState


class SocketNetwork:
    """Makes links over TCP on one event loop. A frame that says it is longer than `frame_bytes_max` ends its link."""

    __slots__ = ("_buffer", "_frame_bytes_max", "_guard", "_loop", "_receive_buffer_bytes", "_security")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        guard: Guard,
        security: LinkSecurity | None = None,
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """A receive buffer of -1 bytes is as the operating system has it."""
        self._loop = loop
        self._receive_buffer_bytes = receive_buffer_bytes
        self._guard = guard
        self._security = security
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(RECEIVE_BYTES)

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> SocketLink:
        secured = None if self._security is None else self._security.of_link(host, port)
        name = f"{host}:{port}"
        link = SocketLink(name, listener, self._guard, self._buffer, self._frame_bytes_max, secured)
        link.receive_buffer_bytes = self._receive_buffer_bytes
        link.opening = self._loop.create_task(self._open(link, host, port, timeout_ms))
        return link

    async def _open(self, link: SocketLink, host: str, port: int, timeout_ms: int) -> None:
        context = None if self._security is None else self._security.context
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._loop.create_connection(lambda: link, host, port, ssl=context)
                await link.settled.wait()
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
            link.end(link.tls_failure(error) or f"{link.name} cannot be reached: {_words(error)}")


class SocketLink(asyncio.BufferedProtocol):
    """One link. `opening` is the task that makes it, `settled` says that it is open, or never will be.

    With a log-in it is open when that is over.
    """

    __slots__ = (
        "_buffer",
        "_frame",
        "_frame_bytes_max",
        "_frame_filled",
        "_frame_size",
        "_guard",
        "_is_logging_in",
        "_listener",
        "_rest",
        "_secured",
        "_state",
        "_transport",
        "_unsent",
        "name",
        "opening",
        "receive_buffer_bytes",
        "settled",
    )

    def __init__(
        self,
        name: str,
        listener: LinkListener,
        guard: Guard,
        buffer: bytearray,
        frame_bytes_max: int,
        secured: SecuredLink | None = None,
    ) -> None:
        self.name = name
        self.opening: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()
        self.receive_buffer_bytes = -1
        self._secured = secured
        self._is_logging_in = False
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

    # --- calls of the owner

    def send(self, chunks: Sequence[Buffer]) -> None:
        if self._state is OPENING:
            self._unsent.extend(chunks)
        elif self._state is OPEN:
            self._write(chunks)

    def close(self) -> None:
        """End the connection. Bytes that have not been sent by now are dropped: wait for the answer first."""
        if self._state is CLOSED:
            return
        self._move(CLOSED)
        self._forget()
        self.settled.set()
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
        if self.receive_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        first = None if self._secured is None else self._secured.begin()
        if first is None:
            self._open()
        else:
            self._is_logging_in = True
            self._write(first)

    def get_buffer(self, size_hint: int) -> memoryview:
        frame = self._frame
        if frame is None:
            rest = self._rest
            self._buffer[: len(rest)] = rest
            return memoryview(self._buffer)[len(rest) :]
        if self._frame_filled == len(frame):
            # Not when the bytes came: the caller of then may still have had a view of the frame.
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
            self.end(self.tls_failure(error) or f"the connection to {self.name} is lost: {_words(error)}")
        elif self._is_logging_in:
            self.end(f"{self.name} closed the connection during the log-in")
        elif is_cut:
            self.end(f"{self.name} closed the connection in the middle of a frame")
        else:
            self.end(f"{self.name} closed the connection")

    # --- inside

    def _open(self) -> None:
        self._move(OPEN)
        self.settled.set()
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._write(unsent)
        self._guard(partial(self._listener.opened, self))

    def tls_failure(self, error: Exception) -> str | None:
        """The reason for an error of TLS; None for another error."""
        return None if self._secured is None else self._secured.tls_failure(error)

    def end(self, reason: str) -> None:
        """End the link and tell its owner why."""
        if self._state is CLOSED:
            return
        self._move(CLOSED)
        self._forget()
        self.settled.set()
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
                is_tls = bytes(view[start:begin]).startswith(TLS_ALERT)
                self.end(f"{self.name} " + ("speaks TLS" if is_tls else f"sent what is no frame: {error}"))
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
        if self._secured is not None and self._is_logging_in:
            self._guard(partial(self._log_in, self._secured, frame))
        else:
            self._guard(partial(self._listener.received, frame))

    def _log_in(self, secured: SecuredLink, frame: memoryview) -> None:
        # A broker without secured links has not loaded it.
        from oncelog.server.link_security import LinkRefusedError

        try:
            chunks = secured.received(frame)
        except LinkRefusedError as refused:
            self.end(str(refused))
            return
        if chunks is not None:
            self._write(chunks)
            return
        self._is_logging_in = False
        self._open()

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

"""The limits on connections: `max.connections`, `max.connections.per.ip`, and the number of file descriptors.

A TLS connection counts as one once its handshake is complete.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from oncelog.broker import Settings
from oncelog.server.connection import Connection
from oncelog.server.listening import peer_host

if TYPE_CHECKING:
    from ssl import SSLContext

logger = logging.getLogger("oncelog.connections")

ACCEPTED_AT_ONCE_MAX = 16
HANDSHAKE_S_MAX = 30.0
"""The time for a TLS handshake. A client that does not finish one is disconnected."""
LOOK_AGAIN_S = 1.0
"""A limit may have been raised, or descriptors may have been given back, by somebody else in this process."""


class Listening(NamedTuple):
    """One listener: its socket, what makes a connection of what it accepts, and how that is encrypted, if it is."""

    socket: socket.socket
    make: Callable[[], Connection]
    context: SSLContext | None = None


class Admission:
    """Accepts connections as long as there is room. Those beyond it wait, as Kafka's do, where the operating system keeps
    what was not accepted; one beyond the limit of its address is closed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listeners: Sequence[Listening],
        settings: Settings,
        connections_max: int,
    ) -> None:
        self._loop = loop
        self._listeners = listeners
        self._settings = settings
        self._connections_max = connections_max
        self._taken: dict[Connection, str] = {}
        self._per_host: Counter[str] = Counter()
        self._beginning: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._listen()

    def closed(self, connection: Connection) -> None:
        host = self._taken.pop(connection)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if self._again is not None:
            self._look_again()

    def stop(self) -> None:
        # A connection that is closed from now on makes room for nobody.
        self._wait_no_more()
        for listener in self._listeners:
            self._loop.remove_reader(listener.socket)
            listener.socket.close()
        for beginning in tuple(self._beginning):
            beginning.cancel()

    def _listen(self) -> None:
        for listener in self._listeners:
            self._loop.add_reader(listener.socket, partial(self._accept, listener))

    def _accept(self, listener: Listening) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            if len(self._taken) >= min(self._connections_max, self._settings.number("max.connections")):
                self._wait()
                return
            try:
                accepted, address = listener.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptor, or no memory for a socket.
                self._wait()
                return
            self._take(listener, accepted, address)

    def _take(self, listener: Listening, accepted: socket.socket, address: tuple[str, int]) -> None:
        host = peer_host(address[0])
        if self._per_host[host] >= self._settings.number("max.connections.per.ip"):
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = listener.make()
        self._taken[connection] = host
        self._per_host[host] += 1
        beginning = self._loop.create_task(self._begin(listener, connection, accepted, address))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    async def _begin(
        self, listener: Listening, connection: Connection, accepted: socket.socket, address: tuple[str, int]
    ) -> None:
        timeout_s = None if listener.context is None else HANDSHAKE_S_MAX
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=listener.context, ssl_handshake_timeout=timeout_s
            )
        except OSError as error:
            # Without TLS the client is gone already.
            if listener.context is not None:
                logger.info("connection of %s:%d is closed: the TLS handshake failed: %s", *address[:2], _words(error))
            accepted.close()
            if connection in self._taken:
                self.closed(connection)

    def _wait(self) -> None:
        """Leave what comes where it is until a connection is closed, or for a moment."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.socket)
        self._wait_no_more()
        self._again = self._loop.call_later(LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._wait_no_more()
        self._listen()

    def _wait_no_more(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = None


def _words(error: OSError) -> str:
    """OpenSSL's reason without its place in OpenSSL."""
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).lower().replace("_", " ") or "the client hung up"

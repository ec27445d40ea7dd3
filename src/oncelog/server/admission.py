"""Which connections are taken: `max.connections`, `max.connections.per.ip`, and as many as there are descriptors for."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from oncelog.broker import Settings
from oncelog.server.connection import Connection

ACCEPTED_AT_ONCE_MAX = 16
LOOK_AGAIN_S = 1.0
"""A limit may have been raised, or descriptors may have been given back, by somebody else in this process."""


class Admission:
    """Accepts connections as long as there is room. Those beyond it wait, as Kafka's do, where the operating system keeps
    what was not accepted; one beyond the limit of its address is closed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        settings: Settings,
        connections_max: int,
        make: Callable[[], Connection],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._settings = settings
        self._connections_max = connections_max
        self._make = make
        self._taken: dict[Connection, str] = {}
        self._per_host: Counter[str] = Counter()
        self._beginning: set[asyncio.Task[object]] = set()
        self._again: asyncio.TimerHandle | None = None
        loop.add_reader(listener, self._accept)

    def closed(self, connection: Connection) -> None:
        host = self._taken.pop(connection)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if self._again is not None:
            self._look_again()

    def stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            if len(self._taken) >= min(self._connections_max, self._settings.number("max.connections")):
                self._wait()
                return
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptor, or no memory for a socket.
                self._wait()
                return
            self._take(accepted, address[0])

    def _take(self, accepted: socket.socket, host: str) -> None:
        if self._per_host[host] >= self._settings.number("max.connections.per.ip"):
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._make()
        self._taken[connection] = host
        self._per_host[host] += 1
        beginning = self._loop.create_task(self._begin(connection, accepted))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            # The client is gone already.
            accepted.close()
            if connection in self._taken:
                self.closed(connection)

    def _wait(self) -> None:
        """Leave what comes where it is until a connection is closed, or for a moment."""
        self._loop.remove_reader(self._listener)
        self._again = self._loop.call_later(LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = None
        self._loop.add_reader(self._listener, self._accept)

"""The open connections of a broker: closing them at a stop, and idle ones after `connections.max.idle.ms`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from oncelog.server.connection import Connection

CLOSED_WITHIN_S = 0.5
"""So long a stop waits for who does not take what it was answered."""


class Connections:
    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._all_closed: asyncio.Future[None] | None = None
        self._is_closing = False

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._open))

    def add(self, connection: Connection) -> None:
        self._open.add(connection)
        if self._is_closing:
            # It was accepted before the listener was closed, and nobody serves it any more.
            connection.abort()

    def discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    def close(self) -> None:
        """Each is closed when the event loop has its turn, and has sent what was answered. So is one that still comes."""
        self._is_closing = True
        for connection in self:
            connection.close()

    async def closed(self) -> None:
        """Come back when all are: as long as the loop is kept from closing one, its client waits for an answer."""
        await self._wait()
        for connection in self:
            connection.abort()
        await self._wait()

    async def _wait(self) -> None:
        if self._open:
            self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._all_closed,), timeout=CLOSED_WITHIN_S)


CHECKS_PER_LIMIT = 4
INTERVAL_MIN_S = 0.1
"""However short the limit is: looking must not become all that the broker does."""


class IdleConnections:
    """Looks at every connection a few times per limit; a negative limit closes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: Iterable[Connection], limit_s: float) -> None:
        self._loop = loop
        self._connections = connections
        self._limit_s = limit_s
        self._interval_s = max(limit_s / CHECKS_PER_LIMIT, INTERVAL_MIN_S)
        self._timer = loop.call_later(self._interval_s, self._look) if limit_s >= 0 else None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        oldest_s = self._loop.time() - self._limit_s
        for connection in self._connections:
            if connection.last_active_s < oldest_s and not connection.is_answering:
                # One that was closed the last time, and is still there, does not take its answers.
                if connection.is_closing:
                    connection.abort()
                else:
                    connection.close()
        self._timer = self._loop.call_later(self._interval_s, self._look)

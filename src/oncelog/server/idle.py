"""Closing connections on which nothing has happened for a long time (`connections.max.idle.ms`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from oncelog.server.connection import Connection

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

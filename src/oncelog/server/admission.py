"""How many connections are served at a time: `max.connections`, and `max.connections.per.ip` for each address."""

from __future__ import annotations

from collections import Counter

from oncelog.broker import Settings
from oncelog.server.connection import Connection


class Admission:
    """A connection beyond the first limit waits, unread, until another is closed; one beyond the second is closed.

    Both can be changed while the broker runs; what waits is looked at when the next connection opens or closes.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._served: dict[Connection, None] = {}
        self._waiting: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()

    def opened(self, connection: Connection) -> None:
        limit = self._settings.number("max.connections.per.ip")
        if self._per_host[connection.peer_host] >= limit:
            connection.close(f"{connection.peer_host} has {limit} connections already")
            return
        self._per_host[connection.peer_host] += 1
        self._waiting[connection] = None
        connection.hold()
        self._admit()

    def closed(self, connection: Connection) -> None:
        for connections in (self._served, self._waiting):
            if connection in connections:
                del connections[connection]
                self._per_host[connection.peer_host] -= 1
                if not self._per_host[connection.peer_host]:
                    del self._per_host[connection.peer_host]
        self._admit()

    def _admit(self) -> None:
        while self._waiting and len(self._served) < self._settings.number("max.connections"):
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            self._served[connection] = None
            connection.go_on()

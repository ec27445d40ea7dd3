"""The memory that requests and answers take, over all connections (`queued.max.request.bytes`)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

GRACE_S = 2.0
"""Whoever is given so much time to send a request, or to take an answer, and does not, may be closed for the others."""
LOOK_AGAIN_S = 0.5
NO_LIMIT = -1


class Holder(Protocol):
    """A connection, as the budget knows it."""

    def room_made(self) -> None: ...

    def abort(self, reason: str | None = None) -> None: ...


@dataclass(slots=True)
class _Held:
    """What one connection has, and since when it has had anything."""

    since_s: float
    request_bytes: int = 0
    answer_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.request_bytes + self.answer_bytes


class MemoryBudget:
    """A budget for large requests and for answers that their clients do not take.

    A request that does not fit is not read further until there is room; the one that has been there longest always goes on,
    so that somebody does. While the budget is used up, connections that have had the most for the longest are closed, after a
    while; above twice the budget, at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, size_bytes_max: int) -> None:
        self._loop = loop
        self._size_bytes_max = float("inf") if size_bytes_max == NO_LIMIT else size_bytes_max
        self._held: dict[Holder, _Held] = {}
        self._waiting: dict[Holder, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.size_bytes = 0

    def begin_request(self, connection: Holder, size_bytes: int) -> None:
        """The first bytes of a large request, which are few."""
        self._add(connection, size_bytes)

    def extend_request(self, connection: Holder, size_bytes: int) -> bool:
        """Whether the connection may have so much more; if not, its `room_made` is called when it may."""
        if self.size_bytes + size_bytes <= self._size_bytes_max or next(iter(self._held)) is connection:
            self._add(connection, size_bytes)
            return True
        self._waiting[connection] = size_bytes
        self._watch()
        return False

    def end_request(self, connection: Holder, size_bytes: int) -> None:
        held = self._held[connection]
        held.request_bytes -= size_bytes
        self._gave_back(connection, held, size_bytes)

    def answer(self, connection: Holder, size_bytes: int) -> None:
        """So much of the connection's answers is not sent yet."""
        held = self._held.get(connection)
        if held is None:
            if not size_bytes:
                return
            held = self._held[connection] = _Held(self._loop.time())
        given_back = held.answer_bytes - size_bytes
        held.answer_bytes = size_bytes
        self._gave_back(connection, held, given_back)
        if self.size_bytes > self._size_bytes_max:
            self._relieve()

    def forget(self, connection: Holder) -> None:
        """The connection is gone."""
        self._take_back(connection)
        self._go_on()

    def _take_back(self, connection: Holder) -> None:
        self._waiting.pop(connection, None)
        held = self._held.pop(connection, None)
        if held is not None:
            self.size_bytes -= held.size_bytes

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, connection: Holder, size_bytes: int) -> None:
        held = self._held.get(connection)
        if held is None:
            held = self._held[connection] = _Held(self._loop.time())
        held.request_bytes += size_bytes
        self.size_bytes += size_bytes

    def _gave_back(self, connection: Holder, held: _Held, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        if not held.size_bytes:
            del self._held[connection]
        if size_bytes > 0:
            # One that is always busy is not greedy: what it has now, it has not had for long.
            held.since_s = self._loop.time()
            self._go_on()

    def _go_on(self) -> None:
        """Let those read on that there is room for, in the order in which they came."""
        first = next(iter(self._held), None)
        for connection, size_bytes in list(self._waiting.items()):
            if connection is not first and self.size_bytes + size_bytes > self._size_bytes_max:
                continue
            del self._waiting[connection]
            self._add(connection, size_bytes)
            connection.room_made()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_AGAIN_S, self._look)

    def _look(self) -> None:
        self._timer = None
        self._relieve()

    def _relieve(self) -> None:
        """Close who has had the most for the longest, until there is room for all others. Only then they go on.

        Those that are kept waiting come last, the oldest of them first: how much they have is not their doing.
        """
        now_s = self._loop.time()

        def greed(one: tuple[Holder, _Held]) -> tuple[bool, float]:
            connection, held = one
            age_s = now_s - held.since_s
            return (False, age_s) if connection in self._waiting else (True, held.size_bytes * age_s)

        greedy = sorted(self._held.items(), key=greed)
        wanted_bytes = self.size_bytes + sum(self._waiting.values())
        while greedy and wanted_bytes > self._size_bytes_max:
            connection, held = greedy.pop()
            if now_s - held.since_s >= GRACE_S or self.size_bytes > 2 * self._size_bytes_max:
                connection.abort("the memory for requests and answers is used up")
                wanted_bytes -= held.size_bytes + self._waiting.get(connection, 0)
                self._take_back(connection)
        self._go_on()
        if wanted_bytes > self._size_bytes_max:
            self._watch()

"""The memory budget for requests and answers of all connections (`queued.max.request.bytes`).

A large answer reserves its memory before it is read. It waits if there is none, behind smaller ones, and is made shorter if there
is little: the client fetches the rest later.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from oncelog.coordination import Promise

GRACE_S = 2.0
"""A connection that has memory, and neither sends nor takes a byte for so long, may be closed for the others."""
KEPT_WAITING_S = 10.0
"""The same for one whose request is served meanwhile, or not read on: that is not its client's doing."""
LOOK_AGAIN_S = 0.25
PASSED_S_MAX = 3.0
"""Smaller requests may overtake a waiting one for so long. By then, idle connections have given up their memory."""
FIRST_ANSWER_BYTES = 1024 * 1024
"""The size of an answer, if there is so much memory. Under pressure it is for connections that have not yet taken one
quickly.
"""
QUICK_ANSWER_BYTES = 4 * 1024 * 1024
"""The same under pressure for connections that have. Longer answers are no faster, and twenty of them would keep the
event loop for a second.
"""
QUICK_S = 1.0
SHARES = 4
"""One answer gets this part of what is free, at most; and while more than this part is in use, there is pressure."""
KEPT_PART = 16
"""This part is kept for answers that are small, however many large ones there are."""
MUCH_BYTES = 32 * 1024 * 1024
QUIET_S = 1.0
"""When more than MUCH_BYTES were in use, and are not any more for so long, what was freed is given back to the system."""
NO_LIMIT = -1
UNLIMITED_BYTES = sys.maxsize


class Holder(Protocol):
    """A connection, as the budget knows it."""

    last_active_s: float
    """When its client last sent something."""

    @property
    def is_answering(self) -> bool:
        """True while a request of the connection is served, and its answer is not ready."""

    @property
    def untaken_bytes(self) -> int:
        """The bytes of its answers that the socket has not taken."""

    def room_made(self) -> None: ...

    def abort(self, reason: str | None = None) -> None: ...


@dataclass(slots=True)
class _Held:
    """The memory of one connection, and the time when its client last read or sent."""

    moved_s: float
    request_bytes: int = 0
    answer_bytes: int = 0
    is_granted: bool = False
    granted_s: float = 0.0
    untaken_bytes: int = 0
    """When it was last looked at."""

    @property
    def size_bytes(self) -> int:
        return self.request_bytes + self.answer_bytes


@dataclass(slots=True)
class _Wanted:
    """The memory that one connection waits for: for a request that it reads, or for an answer."""

    connection: Holder
    since_s: float
    least_bytes: int
    most_bytes: int
    granted: Promise[int] | None = field(default=None)
    """Resolved with the memory for an answer."""


class MemoryBudget:
    """A budget for large requests and for answers.

    A request that does not fit is not read further until there is room; the one that has been there longest always goes on,
    so that somebody does. While somebody waits, connections whose clients have neither sent nor taken a byte for GRACE_S are
    closed, those that have had the most for the longest first; above twice the budget, at once.

    Not all answers are known before they are made: only Fetch reserves. What others leave unsent is counted when it is there.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        guard: Callable[[Callable[[], None]], None],
        size_bytes_max: int,
        kept_bytes: Callable[[], int] = lambda: 0,
        give_back: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` runs what goes on when its memory is there, and sees to what leaves it.

        `kept_bytes` is what the broker itself keeps for clients, which is given up by nobody here. `give_back` gives the system
        what was freed.
        """
        self._loop = loop
        self._guard = guard
        self._size_bytes_max = UNLIMITED_BYTES if size_bytes_max == NO_LIMIT else size_bytes_max
        self._kept_bytes = kept_bytes
        self._held: dict[Holder, _Held] = {}
        self._requests_waiting: dict[Holder, _Wanted] = {}
        self._answers_waiting: dict[Holder, _Wanted] = {}
        self._quick: set[Holder] = set()
        """The connections that took their last large answer quickly."""
        self._granted: deque[tuple[Promise[int], int]] = deque()
        self._has_turns = False
        self._timer: asyncio.TimerHandle | None = None
        self._give_back = give_back
        self._quiet: asyncio.TimerHandle | None = None
        self._has_used_much = False
        self.size_bytes = 0

    def begin_request(self, connection: Holder, size_bytes: int) -> None:
        """The first bytes of a large request, which are few."""
        self._hold(connection).request_bytes += size_bytes
        self.size_bytes += size_bytes

    def extend_request(self, connection: Holder, size_bytes: int) -> bool:
        """True if the connection may have so much more; if not, its `room_made` is called when it may."""
        wanted = _Wanted(connection, self._loop.time(), size_bytes, size_bytes)
        if self._may_have(wanted):
            self._give(wanted)
            return True
        self._requests_waiting[connection] = wanted
        self._go_on()
        self._watch()
        return connection not in self._requests_waiting

    def end_request(self, connection: Holder, size_bytes: int) -> None:
        held = self._held[connection]
        held.request_bytes -= size_bytes
        self._gave_back(connection, held, size_bytes)

    def reserve(self, connection: Holder, most_bytes: int, least_bytes: int) -> Promise[int]:
        """Have memory for an answer, from `least_bytes` to `most_bytes`; it is released with how much that is."""
        least_bytes = max(least_bytes, min(most_bytes, FIRST_ANSWER_BYTES))
        granted: Promise[int] = Promise()
        wanted = _Wanted(connection, self._loop.time(), least_bytes, max(most_bytes, least_bytes), granted)
        if self._may_have(wanted):
            self._release_in_turn(granted, self._give(wanted))
            return granted
        self._answers_waiting[connection] = wanted
        self._go_on()
        self._watch()
        return granted

    def answer(self, connection: Holder, size_bytes: int) -> None:
        """So much of the connection's answers is there, and not sent yet."""
        held = self._held.get(connection)
        if held is None:
            if not size_bytes:
                return
            held = self._hold(connection)
        given_back = held.answer_bytes - size_bytes
        held.answer_bytes = held.untaken_bytes = size_bytes
        if not size_bytes and held.is_granted:
            self._note_pace(connection, held)
        self._gave_back(connection, held, given_back)
        if self._used_bytes > self._size_bytes_max:
            self._relieve()

    def forget(self, connection: Holder) -> None:
        """The connection is gone."""
        self._take_back(connection)
        self._quick.discard(connection)
        self._go_on()

    def stop(self) -> None:
        for timer in (self._timer, self._quiet):
            if timer is not None:
                timer.cancel()

    @property
    def _used_bytes(self) -> int:
        return self.size_bytes + self._kept_bytes()

    def _hold(self, connection: Holder) -> _Held:
        held = self._held.get(connection)
        if held is None:
            held = self._held[connection] = _Held(self._loop.time())
        return held

    def _take_back(self, connection: Holder) -> None:
        self._requests_waiting.pop(connection, None)
        self._answers_waiting.pop(connection, None)
        held = self._held.pop(connection, None)
        if held is not None:
            self.size_bytes -= held.size_bytes
            self._look_for_quiet()

    def _note_pace(self, connection: Holder, held: _Held) -> None:
        """All of an answer is taken, and how quickly says how much may be given the next time."""
        took_s = self._loop.time() - held.granted_s
        if took_s < QUICK_S:
            self._quick.add(connection)
        elif took_s >= GRACE_S:
            self._quick.discard(connection)
        held.is_granted = False

    def _gave_back(self, connection: Holder, held: _Held, size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        if not held.size_bytes:
            del self._held[connection]
        self._look_for_quiet()
        if size_bytes > 0:
            held.moved_s = self._loop.time()
            self._go_on()

    # --- what is freed

    def _look_for_quiet(self) -> None:
        if self._has_used_much and self._quiet is None and self.size_bytes < MUCH_BYTES:
            self._quiet = self._loop.call_later(QUIET_S, self._is_quiet)

    def _is_quiet(self) -> None:
        self._quiet = None
        if self.size_bytes < MUCH_BYTES:
            self._has_used_much = False
            self._give_back()

    # --- who may go on

    def _may_have(self, wanted: _Wanted) -> bool:
        """True if there is room for a new request: those that wait come first."""
        if self._requests_waiting or self._answers_waiting:
            return wanted.granted is None and self._is_oldest_request(wanted.connection)
        return self._fits(wanted) or self._has_to_go_on(wanted)

    def _fits(self, wanted: _Wanted) -> bool:
        return self._used_bytes + wanted.least_bytes <= self._limit_bytes(wanted)

    def _limit_bytes(self, wanted: _Wanted) -> int:
        """A part is kept for who wants little; more of it from who has not yet taken an answer quickly, and may never do so."""
        limit_bytes = self._size_bytes_max
        if wanted.granted is None or wanted.most_bytes <= FIRST_ANSWER_BYTES:
            return limit_bytes
        return limit_bytes - limit_bytes // (KEPT_PART if wanted.connection in self._quick else SHARES)

    def _has_to_go_on(self, wanted: _Wanted) -> bool:
        """Somebody always does: the oldest of the requests, and an answer where all that is in use is of those that wait."""
        if wanted.granted is None:
            return self._is_oldest_request(wanted.connection)
        return all(one is wanted.connection or self._is_waiting(one) for one in self._held)

    def _is_oldest_request(self, connection: Holder) -> bool:
        return next((one for one, held in self._held.items() if held.request_bytes), None) is connection

    def _is_waiting(self, connection: Holder) -> bool:
        return connection in self._requests_waiting or connection in self._answers_waiting

    def _give(self, wanted: _Wanted) -> int:
        held = self._hold(wanted.connection)
        held.moved_s = self._loop.time()
        if wanted.granted is None:
            size_bytes = wanted.least_bytes
            held.request_bytes += size_bytes
        else:
            size_bytes = self._share_bytes(wanted)
            held.answer_bytes += size_bytes
            held.is_granted, held.granted_s = True, held.moved_s
        self.size_bytes += size_bytes
        self._has_used_much |= self.size_bytes >= MUCH_BYTES
        return size_bytes

    def _share_bytes(self, wanted: _Wanted) -> int:
        """How long an answer may be. Many that come together get less and less, and so each gets something."""
        used_bytes = self._used_bytes
        share_bytes = (self._limit_bytes(wanted) - used_bytes) // SHARES
        if used_bytes > self._size_bytes_max // SHARES:
            is_quick = wanted.connection in self._quick
            share_bytes = min(share_bytes, QUICK_ANSWER_BYTES if is_quick else FIRST_ANSWER_BYTES)
        return max(wanted.least_bytes, min(wanted.most_bytes, share_bytes))

    def _go_on(self) -> None:
        """Let those go on that there is room for: who has waited for long, then who wants little."""
        if not (self._requests_waiting or self._answers_waiting):
            return
        now_s = self._loop.time()

        def turn(wanted: _Wanted) -> tuple[bool, float]:
            is_passed = now_s - wanted.since_s < PASSED_S_MAX
            return (True, wanted.most_bytes) if is_passed else (False, wanted.since_s)

        for wanted in sorted([*self._requests_waiting.values(), *self._answers_waiting.values()], key=turn):
            if self._fits(wanted) or self._has_to_go_on(wanted):
                self._let_go_on(wanted)
            elif now_s - wanted.since_s >= PASSED_S_MAX:
                # What is given back from now on is for this one.
                return

    def _let_go_on(self, wanted: _Wanted) -> None:
        size_bytes = self._give(wanted)
        if wanted.granted is None:
            del self._requests_waiting[wanted.connection]
            wanted.connection.room_made()
            return
        del self._answers_waiting[wanted.connection]
        # Not from here: the connection that gave memory back is in the middle of its own work.
        self._granted.append((wanted.granted, size_bytes))
        self._begin_turns()

    def _release_in_turn(self, granted: Promise[int], size_bytes: int) -> None:
        """One answer is read at a time, and then others are served: a hundred that are asked for at once take a while."""
        if self._has_turns:
            self._granted.append((granted, size_bytes))
        else:
            self._begin_turns()
            granted.resolve(size_bytes)

    def _begin_turns(self) -> None:
        if not self._has_turns:
            self._has_turns = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        if not self._granted:
            self._has_turns = False
            return
        self._loop.call_soon(self._next_turn)
        granted, size_bytes = self._granted.popleft()
        self._guard(partial(granted.resolve, size_bytes))

    # --- who is closed

    def _watch(self) -> None:
        if self._timer is None and (self._requests_waiting or self._answers_waiting or self._is_over):
            self._timer = self._loop.call_later(LOOK_AGAIN_S, self._look)

    @property
    def _is_over(self) -> bool:
        return self._used_bytes > self._size_bytes_max

    def _look(self) -> None:
        self._timer = None
        self._relieve()

    def _relieve(self) -> None:
        """Close those whose clients do nothing, until there is room for all others. Only then they go on.

        Those whose requests are not read on come last. One that waits for an answer is not closed.
        """
        now_s = self._loop.time()
        self._note_moves()
        waiting = (*self._requests_waiting.values(), *self._answers_waiting.values())
        wanted_bytes = self._used_bytes + sum(one.least_bytes for one in waiting)

        def greed(one: tuple[Holder, _Held]) -> tuple[bool, float]:
            connection, held = one
            return connection not in self._requests_waiting, held.size_bytes * (now_s - held.moved_s)

        greedy = sorted(
            ((one, held) for one, held in self._held.items() if one not in self._answers_waiting), key=greed
        )
        while greedy and wanted_bytes > self._size_bytes_max:
            connection, held = greedy.pop()
            if self._is_too_long(connection, now_s - held.moved_s) or self.size_bytes > 2 * self._size_bytes_max:
                connection.abort("the memory for requests and answers is used up")
                wanted = self._requests_waiting.get(connection)
                wanted_bytes -= held.size_bytes + (0 if wanted is None else wanted.least_bytes)
                self._take_back(connection)
        self._go_on()
        self._watch()

    def _note_moves(self) -> None:
        """See whose clients have done something: nobody is told when a socket takes bytes from the middle of an answer."""
        now_s = self._loop.time()
        for connection, held in self._held.items():
            untaken_bytes = connection.untaken_bytes
            if untaken_bytes < held.untaken_bytes:
                held.moved_s = now_s
            elif not untaken_bytes:
                held.moved_s = max(held.moved_s, connection.last_active_s)
            held.untaken_bytes = untaken_bytes

    def _is_too_long(self, connection: Holder, still_s: float) -> bool:
        is_kept_waiting = connection.is_answering or connection in self._requests_waiting
        return still_s >= (KEPT_WAITING_S if is_kept_waiting else GRACE_S)

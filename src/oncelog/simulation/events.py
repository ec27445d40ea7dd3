"""The one queue of events, the one time, and the processes that the events belong to."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random

START_MS = 1_700_000_000_000
DELAY_MS_MIN = 0.001
Callback = Callable[[], None]


def stream(seed: int, purpose: str) -> Random:
    """Random numbers of their own for each purpose: what is left out of one changes nothing in another."""
    return Random(f"{seed}/{purpose}")


class Event:
    """A call that is due at a time. It belongs to a process, or to nobody."""

    __slots__ = ("at_ms", "callback", "label", "process")

    def __init__(self, at_ms: float, label: str, callback: Callback, process: Process | None) -> None:
        self.at_ms = at_ms
        self.label = label
        self.callback: Callback | None = callback
        self.process = process

    def is_due_at(self, at_ms: float) -> bool:
        return self.at_ms == at_ms and self.callback is not None

    def cancel(self) -> None:
        self.callback = None


class EventQueue:
    """Events in the order of their times, and of their making where those are the same. Idle time costs nothing."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.count = 0
        self.count_at_this_time = 0
        self._order = 0
        self._events: list[tuple[float, int, Event]] = []
        self._digest = hashlib.blake2b(digest_size=16)

    def at(self, at_ms: float, label: str, callback: Callback, process: Process | None = None) -> Event:
        event = Event(max(at_ms, self.now_ms), label, callback, process)
        self._push(event)
        return event

    def _push(self, event: Event) -> None:
        self._order += 1
        heapq.heappush(self._events, (event.at_ms, self._order, event))

    def after(self, delay_ms: float, label: str, callback: Callback, process: Process | None = None) -> Event:
        """Time passes with every wait, however short: a part of a nanosecond would be lost in the rounding."""
        if delay_ms > 0:
            delay_ms = max(delay_ms, DELAY_MS_MIN)
        return self.at(self.now_ms + delay_ms, label, callback, process)

    def note(self, what: str) -> None:
        """Make something part of the trace."""
        self._digest.update(what.encode())

    @property
    def trace(self) -> str:
        """A digest of everything that happened so far: the same seed has the same."""
        return self._digest.hexdigest()

    def step(self, until_ms: float) -> Event | None:
        """Take the next event that is due by then; None when there is none, and it is that time."""
        events = self._events
        while events and events[0][0] <= until_ms:
            at_ms, _, event = heapq.heappop(events)
            callback, process = event.callback, event.process
            if callback is None or (process is not None and not process.is_alive):
                continue
            if process is not None and process.paused_until_ms > at_ms:
                event.at_ms = process.paused_until_ms
                self._push(event)
                continue
            self.count_at_this_time = self.count_at_this_time + 1 if at_ms == self.now_ms else 0
            self.now_ms = at_ms
            self.count += 1
            self._digest.update(f"{at_ms:.3f} {event.label}\n".encode())
            event.callback = None
            if process is None:
                callback()
            else:
                process.run(callback)
            return event
        self.now_ms = max(self.now_ms, until_ms)
        return None


class Process:
    """A process of a node, until it is killed. `failed` is called with errors that leave a callback."""

    def __init__(self, queue: EventQueue, node: str, failed: Callable[[BaseException], None]) -> None:
        self.queue = queue
        self.node = node
        self.is_alive = True
        self.paused_until_ms = 0.0
        self._failed = failed

    def after(self, delay_ms: float, label: str, callback: Callback) -> Event:
        return self.queue.after(delay_ms, f"{self.node} {label}", callback, self)

    def run(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - it is told to the one that decides what it means
            self._failed(error)


class ProcessClock:
    """The clocks of one process. The time of day may jump; the other never goes back.

    `pace` is how many of its milliseconds that other clock, and the timers, count in a real one.
    """

    def __init__(self, process: Process, jump_ms: Callable[[], float] = lambda: 0, pace: float = 1.0) -> None:
        self._process = process
        self._jump_ms = jump_ms
        self._pace = pace

    def now_ms(self) -> int:
        return int(START_MS + self._process.queue.now_ms + self._jump_ms())

    def monotonic_ms(self) -> float:
        return self._process.queue.now_ms * self._pace

    def call_later(self, delay_ms: float, callback: Callback) -> Event:
        return self._process.after(delay_ms / self._pace, "timer", callback)

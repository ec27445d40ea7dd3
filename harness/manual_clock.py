"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

START_MS = 1_700_000_000_000


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ms = float(start_ms)
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._order = count()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        return self._now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def forget_timers(self) -> None:
        """Whoever had set them is gone."""
        self._timers.clear()

    def take_step(self) -> None:
        """Call one that is due now, if there is one."""
        if self._timers and self._timers[0][0] <= self._now_ms:
            _, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()

    def advance(self, duration_ms: float) -> None:
        """Move on, and call what falls due on the way, each at its own time."""
        end_ms = self._now_ms + duration_ms
        while self._timers and self._timers[0][0] <= end_ms:
            self._now_ms, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self._now_ms = end_ms

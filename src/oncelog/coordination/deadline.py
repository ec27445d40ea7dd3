"""Deadlines, and the backoff between two tries."""

from __future__ import annotations

from typing import Any

from oncelog.coordination.flows import Promise
from oncelog.environment import Clock


class Deadline:
    """A point in time until which a flow waits for several values, one after the other."""

    __slots__ = ("_over", "_timer")

    def __init__(self, clock: Clock, timeout_ms: float) -> None:
        self._over: Promise[None] = Promise()
        self._timer = clock.call_later(timeout_ms, self._pass)

    @property
    def is_over(self) -> bool:
        return self._over.is_resolved

    async def until(self, promise: Promise[Any]) -> bool:
        """Wait for the value. False if the deadline passes first."""
        if not promise.is_resolved and not self._over.is_resolved:
            first: Promise[None] = Promise()

            def release(_: object) -> None:
                if not first.is_resolved:
                    first.resolve(None)

            promise.then(release)
            self._over.then(release)
            await first
        return promise.is_resolved

    def end(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _pass(self) -> None:
        self._over.resolve(None)


JITTER = 0.2
FAILURES_MAX = 32
"""The number of failures in a row from which on the pause no longer grows."""


def pause_range_ms(failures: int, first_ms: float, max_ms: float, growth: float = 2) -> tuple[float, float]:
    """The range from which the pause after so many failures in a row is drawn.

    It doubles with each failure up to a maximum, and spans 20 % either way, so that clients that failed together do not come
    back together (KIP-580).
    """
    pause_ms = min(first_ms * growth ** min(failures - 1, FAILURES_MAX), max_ms)
    return pause_ms * (1 - JITTER), min(pause_ms * (1 + JITTER), max_ms)

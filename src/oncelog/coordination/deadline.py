"""Waiting for something, but not for ever."""

from __future__ import annotations

from typing import Any

from oncelog.coordination.parked import Parked
from oncelog.environment import Clock


class Deadline:
    """A moment by which several things are waited for, one after the other."""

    __slots__ = ("_over", "_timer")

    def __init__(self, clock: Clock, timeout_ms: float) -> None:
        self._over: Parked[None] = Parked()
        self._timer = clock.call_later(timeout_ms, self._pass)

    @property
    def is_over(self) -> bool:
        return self._over.is_released

    async def until(self, parked: Parked[Any]) -> bool:
        """Wait for it; False if the moment comes first."""
        if not parked.is_released and not self._over.is_released:
            first: Parked[None] = Parked()

            def release(_: object) -> None:
                if not first.is_released:
                    first.release(None)

            parked.then(release)
            self._over.then(release)
            await first
        return parked.is_released

    def end(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()

    def _pass(self) -> None:
        self._over.release(None)

"""The machine's clock, its timers on the event loop, and its random numbers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from uuid import UUID, uuid4


class RealClock:
    """Wall time and monotonic time of this machine; timers run on one event loop, each callback inside `guard`."""

    __slots__ = ("_guard", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, guard: Callable[[Callable[[], None]], None]) -> None:
        self._loop = loop
        self._guard = guard

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, self._guard, callback)


class RealRandom:
    """The operating system's random numbers."""

    __slots__ = ()

    def uuid(self) -> UUID:
        return uuid4()

    def fraction(self) -> float:
        return random.random()

"""What a link to another broker calls, noted in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog.environment import Link

PATIENCE_S = 20


class HeardLink:
    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.ends: list[str] = []
        self.is_open = False
        self.when_opened: Callable[[Link], None] = lambda _: None
        self.when_received: Callable[[memoryview], None] = lambda _: None
        self._changed = asyncio.Event()

    def opened(self, link: Link) -> None:
        assert not self.is_open
        self.is_open = True
        self._changed.set()
        self.when_opened(link)

    def received(self, frame: memoryview) -> None:
        assert self.is_open
        assert not self.ends
        self.frames.append(frame)
        self._changed.set()
        self.when_received(frame)

    def closed(self, reason: str) -> None:
        self.ends.append(reason)
        self._changed.set()

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()

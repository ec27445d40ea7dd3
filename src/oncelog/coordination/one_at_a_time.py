"""Flows that must not be in the middle of something at the same time."""

from __future__ import annotations

from collections import deque

from oncelog.coordination.parked import Parked


class OneAtATime:
    """Who enters waits until those before have left, in the order in which they came. Who has entered leaves, whatever happens."""

    __slots__ = ("_is_held", "_waiting")

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Parked[None]] = deque()

    async def enter(self) -> None:
        if not self._is_held:
            self._is_held = True
            return
        turn: Parked[None] = Parked()
        self._waiting.append(turn)
        try:
            await turn
        except GeneratorExit:
            self._give_up(turn)
            raise

    def leave(self) -> None:
        if self._waiting:
            # It is held by the next one from this moment on.
            self._waiting.popleft().release(None)
        else:
            self._is_held = False

    def _give_up(self, turn: Parked[None]) -> None:
        """A flow that was ended where it waits must not be given its turn; one that has it hands it on."""
        if turn.is_released:
            self.leave()
        else:
            self._waiting.remove(turn)

"""Producer ids: handed out once, whatever crashes, because a block is reserved in the journal before its first id is used."""

from __future__ import annotations

from typing import Protocol

from oncelog.broker.storage.journal import Journal, ProducerIdsReserved
from oncelog.coordination import Parked, start


class ProducerIdSource(Protocol):
    """Where a coordinator has producer ids from."""

    def allocate(self) -> int:
        """The next one. There is one after `available`, if nothing was waited for since."""
        ...

    def available(self) -> Parked[None]:
        """Released when there are enough ids for one request."""
        ...


BLOCK_SIZE = 1000
REFILL_BELOW = 100


class ProducerIds:
    """Holds two blocks at most: the one in use, and the next, which is fetched before the first runs out."""

    def __init__(self, journal: Journal, reserved_below: int) -> None:
        """`reserved_below` is what the journal says; the first block is reserved on the spot, while nobody is served."""
        self._journal = journal
        self._next = reserved_below
        self._end = self._reserved_below = reserved_below + BLOCK_SIZE
        self._journal.append_now(ProducerIdsReserved(next_producer_id=self._reserved_below))
        self._refill: Parked[None] | None = None

    def allocate(self) -> int:
        assert self._next < self._end, "a caller did not wait for `available`"
        producer_id = self._next
        self._next += 1
        self._see_to_more()
        return producer_id

    def available(self) -> Parked[None]:
        """Released when there are enough ids for one request."""
        if self._refill is not None and self._left < REFILL_BELOW // 2:
            return start(self._refilled(self._refill))
        return Parked.ready(None)

    async def _refilled(self, refill: Parked[None]) -> None:
        await refill
        while not self._left:
            # More had waited for the block than it had ids.
            self._see_to_more()
            assert self._refill is not None, "without an id the next block is reserved"
            await self._refill

    @property
    def _left(self) -> int:
        return self._end - self._next

    def _see_to_more(self) -> None:
        if self._left < REFILL_BELOW and self._refill is None:
            self._refill = Parked()
            start(self._reserve(self._refill))

    async def _reserve(self, refill: Parked[None]) -> None:
        self._reserved_below += BLOCK_SIZE
        await self._journal.write([ProducerIdsReserved(next_producer_id=self._reserved_below)])
        self._end += BLOCK_SIZE
        self._refill = None
        refill.release(None)

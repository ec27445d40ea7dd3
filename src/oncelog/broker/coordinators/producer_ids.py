"""Producer ids: handed out once, whatever crashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from oncelog.broker.storage.journal import Journal, ProducerIdsReserved
from oncelog.coordination import Promise, start

BLOCK_SIZE = 1000
REFILL_BELOW = 100
"""With so few ids left the next block is fetched. Kafka does when a tenth is left."""


class OutOfProducerIdsError(Exception):
    """There is none at this moment: wait for `ProducerIds.available`, and decide again."""


class ProducerIds:
    """The rest of the block in use, and the next block. `next_block` brings one that no other broker ever has."""

    def __init__(
        self,
        next_block: Callable[[], Awaitable[range]],
        first: range = range(0),
        skip: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """`skip` has no later block begin at this id or before it, also after a restart."""
        self._next_block = next_block
        self._skip = skip
        self._blocks = [first] if first else []
        self._skipped_below = 0
        self._refill: Promise[None] | None = None

    @property
    def blocks(self) -> Sequence[range]:
        """The ids that are left, in the order in which they are handed out."""
        return self._blocks

    def allocate(self) -> int:
        """The next one. Raises OutOfProducerIdsError."""
        if not self._blocks:
            raise OutOfProducerIdsError
        block = self._blocks[0]
        if len(block) > 1:
            self._blocks[0] = block[1:]
        else:
            del self._blocks[0]
        self._see_to_more()
        return block.start

    def available(self) -> Promise[None]:
        """Resolved when there are ids. Somebody else who waits may take the last one first."""
        if self._blocks:
            return Promise.ready(None)
        return self._see_to_more() or Promise.ready(None)

    def _see_to_more(self) -> Promise[None] | None:
        if self._refill is None and sum(map(len, self._blocks)) < REFILL_BELOW:
            refill = self._refill = Promise()
            start(self._fetch(refill))
        return self._refill

    def may_come(self, producer_id: int) -> bool:
        """True if the id may still be handed out."""
        return producer_id >= (self._blocks[0].start if self._blocks else self._skipped_below)

    async def skip_to(self, producer_id: int) -> None:
        """Never hand out this one, nor one before it."""
        assert self._skip is not None, "in a cluster the controller says which ids there are"
        self._skipped_below = max(self._skipped_below, producer_id + 1)
        self._leave_out()
        self._see_to_more()
        await self._skip(producer_id)

    def _leave_out(self) -> None:
        rests = (range(max(block.start, self._skipped_below), block.stop) for block in self._blocks)
        self._blocks = [rest for rest in rests if rest]

    async def _fetch(self, refill: Promise[None]) -> None:
        self._blocks.append(await self._next_block())
        self._leave_out()
        self._refill = None
        refill.resolve(None)


class ReservedBlocks:
    """The blocks of a broker that is alone: each is reserved in the journal before its first id is used."""

    def __init__(self, journal: Journal, reserved_below: int) -> None:
        """`reserved_below` is what the journal says."""
        self._journal = journal
        self._reserved_below = reserved_below

    def first(self) -> range:
        """Reserve one on the spot, while nobody is served."""
        record, block = self._reserve()
        self._journal.append_now(record)
        return block

    async def skip(self, producer_id: int) -> None:
        """Have no later block begin at this id or before it."""
        if producer_id >= self._reserved_below:
            self._reserved_below = producer_id + 1
            await self._journal.write([ProducerIdsReserved(self._reserved_below)])

    async def next_block(self) -> range:
        record, block = self._reserve()
        await self._journal.write([record])
        return block

    def _reserve(self) -> tuple[ProducerIdsReserved, range]:
        block = range(self._reserved_below, self._reserved_below + BLOCK_SIZE)
        self._reserved_below = block.stop
        return ProducerIdsReserved(next_producer_id=block.stop), block

"""Producer ids in a cluster: the controller gives them out in blocks (AllocateProducerIds v0, KIP-730)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.broker.cluster.channel import ChannelError
from oncelog.coordination import Parked, sleep, start
from oncelog.wire import ErrorCode, message_class

if TYPE_CHECKING:
    from oncelog.broker.cluster.channels import Channels
    from oncelog.broker.cluster.members import ClusterMembers
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

API_KEY, VERSION = 67, 0
REFILL_BELOW = 100
"""With so few ids left the next block is asked for. Kafka asks when a tenth is left."""
PAUSE_MS = 50


class ProducerIdBlocks:
    """What is left of the block in use, and the one that follows it. `epoch` is this broker's epoch at the moment."""

    def __init__(
        self,
        clock: Clock,
        node_id: int,
        members: ClusterMembers,
        channels: Channels,
        timeout_ms: int,
        epoch: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._members = members
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._epoch = epoch
        self._blocks: list[range] = []
        self._refill: Parked[None] | None = None

    @property
    def _left(self) -> int:
        return sum(map(len, self._blocks))

    def allocate(self) -> int:
        assert self._blocks, "a caller did not wait for `available`"
        block = self._blocks[0]
        producer_id = block.start
        if len(block) > 1:
            self._blocks[0] = block[1:]
        else:
            del self._blocks[0]
        self._see_to_more()
        return producer_id

    def available(self) -> Parked[None]:
        """Released when there are enough ids for one request."""
        self._see_to_more()
        if self._refill is not None and self._left < REFILL_BELOW // 2:
            return start(self._refilled(self._refill))
        return Parked.ready(None)

    async def _refilled(self, refill: Parked[None]) -> None:
        await refill
        while not self._blocks:
            # More had waited for the block than it had ids.
            self._see_to_more()
            assert self._refill is not None, "without an id the next block is asked for"
            await self._refill

    def _see_to_more(self) -> None:
        if self._left < REFILL_BELOW and self._refill is None:
            self._refill = Parked()
            start(self._fetch(self._refill))

    async def _fetch(self, refill: Parked[None]) -> None:
        while (block := await self._ask()) is None:
            await sleep(self._clock, PAUSE_MS)
        logger.info("producer ids %d to %d are this broker's to give", block.start, block.stop - 1)
        self._blocks.append(block)
        self._refill = None
        refill.release(None)

    async def _ask(self) -> range | None:
        node = self._members.broker(self._members.controller_id)
        if node is None:
            return None
        request = message_class(API_KEY, VERSION, "request")(broker_id=self._node_id, broker_epoch=self._epoch())
        answer = await self._channels.to(node).ask(API_KEY, VERSION, request, self._timeout_ms)
        if isinstance(answer, ChannelError):
            logger.info("no producer ids: %s", answer.reason)
            return None
        if answer.error_code is not ErrorCode.none:
            logger.info("the controller gave no producer ids: %s", answer.error_code.name)
            return None
        return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

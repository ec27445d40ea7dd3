"""Producer ids in a cluster: the controller gives them out in blocks (AllocateProducerIds v0, KIP-730)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.cluster.channel import ChannelError
from oncelog.coordination import sleep
from oncelog.wire import ErrorCode, message_class

if TYPE_CHECKING:
    from oncelog.cluster.channel import Channels
    from oncelog.cluster.members import ClusterMembers
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

API_KEY, VERSION = 67, 0
PAUSE_MS = 50


class ProducerIdBlocks:
    """`epoch` is this broker's epoch at the moment."""

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

    async def next_block(self) -> range:
        """The controller is asked until it gives one."""
        while not (block := await self._ask()):
            await sleep(self._clock, PAUSE_MS)
        logger.info("producer ids %d to %d are allocated to this broker", block.start, block.stop - 1)
        return block

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

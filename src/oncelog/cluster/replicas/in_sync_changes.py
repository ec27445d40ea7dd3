"""Asking the controller to change in-sync sets: AlterPartition v2-3 (KIP-497)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.cluster.channel import ChannelError
from oncelog.coordination import Promise, sleep, start
from oncelog.replication import AlterPartitionAnswer
from oncelog.wire import ErrorCode, construct, message_class, message_module

if TYPE_CHECKING:
    from oncelog.cluster.channel import Channels
    from oncelog.cluster.members import ClusterMembers
    from oncelog.environment import Clock

logger = logging.getLogger("oncelog.broker")

API_KEY, LOWEST, HIGHEST = 56, 2, 3
PAUSE_MS = 50
"""Pause before a retry, as in Kafka's AlterPartitionManager."""
UNKNOWN_BROKER_EPOCH = -1
NOT_ATTEMPTED = AlterPartitionAnswer(ErrorCode.operation_not_attempted)


@dataclass(frozen=True, slots=True)
class InSyncChange:
    """The in-sync set that the leader of a partition requests."""

    topic_id: UUID
    index: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int
    broker_epochs: Mapping[int, int] = field(default_factory=dict)
    """The broker epoch under which each member caught up. A broker that restarted since may have lost records (KIP-903)."""


_Key = tuple[UUID, int]


class InSyncChanges:
    """One request is under way at a time. It has all changes that came during the one before."""

    def __init__(
        self,
        clock: Clock,
        node_id: int,
        members: ClusterMembers,
        channels: Channels,
        timeout_ms: int,
        epoch: Callable[[], int],
    ) -> None:
        """`epoch` is this broker's epoch at the moment."""
        self._clock = clock
        self._node_id = node_id
        self._members = members
        self._channels = channels
        self._timeout_ms = timeout_ms
        self._epoch = epoch
        self._waiting: dict[_Key, tuple[InSyncChange, Promise[AlterPartitionAnswer]]] = {}
        self._is_asking = False

    def ask(self, change: InSyncChange) -> Promise[AlterPartitionAnswer]:
        """Resolved with what the controller answers; OPERATION_NOT_ATTEMPTED while another change of the partition is under way."""
        key = change.topic_id, change.index
        if key in self._waiting:
            return Promise.ready(NOT_ATTEMPTED)
        answer: Promise[AlterPartitionAnswer] = Promise()
        self._waiting[key] = change, answer
        if not self._is_asking:
            start(self._ask_all())
        return answer

    def withdraw(self, topic_id: UUID, index: int) -> None:
        """Withdraws a change when the replica stops leading: it may lead again under the same epoch, and would miss the answer.

        A request under way has an older broker epoch by then, and the controller refuses it.
        """
        found = self._waiting.pop((topic_id, index), None)
        if found is not None:
            _, answer = found
            answer.resolve(NOT_ATTEMPTED)

    async def _ask_all(self) -> None:
        self._is_asking = True
        while self._waiting:
            asked = dict(self._waiting)
            answers = await self._answers([change for change, _ in asked.values()])
            if answers is None:
                await sleep(self._clock, PAUSE_MS)
                continue
            for key, one in asked.items():
                if self._waiting.get(key) is one:
                    del self._waiting[key]
                    _, answer = one
                    answer.resolve(answers.get(key, AlterPartitionAnswer(ErrorCode.unknown_server_error)))
        self._is_asking = False

    async def _answers(self, changes: list[InSyncChange]) -> Mapping[_Key, AlterPartitionAnswer] | None:
        """None if the controller is another one, or cannot be reached."""
        node = self._members.broker(self._members.controller_id)
        if node is None:
            return None
        channel = self._channels.to(node)
        answer = await channel.ask_newest(
            API_KEY, LOWEST, HIGHEST, lambda version: self._body(version, changes), self._timeout_ms
        )
        if isinstance(answer, ChannelError):
            logger.info("%d changes of in-sync sets did not reach the controller: %s", len(changes), answer.reason)
            return None
        if answer.error_code is not ErrorCode.none:
            logger.info("the controller refused %d changes of in-sync sets: %s", len(changes), answer.error_code.name)
            return None
        return {
            (topic.topic_id, one.partition_index): _answer(one) for topic in answer.topics for one in topic.partitions
        }

    def _body(self, version: int, changes: list[InSyncChange]) -> Any:
        types = message_module(API_KEY, version, "request")
        topics: defaultdict[UUID, list[Any]] = defaultdict(list)
        for change in changes:
            with_epochs = ()
            if version >= 3:
                epochs = change.broker_epochs
                with_epochs = tuple(
                    types.BrokerState(broker_id=one, broker_epoch=epochs.get(one, UNKNOWN_BROKER_EPOCH))
                    for one in change.isr
                )
            topics[change.topic_id].append(
                construct(
                    types.PartitionData,
                    partition_index=change.index,
                    leader_epoch=change.leader_epoch,
                    new_isr=change.isr,
                    new_isr_with_epochs=with_epochs,
                    leader_recovery_state=change.leader_recovery_state,
                    partition_epoch=change.partition_epoch,
                )
            )
        return message_class(API_KEY, version, "request")(
            broker_id=self._node_id,
            broker_epoch=self._epoch(),
            topics=tuple(
                types.TopicData(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )


def _answer(data: Any) -> AlterPartitionAnswer:
    error: ErrorCode = data.error_code
    if error is not ErrorCode.none:
        return AlterPartitionAnswer(error)
    return AlterPartitionAnswer(error, data.leader_epoch, data.partition_epoch, data.isr)

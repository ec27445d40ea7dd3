"""DescribeProducers v0: the producers that a partition remembers, and where their open transactions begin (KIP-664).

Any replica answers: an administrator may want to know what a follower has.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.leader_epochs import UNTOLD, epoch_problem
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    turn, types = Turn(broker.clock), request.types
    topics = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partition_indexes, partial(_partition, broker, types, asked.name))
        topics.append(types.TopicResponse(name=asked.name, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _partition(broker: Needs, types: Any, topic: str, index: int) -> Any:
    partition = broker.topics.partition(topic, index)
    if partition is None:
        return types.PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=f"there is no partition {topic}-{index}",
            active_producers=(),
        )
    problem = epoch_problem(partition, UNTOLD, only_from_leader=False)
    if problem is not None:
        return types.PartitionResponse(
            partition_index=index,
            error_code=problem,
            error_message=partition.refused(problem).message,
            active_producers=(),
        )
    return types.PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        active_producers=tuple(
            types.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_first_offset,
            )
            for producer in partition.log.producers.active()
        ),
    )

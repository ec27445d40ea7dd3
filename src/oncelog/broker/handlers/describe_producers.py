"""DescribeProducers v0: the producers that a partition remembers, and where their open transactions begin (KIP-664).

Any replica answers: an administrator may want to know what a follower has.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.leaders import UNTOLD, epoch_problem
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode


async def handle(request: Request, clock: Clock, topics: Topics) -> Any:
    turn, types = Turn(clock), request.types
    answers = []
    for asked in request.body.topics:
        partitions = await turn.each(asked.partition_indexes, partial(_partition, topics, types, asked.name))
        answers.append(types.TopicResponse(name=asked.name, partitions=partitions))
    return request.answer(topics=tuple(answers))


def _partition(topics: Topics, types: Any, topic: str, index: int) -> Any:
    partition = topics.partition(topic, index)
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

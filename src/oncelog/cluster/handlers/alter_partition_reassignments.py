"""AlterPartitionReassignments v0 in a cluster: the controller's broker moves partitions, or calls that off (KIP-455).

It is answered when the moves are in ZooKeeper. v1, which may keep the number of replicas as it is (KIP-860), Kafka has not with
ZooKeeper.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.values import TopicPartition
from oncelog.wire import ErrorCode

NOT_CONTROLLER = "This is not the correct controller for this cluster."


async def handle(request: Request, controller: Controller) -> Any:
    # As in Kafka, of a partition that is named twice the last counts.
    targets: dict[TopicPartition, tuple[int, ...] | None] = {
        (topic.name, one.partition_index): None if one.replicas is None else tuple(one.replicas)
        for topic in request.body.topics
        for one in topic.partitions
    }
    results = await controller.reassign(targets)
    if isinstance(results, ErrorCode):
        return request.answer(error_code=results, error_message=NOT_CONTROLLER, responses=())
    types = request.types
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for topic, index in targets:
        error, message = results[topic, index]
        by_topic[topic].append(
            types.ReassignablePartitionResponse(partition_index=index, error_code=error, error_message=message)
        )
    return request.answer(
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            types.ReassignableTopicResponse(name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )

"""ListPartitionReassignments v0 in a cluster: the controller's broker says which partitions are on their way (KIP-455)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.handlers.alter_partition_reassignments import NOT_CONTROLLER
from oncelog.wire import ErrorCode


async def handle(request: Request, controller: Controller) -> Any:
    asked = request.body.topics
    partitions = None
    if asked is not None:
        partitions = [(topic.name, index) for topic in asked for index in topic.partition_indexes]
    found = await controller.list_reassignments(partitions)
    if isinstance(found, ErrorCode):
        return request.answer(error_code=found, error_message=NOT_CONTROLLER, topics=())
    types = request.types
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, index), assignment in found.items():
        by_topic[topic].append(
            types.OngoingPartitionReassignment(
                partition_index=index,
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )
        )
    return request.answer(
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            types.OngoingTopicReassignment(name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )

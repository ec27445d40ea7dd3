"""ElectLeaders v0-2: every partition is led by its only replica already, so no election is ever needed.

Asked for all partitions, the answer leaves out those that need none, as Kafka's does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

PREFERRED, UNCLEAN = 0, 1


async def handle(request: Request, clock: Clock, node_id: int, topics: Topics) -> Any:
    body = request.body
    election_type = getattr(body, "election_type", PREFERRED)
    known = election_type in (PREFERRED, UNCLEAN)
    asked = (
        [(topic.topic, topic.partitions) for topic in body.topic_partitions]
        if body.topic_partitions is not None
        else [(topic.name, ()) for topic in topics]
    )
    turn, unknown_type = Turn(clock), None if known else election_type
    results = []
    for name, partitions in asked:
        elected = await turn.each(partitions, partial(_partition, node_id, topics, request, name, unknown_type))
        results.append(request.types.ReplicaElectionResult(topic=name, partition_result=elected))
    return request.answer(
        error_code=ErrorCode.none if known else ErrorCode.invalid_request, replica_election_results=tuple(results)
    )


def _partition(node_id: int, topics: Topics, request: Request, name: str, unknown_type: int | None, index: int) -> Any:
    if unknown_type is not None:
        error, message = ErrorCode.invalid_request, f"there is no election of type {unknown_type}"
    elif topics.partition(name, index) is None:
        error, message = ErrorCode.unknown_topic_or_partition, f"there is no partition {name}-{index}"
    elif topics.is_offline(name, index):
        error, message = ErrorCode.preferred_leader_not_available, f"{name}-{index} is offline, for its log is damaged"
    else:
        error, message = ErrorCode.election_not_needed, f"broker {node_id} leads it"
    return request.types.PartitionResult(partition_id=index, error_code=error, error_message=message)

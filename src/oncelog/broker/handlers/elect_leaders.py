"""ElectLeaders v0-2: every partition is led by its only replica already, so no election is ever needed.

Asked for all partitions, the answer leaves out those that need none, as Kafka's does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Request
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

PREFERRED, UNCLEAN = 0, 1


def handle(broker: Broker, request: Request) -> Any:
    body = request.body
    election_type = getattr(body, "election_type", PREFERRED)
    known = election_type in (PREFERRED, UNCLEAN)
    asked = (
        [(topic.topic, topic.partitions) for topic in body.topic_partitions]
        if body.topic_partitions is not None
        else [(topic.name, ()) for topic in broker.topics]
    )
    return request.answer(
        error_code=ErrorCode.none if known else ErrorCode.invalid_request,
        replica_election_results=tuple(
            request.types.ReplicaElectionResult(
                topic=name,
                partition_result=tuple(
                    _partition(broker, request, name, index, election_type if not known else None)
                    for index in partitions
                ),
            )
            for name, partitions in asked
        ),
    )


def _partition(broker: Broker, request: Request, name: str, index: int, unknown_type: int | None) -> Any:
    if unknown_type is not None:
        error, message = ErrorCode.invalid_request, f"there is no election of type {unknown_type}"
    elif broker.topics.partition(name, index) is None:
        error, message = ErrorCode.unknown_topic_or_partition, f"there is no partition {name}-{index}"
    else:
        error, message = ErrorCode.election_not_needed, f"broker {broker.node_id} leads it"
    return request.types.PartitionResult(partition_id=index, error_code=error, error_message=message)

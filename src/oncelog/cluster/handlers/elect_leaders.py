"""ElectLeaders v0-2 in a cluster: the controller's broker has leaders elected, and waits until it is told of them.

v1 also asks for elections among replicas that are not in sync (KIP-460). Asked for all partitions, the answer leaves out those
that need no election.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from oncelog.broker.request import Request
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.leader_elections import ElectionType
from oncelog.cluster.controller.values import ApiError, TopicPartition
from oncelog.cluster.handlers.waiting import TIMED_OUT, RequestDeadline
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

ELECTED = ApiError(ErrorCode.none)
KNOWN_TYPES = {one.value: one for one in ElectionType}


async def handle(request: Request, clock: Clock, controller: Controller, shared_topics: SharedTopics) -> Any:
    body = request.body
    deadline = RequestDeadline(clock, request)
    partitions = _asked(shared_topics, body)
    number = getattr(body, "election_type", ElectionType.PREFERRED.value)
    election_type = KNOWN_TYPES.get(number)
    if election_type is None:
        unknown = ApiError(ErrorCode.invalid_request, f"there is no election of type {number}")
        return _answer(request, unknown.code, dict.fromkeys(partitions, unknown))
    answers = await controller.elect_leaders(partitions, election_type)
    outcomes = {
        partition: answer if isinstance(answer, ApiError) else await _led(shared_topics, partition, answer, deadline)
        for partition, answer in answers.items()
    }
    if body.topic_partitions is None:
        outcomes = {key: one for key, one in outcomes.items() if one.code is not ErrorCode.election_not_needed}
    return _answer(request, ErrorCode.none, outcomes)


def _asked(shared_topics: SharedTopics, body: Any) -> list[TopicPartition]:
    """Each once. None are all that clients are told of."""
    if body.topic_partitions is None:
        told = filter(None, (shared_topics.told(topic.name) for topic in shared_topics))
        return [(topic.name, one.index) for topic in told for one in topic.partitions]
    return list(dict.fromkeys((topic.topic, index) for topic in body.topic_partitions for index in topic.partitions))


async def _led(
    shared_topics: SharedTopics, partition: TopicPartition, leader: int, deadline: RequestDeadline
) -> ApiError:
    """As in DelayedElectLeader: a client that asks for metadata next is to find the leader."""

    def is_told() -> bool:
        found = shared_topics.partition(*partition)
        return found is not None and found.leadership.leader == leader

    return ELECTED if await deadline.until(shared_topics, partition[0], is_told) else TIMED_OUT


def _answer(request: Request, error: ErrorCode, outcomes: dict[TopicPartition, ApiError]) -> Any:
    types = request.types
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        by_topic[topic].append(
            types.PartitionResult(partition_id=index, error_code=outcome.code, error_message=outcome.message)
        )
    return request.answer(
        error_code=error,
        replica_election_results=tuple(
            types.ReplicaElectionResult(topic=topic, partition_result=tuple(results))
            for topic, results in by_topic.items()
        ),
    )

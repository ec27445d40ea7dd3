"""CreateTopics v2-7 in a cluster: the controller's broker makes topics in ZooKeeper, and waits until they have leaders.

The checks are those of Kafka's ZkAdminManager, in its order. A topic is made even if the time is over before it has leaders.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from oncelog.broker.handlers.create_topics import config_problem, configs_of, made, partition_count, refused
from oncelog.broker.request import Request
from oncelog.broker.storage.auto_creation import PARTITIONS_MAX, replication_factor
from oncelog.cluster.controller.placement import Placement
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.handlers import waiting
from oncelog.cluster.handlers.waiting import NOT_CONTROLLER, TIMED_OUT, RequestDeadline, is_led, until
from oncelog.cluster.topic_changes import being_deleted
from oncelog.cluster.zookeeper.asking import SessionEndedError, within
from oncelog.coordination import sleep, start
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings

NOT_GIVEN = -1
PAUSE_MS = 10


class Needs(waiting.Needs, Protocol):
    """What this API needs of the broker."""

    settings: Settings


class Made:
    """A topic that was made, or would be. `topic_id` is None for one that would be."""

    def __init__(self, topic_id: UUID | None, placement: Placement) -> None:
        self.topic_id = topic_id
        self.partition_count = len(placement)
        self.factor = len(placement[0])


Outcomes = dict[str, Made | ApiError]


async def handle(broker: Needs, request: Request) -> Any:
    topics = request.body.topics
    deadline = RequestDeadline(broker.clock, request)
    problem = ApiError(ErrorCode.not_controller, "")
    if broker.controller.is_active:
        if sum(max(partition_count(broker.settings, topic), 0) for topic in topics) <= PARTITIONS_MAX:
            return await _answer(broker, request, deadline)
        problem = ApiError(ErrorCode.policy_violation, f"one request makes {PARTITIONS_MAX} partitions at most")
    return request.answer(topics=tuple(refused(request, topic.name, *problem) for topic in topics))


async def _answer(broker: Needs, request: Request, deadline: RequestDeadline) -> Any:
    times = Counter(topic.name for topic in request.body.topics)
    asked = [topic for topic in request.body.topics if times[topic.name] == 1]
    outcomes: Outcomes = {
        name: ApiError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
        for name, count in times.items()
        if count > 1
    }
    validate_only = request.body.validate_only
    making = start(_make_all(broker, asked, outcomes, deadline, validate_only=validate_only))
    await within(broker.clock, deadline.patience_ms, making)
    results = []
    for topic in request.body.topics:
        outcome = outcomes.get(topic.name, TIMED_OUT)
        if isinstance(outcome, ApiError):
            results.append(refused(request, topic.name, *outcome))
        elif validate_only or await _is_led(broker, topic.name, outcome, deadline):
            results.append(_made(broker, request, topic, outcome))
        else:
            results.append(refused(request, topic.name, *TIMED_OUT, outcome.topic_id))
    return request.answer(topics=tuple(results))


async def _make_all(
    broker: Needs, asked: list[Any], outcomes: Outcomes, deadline: RequestDeadline, *, validate_only: bool
) -> None:
    """One after the other: two of them may have names that collide."""
    for topic in asked:
        try:
            outcomes[topic.name] = await _make(broker, topic, deadline, validate_only=validate_only)
        except SessionEndedError:
            # Whose session is over is no controller any more.
            outcomes[topic.name] = NOT_CONTROLLER


async def _make(broker: Needs, asked: Any, deadline: RequestDeadline, *, validate_only: bool) -> Made | ApiError:
    placement = _placement(broker, asked)
    if isinstance(placement, ApiError):
        return placement
    text = name_problem(asked.name)
    if text is not None:
        return ApiError(ErrorCode.invalid_topic_exception, text)
    problem = await _problem(broker, asked.name, placement, deadline) or config_problem(broker.settings, asked)
    if problem is not None:
        return ApiError(*problem)
    if validate_only:
        return Made(None, placement)
    if deadline.patience_ms <= 0:
        # Nobody waits for it any more, and it is not begun.
        return TIMED_OUT
    if not broker.controller.is_active:
        return NOT_CONTROLLER
    made_as = await broker.topic_changes.create(asked.name, placement, configs_of(asked))
    if isinstance(made_as, ApiError):
        return NOT_CONTROLLER if made_as.code is ErrorCode.stale_controller_epoch else made_as
    return Made(made_as, placement)


async def _problem(broker: Needs, name: str, placement: Placement, deadline: RequestDeadline) -> ApiError | None:
    """A topic that is being deleted is waited for: DeleteTopics is answered when no broker serves it any more, and it keeps its
    name until every replica is gone.
    """
    while True:
        problem = await broker.topic_changes.problem(name, placement)
        is_waited_for = problem == being_deleted(name) and deadline.left_ms > 0
        if not is_waited_for or not await broker.topic_changes.is_leaving(name):
            return problem
        await sleep(broker.clock, PAUSE_MS)


def _placement(broker: Needs, asked: Any) -> Placement | ApiError:
    if broker.shared_topics.named(asked.name) is not None:
        return ApiError(ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists.")
    without = [entry.name for entry in asked.configs if entry.value is None]
    if without:
        return ApiError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(without)}")
    if not asked.assignments:
        factor = asked.replication_factor
        factor = replication_factor(broker.settings, "") if factor == NOT_GIVEN else factor
        return broker.topic_changes.place(partition_count(broker.settings, asked), factor)
    if (asked.num_partitions, asked.replication_factor) != (NOT_GIVEN, NOT_GIVEN):
        return ApiError(
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time.",
        )
    if not all(entry.broker_ids for entry in asked.assignments):
        # Kafka makes a topic that nobody can ever write to.
        message = "The manual partition assignment includes an empty replica list."
        return ApiError(ErrorCode.invalid_replica_assignment, message)
    return {entry.partition_index: tuple(entry.broker_ids) for entry in asked.assignments}


async def _is_led(broker: Needs, name: str, outcome: Made, deadline: RequestDeadline) -> bool:
    return await until(broker, name, lambda: is_led(broker, outcome.topic_id, outcome.partition_count), deadline)


def _made(broker: Needs, request: Request, asked: Any, outcome: Made) -> Any:
    return made(request, broker.settings, asked, outcome.topic_id, outcome.partition_count, outcome.factor)

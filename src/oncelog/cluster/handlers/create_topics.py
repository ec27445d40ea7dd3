"""CreateTopics v2-7 in a cluster: the controller's broker makes topics in ZooKeeper, and waits until they have leaders.

The checks are those of Kafka's ZkAdminManager, in its order. A topic is made even if the time is over before it has leaders.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from oncelog.broker.config.configuration import Settings
from oncelog.broker.handlers.create_topics import config_problem, configs_of, made, partition_count, refused
from oncelog.broker.request import Request
from oncelog.broker.storage.auto_creation import PARTITIONS_MAX, replication_factor
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.placement import Placement
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.handlers.waiting import NOT_CONTROLLER, TIMED_OUT, RequestDeadline, is_led
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.topic_changes import TopicChanges, being_deleted
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.coordination import sleep, start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

NOT_GIVEN = -1
PAUSE_MS = 10


class Made:
    """A topic that was made, or would be. `topic_id` is None for one that would be."""

    def __init__(self, topic_id: UUID | None, placement: Placement) -> None:
        self.topic_id = topic_id
        self.partition_count = len(placement)
        self.factor = len(placement[0])


async def handle(
    request: Request,
    clock: Clock,
    controller: Controller,
    settings: Settings,
    shared_topics: SharedTopics,
    topic_changes: TopicChanges,
) -> Any:
    topics = request.body.topics
    problem = ApiError(ErrorCode.not_controller, "")
    if controller.is_active:
        if sum(max(partition_count(settings, topic), 0) for topic in topics) <= PARTITIONS_MAX:
            return await TopicCreation(request, clock, controller, settings, shared_topics, topic_changes).answer()
        problem = ApiError(ErrorCode.policy_violation, f"one request makes {PARTITIONS_MAX} partitions at most")
    return request.answer(topics=tuple(refused(request, topic.name, *problem) for topic in topics))


class TopicCreation:
    """One request at the controller's broker."""

    def __init__(
        self,
        request: Request,
        clock: Clock,
        controller: Controller,
        settings: Settings,
        shared_topics: SharedTopics,
        topic_changes: TopicChanges,
    ) -> None:
        self._request = request
        self._clock = clock
        self._controller = controller
        self._settings = settings
        self._topics = shared_topics
        self._topic_changes = topic_changes
        self._deadline = RequestDeadline(clock, request)
        self._outcomes: dict[str, Made | ApiError] = {}

    async def answer(self) -> Any:
        request = self._request
        times = Counter(topic.name for topic in request.body.topics)
        asked = [topic for topic in request.body.topics if times[topic.name] == 1]
        repeated = ApiError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
        self._outcomes = {name: repeated for name, count in times.items() if count > 1}
        await self._deadline.within(start(self._make_all(asked)))
        results = []
        for topic in request.body.topics:
            outcome = self._outcomes.get(topic.name, TIMED_OUT)
            if isinstance(outcome, ApiError):
                results.append(refused(request, topic.name, *outcome))
            elif request.body.validate_only or await self._is_led(topic.name, outcome):
                described = (outcome.topic_id, outcome.partition_count, outcome.factor)
                results.append(made(request, self._settings, topic, *described))
            else:
                results.append(refused(request, topic.name, *TIMED_OUT, outcome.topic_id))
        return request.answer(topics=tuple(results))

    async def _make_all(self, asked: list[Any]) -> None:
        """One after the other: two of them may have names that collide."""
        for topic in asked:
            try:
                self._outcomes[topic.name] = await self._make(topic)
            except SessionEndedError:
                # Whose session is over is no controller any more.
                self._outcomes[topic.name] = NOT_CONTROLLER

    async def _make(self, asked: Any) -> Made | ApiError:
        placement = self._placement(asked)
        if isinstance(placement, ApiError):
            return placement
        text = name_problem(asked.name)
        if text is not None:
            return ApiError(ErrorCode.invalid_topic_exception, text)
        problem = await self._problem(asked.name, placement) or config_problem(self._settings, asked)
        if problem is not None:
            return ApiError(*problem)
        if self._request.body.validate_only:
            return Made(None, placement)
        if self._deadline.patience_ms <= 0:
            # Nobody waits for it any more, and it is not begun.
            return TIMED_OUT
        if not self._controller.is_active:
            return NOT_CONTROLLER
        made_as = await self._topic_changes.create(asked.name, placement, configs_of(asked))
        if isinstance(made_as, ApiError):
            return NOT_CONTROLLER if made_as.code is ErrorCode.stale_controller_epoch else made_as
        return Made(made_as, placement)

    async def _problem(self, name: str, placement: Placement) -> ApiError | None:
        """Wait for a topic that is being deleted.

        DeleteTopics is answered when no broker serves the topic any more, and the topic keeps its name until every replica
        is gone.
        """
        while True:
            problem = await self._topic_changes.problem(name, placement)
            is_waited_for = problem == being_deleted(name) and self._deadline.left_ms > 0
            if not is_waited_for or not await self._topic_changes.is_leaving(name):
                return problem
            await sleep(self._clock, PAUSE_MS)

    def _placement(self, asked: Any) -> Placement | ApiError:
        if self._topics.named(asked.name) is not None:
            return ApiError(ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists.")
        without = [entry.name for entry in asked.configs if entry.value is None]
        if without:
            message = f"Null value not supported for topic configs: {','.join(without)}"
            return ApiError(ErrorCode.invalid_config, message)
        if not asked.assignments:
            factor = asked.replication_factor
            factor = replication_factor(self._settings, "") if factor == NOT_GIVEN else factor
            return self._topic_changes.place(partition_count(self._settings, asked), factor)
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

    async def _is_led(self, name: str, outcome: Made) -> bool:
        topic_id, count = outcome.topic_id, outcome.partition_count
        return await self._deadline.until(self._topics, name, lambda: is_led(self._topics, topic_id, count))

"""CreatePartitions v0-3 in a cluster: the controller's broker gives topics more partitions, and waits until those have leaders.

The coordinators' topics keep theirs, as with a broker that is alone.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from oncelog.broker.handlers.create_partitions import Budget, keeps, result, room_problem, too_many
from oncelog.broker.request import Request
from oncelog.broker.storage.altering import DONE, Outcome
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.handlers.waiting import NOT_CONTROLLER, TIMED_OUT, RequestDeadline, is_led
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.topic_changes import Grown, TopicChanges
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode


async def handle(
    request: Request, clock: Clock, controller: Controller, shared_topics: SharedTopics, topic_changes: TopicChanges
) -> Any:
    asked = {topic.name: topic for topic in request.body.topics}
    if not controller.is_active:
        return request.answer(results=tuple(result(request, (name, NOT_CONTROLLER)) for name in asked))
    deadline = RequestDeadline(clock, request)
    times = Counter(topic.name for topic in request.body.topics)
    budget = Budget()
    twice: Outcome = (ErrorCode.invalid_request, "Duplicate topic in request.")
    outcomes = {
        name: twice if times[name] > 1 else await _grow(shared_topics, topic_changes, request, topic, budget, deadline)
        for name, topic in asked.items()
    }
    return request.answer(results=tuple(map(partial(result, request), outcomes.items())))


async def _grow(
    shared_topics: SharedTopics,
    topic_changes: TopicChanges,
    request: Request,
    asked: Any,
    budget: Budget,
    deadline: RequestDeadline,
) -> Outcome:
    topic = shared_topics.named(asked.name)
    if topic is not None:
        if topic.is_internal:
            return keeps(topic)
        if not budget.take(asked.count - len(topic.partitions)):
            return too_many()
    validate_only = request.body.validate_only
    growing = start(_grow_in_zookeeper(topic_changes, asked, validate_only=validate_only))
    grown = await deadline.within(growing) or TIMED_OUT
    if isinstance(grown, ApiError):
        return grown
    if validate_only or await deadline.until(
        shared_topics, asked.name, lambda: is_led(shared_topics, grown.topic_id, grown.partition_count)
    ):
        return DONE
    return TIMED_OUT


async def _grow_in_zookeeper(topic_changes: TopicChanges, asked: Any, *, validate_only: bool) -> Grown | ApiError:
    problem = room_problem(asked)
    if problem is not None:
        return ApiError(*problem)
    manual = None if asked.assignments is None else [tuple(entry.broker_ids) for entry in asked.assignments]
    try:
        return await topic_changes.grow(asked.name, asked.count, manual, validate_only=validate_only)
    except SessionEndedError:
        return NOT_CONTROLLER

"""DeleteTopics v1-6 in a cluster: the controller's broker marks topics for deletion in ZooKeeper, and waits until they are gone.

A topic is deleted even if the time is over before: that of a broker that is down waits for it.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.config.configuration import Settings
from oncelog.broker.handlers.delete_topics import asked_topics, find, result
from oncelog.broker.request import Request
from oncelog.broker.storage.topics import Topic
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.handlers.waiting import NOT_CONTROLLER, TIMED_OUT, RequestDeadline
from oncelog.cluster.shared_topics import SharedTopics
from oncelog.cluster.topic_changes import TopicChanges
from oncelog.cluster.zookeeper.asking import SessionEndedError
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode

MARKED = ApiError(ErrorCode.none)


async def handle(
    request: Request,
    clock: Clock,
    controller: Controller,
    settings: Settings,
    shared_topics: SharedTopics,
    topic_changes: TopicChanges,
) -> Any:
    deadline = RequestDeadline(clock, request)
    times = asked_topics(request)
    if not controller.is_active:
        return request.answer(
            responses=tuple(result(request, name, topic_id, ErrorCode.not_controller) for name, topic_id in times)
        )

    async def delete(name: str | None, topic_id: Any) -> Any:
        found = find(shared_topics, settings, request, name, topic_id, is_repeated=False)
        if not isinstance(found, Topic):
            return found
        named, found_id = found.name, found.topic_id
        outcome = await deadline.within(start(_mark(topic_changes, named))) or TIMED_OUT
        if outcome is MARKED:
            is_gone = await deadline.until(shared_topics, named, lambda: shared_topics.with_id(found_id) is None)
            outcome = MARKED if is_gone else TIMED_OUT
        return result(request, named, found_id, *outcome)

    # As in Kafka with ZooKeeper, a topic that is named twice is deleted, and answered twice.
    under_way = {asked: start(delete(*asked)) for asked in times}
    return request.answer(responses=tuple([await under_way[asked] for asked in times.elements()]))


async def _mark(topic_changes: TopicChanges, name: str) -> ApiError:
    try:
        return await topic_changes.delete(name) or MARKED
    except SessionEndedError:
        return NOT_CONTROLLER

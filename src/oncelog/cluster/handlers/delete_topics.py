"""DeleteTopics v1-6 in a cluster: the controller's broker marks topics for deletion in ZooKeeper, and waits until they are gone.

A topic is deleted even if the time is over before: that of a broker that is down waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from oncelog.broker.handlers.delete_topics import asked_topics, find, result
from oncelog.broker.request import Request
from oncelog.broker.storage.topics import Topic
from oncelog.cluster.controller.values import ApiError
from oncelog.cluster.handlers import waiting
from oncelog.cluster.handlers.waiting import NOT_CONTROLLER, TIMED_OUT, RequestDeadline, until
from oncelog.cluster.zookeeper.asking import SessionEndedError, within
from oncelog.coordination import start
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.storage.topics import Topics


class Needs(waiting.Needs, Protocol):
    """What this API needs of the broker."""

    settings: Settings
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    deadline = RequestDeadline(broker.clock, request)
    times = asked_topics(request)
    if not broker.controller.is_active:
        return request.answer(
            responses=tuple(result(request, name, topic_id, ErrorCode.not_controller) for name, topic_id in times)
        )
    # As in Kafka with ZooKeeper, a topic that is named twice is deleted, and answered twice.
    under_way = {asked: start(_delete(broker, request, *asked, deadline)) for asked in times}
    return request.answer(responses=tuple([await under_way[asked] for asked in times.elements()]))


async def _delete(broker: Needs, request: Request, name: str | None, topic_id: Any, deadline: RequestDeadline) -> Any:
    found = find(broker, request, name, topic_id, is_repeated=False)
    if not isinstance(found, Topic):
        return found
    named, found_id = found.name, found.topic_id
    problem = await within(broker.clock, deadline.patience_ms, start(_mark(broker, named)))
    if problem is not None and problem.code is ErrorCode.none:
        problem = None if await until(broker, named, lambda: _is_gone(broker, found_id), deadline) else TIMED_OUT
    else:
        problem = problem or TIMED_OUT
    return result(request, named, found_id, *(problem or ApiError(ErrorCode.none)))


async def _mark(broker: Needs, name: str) -> ApiError:
    try:
        return await broker.topic_changes.delete(name) or ApiError(ErrorCode.none)
    except SessionEndedError:
        return NOT_CONTROLLER


def _is_gone(broker: Needs, topic_id: UUID) -> bool:
    return broker.shared_topics.with_id(topic_id) is None

"""DeleteTopics v1-6: deletes topics and their files; v6 names a topic by its name or its id."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import NO_SUCH_TOPIC
from oncelog.coordination import start
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    settings: Settings
    topics: Topics


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    asked = (
        [(state.name, state.topic_id) for state in body.topics]
        if request.version >= 6
        else [(name, None) for name in body.topic_names]
    )
    times = Counter(asked)
    under_way = await Turn(broker.clock).each(
        times, lambda one: start(_delete(broker, request, *one, is_repeated=times[one] > 1))
    )
    return request.answer(responses=tuple([await result for result in under_way]))


async def _delete(broker: Needs, request: Request, name: str | None, topic_id: Any, *, is_repeated: bool) -> Any:
    if is_repeated:
        return _result(
            request, name, topic_id, ErrorCode.invalid_request, f"Duplicate topic {'id' if name is None else 'name'}."
        )
    if not broker.settings.value("delete.topic.enable"):
        error = ErrorCode.topic_deletion_disabled if request.version >= 3 else ErrorCode.invalid_request
        return _result(request, name, topic_id, error, "delete.topic.enable is false")
    if (name is None) is (topic_id is None) and request.version >= 6:
        neither, both = "Neither topic name nor id were specified.", "You may not specify both topic name and topic id."
        message = neither if name is None else both
        return _result(request, name, topic_id, ErrorCode.invalid_request, message)
    topic = broker.topics.with_id(topic_id) if name is None else broker.topics.named(name)
    if topic is None:
        if name is None:
            return _result(
                request, name, topic_id, ErrorCode.unknown_topic_id, "This server does not host this topic ID."
            )
        return _result(request, name, topic_id, ErrorCode.unknown_topic_or_partition, NO_SUCH_TOPIC)
    if topic.is_internal:
        return _result(request, topic.name, topic.topic_id, ErrorCode.invalid_topic_exception)
    deleted = (topic.name, topic.topic_id)
    await broker.topics.delete(topic)
    return _result(request, *deleted, ErrorCode.none)


def _result(request: Request, name: str | None, topic_id: Any, error: ErrorCode, message: str | None = None) -> Any:
    return construct(
        request.types.DeletableTopicResult, name=name, topic_id=topic_id, error_code=error, error_message=message
    )

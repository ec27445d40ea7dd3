"""DeleteTopics v1-6: deletes topics and their files; v6 names a topic by its name or its id."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oncelog.broker.config.configuration import Settings
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.own_topics import OwnTopics
from oncelog.broker.storage.topics import NO_SUCH_TOPIC, Topic, Topics
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct


async def handle(request: Request, clock: Clock, own_topics: OwnTopics, settings: Settings) -> Any:
    times = asked_topics(request)
    under_way = await Turn(clock).each(
        times, lambda one: start(_delete(own_topics, settings, request, *one, is_repeated=times[one] > 1))
    )
    return request.answer(responses=tuple([await one for one in under_way]))


def asked_topics(request: Request) -> Counter[tuple[str | None, Any]]:
    """By name or id: how often each is asked for."""
    if request.version >= 6:
        return Counter((state.name, state.topic_id) for state in request.body.topics)
    return Counter((name, None) for name in request.body.topic_names)


async def _delete(
    own_topics: OwnTopics,
    settings: Settings,
    request: Request,
    name: str | None,
    topic_id: Any,
    *,
    is_repeated: bool,
) -> Any:
    found = find(own_topics, settings, request, name, topic_id, is_repeated=is_repeated)
    if not isinstance(found, Topic):
        return found
    deleted = (found.name, found.topic_id)
    await own_topics.delete(found)
    return result(request, *deleted, ErrorCode.none)


def find(
    topics: Topics, settings: Settings, request: Request, name: str | None, topic_id: Any, *, is_repeated: bool
) -> Topic | Any:
    """The topic that shall go, or the answer that it does not."""
    if is_repeated:
        return result(
            request, name, topic_id, ErrorCode.invalid_request, f"Duplicate topic {'id' if name is None else 'name'}."
        )
    if not settings.value("delete.topic.enable"):
        error = ErrorCode.topic_deletion_disabled if request.version >= 3 else ErrorCode.invalid_request
        return result(request, name, topic_id, error, "delete.topic.enable is false")
    if (name is None) is (topic_id is None) and request.version >= 6:
        neither, both = "Neither topic name nor id were specified.", "You may not specify both topic name and topic id."
        message = neither if name is None else both
        return result(request, name, topic_id, ErrorCode.invalid_request, message)
    topic = topics.still_named(topic_id) if name is None else topics.named(name)
    if topic is None:
        if name is None:
            return result(
                request, name, topic_id, ErrorCode.unknown_topic_id, "This server does not host this topic ID."
            )
        return result(request, name, topic_id, ErrorCode.unknown_topic_or_partition, NO_SUCH_TOPIC)
    if topic.is_internal:
        return result(request, topic.name, topic.topic_id, ErrorCode.invalid_topic_exception)
    return topic


def result(request: Request, name: str | None, topic_id: Any, error: ErrorCode, message: str | None = None) -> Any:
    return construct(
        request.types.DeletableTopicResult, name=name, topic_id=topic_id, error_code=error, error_message=message
    )

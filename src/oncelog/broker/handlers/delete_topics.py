"""DeleteTopics v1-6: deletes topics and their files; v6 names a topic by its name or its id."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Reply, Request, reply_when
from oncelog.coordination import Parked, all_of
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    asked = (
        [(state.name, state.topic_id) for state in body.topics]
        if request.version >= 6
        else [(name, None) for name in body.topic_names]
    )
    times = Counter(asked)
    results = all_of(
        [
            Parked.ready(_result(request, name, topic_id, ErrorCode.invalid_request, "named twice in the request"))
            if times[name, topic_id] > 1
            else _delete(broker, request, name, topic_id)
            for name, topic_id in times
        ]
    )
    return reply_when(results, lambda: request.answer(responses=tuple(results.value)))


def _delete(broker: Broker, request: Request, name: str | None, topic_id: Any) -> Parked[Any]:
    if not broker.settings.value("delete.topic.enable"):
        error = ErrorCode.topic_deletion_disabled if request.version >= 3 else ErrorCode.invalid_request
        return Parked.ready(_result(request, name, topic_id, error, "delete.topic.enable is false"))
    if (name is None) is (topic_id is None) and request.version >= 6:
        message = "a topic is named by its name or its id"
        return Parked.ready(_result(request, name, topic_id, ErrorCode.invalid_request, message))
    topic = broker.topics.with_id(topic_id) if name is None else broker.topics.named(name)
    if topic is None:
        error = ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
        return Parked.ready(_result(request, name, topic_id, error))
    if topic.is_internal:
        return Parked.ready(_result(request, topic.name, topic.topic_id, ErrorCode.invalid_topic_exception))
    result: Parked[Any] = Parked()
    broker.topics.delete(topic).then(lambda error: result.release(_result(request, topic.name, topic.topic_id, error)))
    return result


def _result(request: Request, name: str | None, topic_id: Any, error: ErrorCode, message: str | None = None) -> Any:
    return construct(
        request.types.DeletableTopicResult, name=name, topic_id=topic_id, error_code=error, error_message=message
    )

"""FindCoordinator v0-6: who coordinates a group or a transactional id: here always this broker.

v1 the key type, v4 several keys in one request. The coordinator's topic is made when somebody first asks for it; Kafka
answers COORDINATOR_NOT_AVAILABLE meanwhile, here the answer waits. Share groups (key type 2, v6) are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.broker.auto_creation import create_internal
from oncelog.broker.request import Reply, Request, reply_when
from oncelog.broker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

TOPIC_OF_KEY_TYPE = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
BATCHED_FROM_VERSION = 4


def handle(broker: Broker, request: Request) -> Reply:
    key_type = getattr(request.body, "key_type", 0)
    topic = TOPIC_OF_KEY_TYPE.get(key_type)
    if topic is None:
        return _answer(broker, request, ErrorCode.invalid_request, f"key type {key_type} is not served")
    return reply_when(create_internal(broker, topic), lambda: _answer(broker, request, ErrorCode.none, None))


def _answer(broker: Broker, request: Request, error: ErrorCode, message: str | None) -> Any:
    found = error is ErrorCode.none
    where = {
        "node_id": broker.node_id if found else -1,
        "host": broker.host if found else "",
        "port": broker.port if found else -1,
        "error_code": error,
        "error_message": message,
    }
    if request.version < BATCHED_FROM_VERSION:
        return request.answer(**where)
    return request.answer(
        coordinators=tuple(
            construct(request.types.Coordinator, key=key, **where) for key in request.body.coordinator_keys
        )
    )

"""FindCoordinator v0-6: who coordinates a group or a transactional id: the leader of the partition that it belongs to.

v1 the key type, v4 several keys in one request. The coordinator's topic is made when somebody first asks for it; Kafka
answers COORDINATOR_NOT_AVAILABLE meanwhile, here the answer waits. Share groups (key type 2, v6) are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage import auto_creation
from oncelog.broker.storage.auto_creation import create_internal
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.coordinators.known_brokers import KnownBrokers
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions

NO_LEADER = "the partition that has it has no leader now"
OFFLINE = "the partition that has it is offline, for its log is damaged"
TOPIC_OF_KEY_TYPE = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
BATCHED_FROM_VERSION = 4


class Needs(auto_creation.Needs, Protocol):
    """What this API needs of the broker."""

    clock: Clock
    known_brokers: KnownBrokers
    offsets: CommittedOffsets
    transactions: Transactions


async def handle(broker: Needs, request: Request) -> Any:
    key_type = getattr(request.body, "key_type", 0)
    topic = TOPIC_OF_KEY_TYPE.get(key_type)
    if topic is None:
        return await _answer(broker, request, ErrorCode.invalid_request, f"key type {key_type} is not served")
    await create_internal(broker, topic)
    return await _answer(broker, request, ErrorCode.none, None)


async def _answer(broker: Needs, request: Request, error: ErrorCode, message: str | None) -> Any:
    def where(key: str) -> dict[str, Any]:
        if error is not ErrorCode.none:
            return _nowhere(error, message)
        topic, index = _home(broker, request, key)
        node_id = broker.known_brokers.leader_of(topic, index)
        address = None
        if isinstance(node_id, int):
            address = broker.known_brokers.address_of(node_id, request.connection.listener)
        if address is None:
            text = OFFLINE if broker.topics.is_offline(topic, index) else NO_LEADER
            return _nowhere(ErrorCode.coordinator_not_available, text)
        return {
            "node_id": node_id,
            "host": address.host,
            "port": address.port,
            "error_code": ErrorCode.none,
            "error_message": None,
        }

    if request.version < BATCHED_FROM_VERSION:
        return request.answer(**where(request.body.key))
    coordinator = request.types.Coordinator
    keys = request.body.coordinator_keys
    coordinators = await Turn(broker.clock).each(keys, lambda key: construct(coordinator, key=key, **where(key)))
    return request.answer(coordinators=coordinators)


def _nowhere(error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}


def _home(broker: Needs, request: Request, key: str) -> tuple[str, int]:
    """The partition whose leader coordinates the key."""
    if getattr(request.body, "key_type", 0) == 0:
        return CONSUMER_OFFSETS, broker.offsets.partition_for(key)
    return TRANSACTION_STATE, broker.transactions.coordinator.partition_for(key)

"""FindCoordinator v0-6: who coordinates a group or a transactional id: the leader of the partition that it belongs to.

v1 the key type, v4 several keys in one request. The coordinator's topic is made when somebody first asks for it; Kafka
answers COORDINATOR_NOT_AVAILABLE meanwhile, here the answer waits. Share groups (key type 2, v6) are not served.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.known_brokers import KnownBrokers
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.auto_creation import AutoTopicCreation
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topics
from oncelog.environment import Clock
from oncelog.wire import ErrorCode, construct

NO_LEADER = "the partition that has it has no leader now"
OFFLINE = "the partition that has it is offline, for its log is damaged"
GROUP, TRANSACTION = 0, 1
"""The types of keys."""
TOPIC_OF_KEY_TYPE = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
BATCHED_FROM_VERSION = 4


async def handle(
    request: Request,
    auto_creation: AutoTopicCreation,
    clock: Clock,
    known_brokers: KnownBrokers,
    offsets: CommittedOffsets,
    topics: Topics,
    transactions: Transactions,
) -> Any:
    key_type = getattr(request.body, "key_type", GROUP)
    topic = TOPIC_OF_KEY_TYPE.get(key_type)
    if topic is not None:
        await auto_creation.create_internal(topic)

    def where(key: str) -> dict[str, Any]:
        if topic is None:
            return _nowhere(ErrorCode.invalid_request, f"key type {key_type} is not served")
        partition_for = offsets.partition_for if key_type == GROUP else transactions.coordinator.partition_for
        index = partition_for(key)
        node_id = known_brokers.leader_of(topic, index)
        address = None
        if isinstance(node_id, int):
            address = known_brokers.address_of(node_id, request.connection.listener)
        if address is None:
            text = OFFLINE if topics.is_offline(topic, index) else NO_LEADER
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
    coordinators = await Turn(clock).each(keys, lambda key: construct(coordinator, key=key, **where(key)))
    return request.answer(coordinators=coordinators)


def _nowhere(error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}

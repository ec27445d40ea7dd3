"""Whose transactions are open, asked while a coordinator moves: its nodes do not answer at one moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from oncelog.client.admin.hanging import TRANSACTION_STATE, abort_hanging, find_hanging
from oncelog.client.errors import IllegalState, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.requests import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    LIST_TRANSACTIONS,
    METADATA,
    ApiRequest,
)
from oncelog.client.values import Address, TopicPartition
from oncelog.wire import ErrorCode
from tests.client.scripted import SETTINGS, ScriptedTransport

NODES = tuple(Address(name, 9092) for name in ("first", "second"))
CLUSTER = replace(SETTINGS, bootstrap=NODES)
PARTITION = TopicPartition("t", 0)
PRODUCER_ID, ID = 7, "healthy"
NONE = ErrorCode.none


class Moving(ScriptedTransport):
    """A healthy transaction is open. Its coordinator moves each time that both nodes have listed nothing, so many times."""

    def __init__(self, moves: float) -> None:
        super().__init__(self.answer)
        self._moves_left = moves
        self._epoch = 0
        self._silent = 0

    def answer(self, request: ApiRequest) -> SimpleNamespace:
        if request.api is METADATA:
            return self._metadata([topic["name"] for topic in request.fields["topics"]])
        if request.api is DESCRIBE_PRODUCERS:
            return SimpleNamespace(topics=[self._producers(topic["name"]) for topic in request.fields["topics"]])
        if request.api is LIST_TRANSACTIONS:
            return self._list()
        if request.api is FIND_COORDINATOR:
            return SimpleNamespace(error_code=NONE, host=NODES[0].host, port=NODES[0].port)
        assert request.api is DESCRIBE_TRANSACTIONS, "nothing is to be ended"
        return SimpleNamespace(transaction_states=[self._description()])

    def _list(self) -> SimpleNamespace:
        listed = []
        if self._moves_left > 0:
            self._silent += 1
            if self._silent == len(NODES):
                self._silent, self._epoch, self._moves_left = 0, self._epoch + 1, self._moves_left - 1
        else:
            listed = [SimpleNamespace(transactional_id=ID, producer_id=PRODUCER_ID, transaction_state="Ongoing")]
        return SimpleNamespace(error_code=NONE, transaction_states=listed)

    def _description(self) -> SimpleNamespace:
        return SimpleNamespace(
            error_code=NONE,
            transactional_id=ID,
            transaction_state="Ongoing",
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            transaction_timeout=timedelta(minutes=1),
            transaction_start_time_ms=5,
            topics=[SimpleNamespace(topic="t", partitions=[0])],
        )

    def _producers(self, name: str) -> SimpleNamespace:
        state = SimpleNamespace(
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp=5,
            coordinator_epoch=-1,
            current_txn_start_offset=0,
        )
        active = [state] if name == "t" else []
        return SimpleNamespace(
            name=name, partitions=[SimpleNamespace(partition_index=0, error_code=NONE, active_producers=active)]
        )

    def _metadata(self, names: list[str]) -> SimpleNamespace:
        nodes = [SimpleNamespace(node_id=number, host=a.host, port=a.port, rack=None) for number, a in enumerate(NODES)]
        led = {"t": (0, 0), TRANSACTION_STATE: (self._epoch % len(NODES), self._epoch)}
        topics = [self._topic(name, *led[name]) for name in names]
        return SimpleNamespace(controller_id=0, brokers=nodes, topics=topics)

    def _topic(self, name: str, leader: int, epoch: int) -> SimpleNamespace:
        partition = SimpleNamespace(
            error_code=NONE,
            partition_index=0,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=(0, 1),
            isr_nodes=(0, 1),
        )
        return SimpleNamespace(error_code=NONE, name=name, is_internal=name != "t", partitions=[partition])


@pytest.mark.parametrize("moves", range(4))
def test_open_transaction_whose_coordinator_moves_does_not_hang(moves):
    """A marker in one of its partitions would split it, and its producer would not hear of that."""
    assert Moving(moves).run(find_hanging(Cluster(CLUSTER), [PARTITION])) == []
    with pytest.raises(IllegalState, match=f"transactional id '{ID}' has a transaction open"):
        Moving(moves).run(abort_hanging(Cluster(CLUSTER), PARTITION, 0))


def test_nothing_hangs_for_sure_where_coordinators_keep_moving():
    with pytest.raises(RetriesExhausted, match="coordinators keep moving"):
        Moving(float("inf")).run(abort_hanging(Cluster(CLUSTER), PARTITION, 0))

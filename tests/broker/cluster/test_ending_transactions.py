"""Transactions that end in a cluster while its topics go, and while the coordinator misses who has led."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from harness.running_cluster import RunningCluster
from oncelog.broker.coordinators.producer_ids import OutOfProducerIdsError
from oncelog.broker.storage.topics import TRANSACTION_STATE
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode
from oncelog.zookeeper.session import Create
from oncelog.zookeeper.znodes import paths
from tests.broker.cluster.in_memory import MINUTE, isr_of, leader_of, make_topic

ID = "teller"


class Transaction:
    """One of the transactional id, at the broker that coordinates it."""

    def __init__(self, cluster: RunningCluster, coordinator: int) -> None:
        self._cluster, self.coordinator = cluster, coordinator
        self.producer: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}

    def init(self) -> ErrorCode:
        answer = self._cluster.answer_of(
            self.coordinator,
            "init_producer_id",
            4,
            transactional_id=ID,
            transaction_timeout=MINUTE,
            producer_id=-1,
            producer_epoch=-1,
        )
        self.producer = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        error: ErrorCode = answer.error_code
        return error

    def begin(self, *topics: str) -> None:
        self._cluster.until(lambda: self.init() is ErrorCode.none)
        answer = self._cluster.answer_of(
            self.coordinator,
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=ID,
            v3_and_below_topics=[{"name": name, "partitions": [0]} for name in topics],
            v3_and_below_producer_id=self.producer["producer_id"],
            v3_and_below_producer_epoch=self.producer["producer_epoch"],
        )
        for topic in answer.results_by_topic_v3_and_below:
            assert [one.partition_error_code for one in topic.results_by_partition] == [ErrorCode.none]

    def commit(self) -> None:
        asked = self._cluster.call(self.coordinator, "end_txn", 3, transactional_id=ID, committed=True, **self.producer)
        self._cluster.until(lambda: asked.came)
        assert asked.message.error_code is ErrorCode.none

    @property
    def status(self) -> str:
        found = self._cluster.core(self.coordinator).transactions.coordinator.metadata(ID)
        assert found is not None
        return found.status.name


def coordinator_of(cluster: RunningCluster) -> int:
    def found() -> Any:
        return cluster.answer_of(0, "find_coordinator", 3, key=ID, key_type=1)

    cluster.until(lambda: found().error_code is ErrorCode.none)
    node_id: int = found().node_id
    return node_id


@pytest.mark.parametrize("coordinator_has_it", [False, True])
def test_topic_that_is_deleted_while_its_transaction_ends_keeps_it_from_nothing(coordinator_has_it):
    """The controller sends nothing when the last of a topic is gone from ZooKeeper."""
    cluster = RunningCluster(3, transaction_state_log_replication_factor="3", transaction_state_log_min_isr="1")
    coordinator = coordinator_of(cluster)
    one, other = (node_id for node_id in range(3) if node_id != coordinator)
    make_topic(cluster, (one, coordinator) if coordinator_has_it else (one,), name="goes")
    make_topic(cluster, (other,), name="stays")
    transaction = Transaction(cluster, coordinator)
    transaction.begin("goes", "stays")
    cluster.submit(Create(f"{paths.DELETE_TOPICS}/goes"))

    def is_going() -> bool:
        partition = cluster.core(coordinator).topics.partition("goes", 0)
        return partition is None or partition.leadership.leader < 0

    cluster.until(is_going)
    transaction.commit()
    cluster.until(lambda: transaction.status == "COMPLETE_COMMIT")
    assert transaction.init() is ErrorCode.none


def test_topic_whose_deletion_waits_for_a_dead_broker_keeps_no_transaction_from_its_end():
    """The controller names -2 as its leader at once; its znode goes when the dead broker has come back and deleted its replica."""
    cluster = RunningCluster(3, transaction_state_log_replication_factor="3", transaction_state_log_min_isr="1")
    coordinator = coordinator_of(cluster)
    dies = next(node_id for node_id in range(3) if node_id not in (coordinator, cluster.controller))
    stays = next(node_id for node_id in range(3) if node_id not in (coordinator, dies))
    make_topic(cluster, (stays, dies), name="goes")
    make_topic(cluster, (stays,), name="stays")
    transaction = Transaction(cluster, coordinator)
    transaction.begin("goes", "stays")
    cluster.nodes[dies].die(power=False)
    cluster.rest(10_000)
    cluster.submit(Create(f"{paths.DELETE_TOPICS}/goes"))
    cluster.until(lambda: cluster.core(coordinator).topics.named("goes") is None)
    transaction.commit()
    cluster.until(lambda: transaction.status == "COMPLETE_COMMIT")
    assert transaction.init() is ErrorCode.none
    assert cluster.ensemble.tree.node(paths.topic("goes")) is not None


def test_producer_that_has_its_id_waits_for_no_new_ones():
    """The controller is not heard, and this broker has given out all producer ids that it had."""
    cluster = RunningCluster(3)
    coordinator = coordinator_of(cluster)
    transaction = Transaction(cluster, coordinator)
    cluster.until(lambda: transaction.init() is ErrorCode.none)
    cluster.hold(coordinator)
    ids = cluster.core(coordinator).producer_ids
    with suppress(OutOfProducerIdsError):
        while True:
            ids.allocate()
    before = dict(transaction.producer)
    assert transaction.init() is ErrorCode.none
    assert transaction.producer == {**before, "producer_epoch": before["producer_epoch"] + 1}
    new = cluster.call(
        coordinator,
        "init_producer_id",
        4,
        transactional_id=None,
        transaction_timeout=MINUTE,
        producer_id=-1,
        producer_epoch=-1,
    )
    cluster.rest(3_000)
    assert not new.came
    cluster.let_go(coordinator)
    assert cluster.answer(new).producer_id > before["producer_id"]


def test_coordinator_that_has_missed_an_epoch_is_fenced_by_no_marker_of_the_one_between():
    """Another one has led, and written markers under its own coordinator epoch."""
    cluster = RunningCluster(4, auto_leader_rebalance_enable="false")
    controller = cluster.controller
    first, between, keeper = (node_id for node_id in range(4) if node_id != controller)
    make_topic(cluster, (between, first), (between, first), name=TRANSACTION_STATE)
    make_topic(cluster, (keeper,), name="accounts")
    cluster.nodes[between].die(power=False)
    cluster.until(lambda: all(leader_of(cluster, i, TRANSACTION_STATE, seen_by=first) == first for i in (0, 1)))
    cluster.start_served(between)
    cluster.until(lambda: all(isr_of(cluster, i, TRANSACTION_STATE) == {first, between} for i in (0, 1)))
    transaction = Transaction(cluster, first)
    transaction.begin("accounts")
    batch = build_batch([Record(None, b"value")], base_sequence=0, transactional=True, **transaction.producer)
    cluster.answer_of(
        keeper,
        "produce",
        9,
        transactional_id=ID,
        acks=-1,
        timeout=MINUTE,
        topic_data=[{"name": "accounts", "partition_data": [{"index": 0, "records": batch}]}],
    )
    home = cluster.core(first).transactions.coordinator.partition_for(ID)
    cluster.hold(first)
    transaction.commit()
    # The other replica hears that the decision is committed.
    cluster.rest(600)
    for node_id in (controller, between):
        cluster.network.part(f"broker-{node_id}", f"broker-{first}", cluster.queue.now_ms + 60_000)
    cluster.call(
        controller,
        "elect_leaders",
        2,
        election_type=0,
        topic_partitions=[{"topic": TRANSACTION_STATE, "partitions": [0, 1]}],
        timeout=MINUTE,
    )
    accounts = cluster.core(keeper).topics.partition("accounts", 0)
    producer_id = transaction.producer["producer_id"]
    cluster.until(lambda: accounts.log.producers.open_transaction(producer_id) is None)
    cluster.nodes[between].die(power=False)
    cluster.until(lambda: leader_of(cluster, home, TRANSACTION_STATE, seen_by=keeper) == first)
    missed = cluster.core(first).topics.partition(TRANSACTION_STATE, home)
    assert missed.leader_epoch < accounts.log.producers.coordinator_epoch_of(producer_id)
    cluster.nodes[controller].die(power=False)
    cluster.let_go(first)
    cluster.until(lambda: missed.leader_epoch > accounts.log.producers.coordinator_epoch_of(producer_id))
    cluster.until(lambda: transaction.status == "COMPLETE_COMMIT")
    assert transaction.init() is ErrorCode.none

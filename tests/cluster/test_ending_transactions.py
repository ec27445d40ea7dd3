"""Transactions that end in a cluster while its topics go, and while the coordinator misses who has led."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from harness.running_cluster import RunningCluster
from oncelog.broker.coordinators.producer_ids import OutOfProducerIdsError
from oncelog.broker.storage.topics import TRANSACTION_STATE
from oncelog.cluster.zookeeper.session import Create
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.records import Record, build_batch
from oncelog.wire import ErrorCode
from tests.cluster.in_memory import MINUTE, isr_of, leader_of, make_topic

ID = "teller"


class Transaction:
    """One of the transactional id, at the broker that coordinates it."""

    def __init__(self, cluster: RunningCluster, coordinator: int, transactional_id: str = ID) -> None:
        self._cluster, self.coordinator, self.id = cluster, coordinator, transactional_id
        self.producer: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}

    def init(self) -> ErrorCode:
        answer = self._cluster.answer_of(
            self.coordinator,
            "init_producer_id",
            4,
            transactional_id=self.id,
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
            v3_and_below_transactional_id=self.id,
            v3_and_below_topics=[{"name": name, "partitions": [0]} for name in topics],
            v3_and_below_producer_id=self.producer["producer_id"],
            v3_and_below_producer_epoch=self.producer["producer_epoch"],
        )
        for topic in answer.results_by_topic_v3_and_below:
            assert [one.partition_error_code for one in topic.results_by_partition] == [ErrorCode.none]

    def commit(self) -> None:
        """A coordinator that loads what it knows anew meanwhile does not say whether it has decided: it is asked again."""
        fields = {"transactional_id": self.id, "committed": True, **self.producer}
        while True:
            error = self._cluster.answer_of(self.coordinator, "end_txn", 3, **fields).error_code
            if error not in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
                break
            self._cluster.rest(100)
        assert error is ErrorCode.none

    @property
    def status(self) -> str:
        found = self._cluster.core(self.coordinator).transactions.coordinator.ids.metadata(self.id)
        assert found is not None
        return found.status.name


def coordinator_of(cluster: RunningCluster, transactional_id: str = ID) -> int:
    def found() -> Any:
        return cluster.answer_of(0, "find_coordinator", 3, key=transactional_id, key_type=1)

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


class Deletion:
    """A transaction is open in a topic that is being deleted for as long as a broker with a replica of it is dead."""

    def __init__(self, *, coordinator_has_it: bool = False, size: int = 3) -> None:
        self.cluster = cluster = RunningCluster(
            size, transaction_state_log_replication_factor=str(size), transaction_state_log_min_isr="1"
        )
        ids = (f"{ID}-{number}" for number in range(50))
        self.id = next(one for one in ids if coordinator_of(cluster, one) != cluster.controller)
        self.coordinator = coordinator_of(cluster, self.id)
        others = [node_id for node_id in range(size) if node_id not in (self.coordinator, cluster.controller)]
        self.dies, self.stays, *_ = (*others, cluster.controller)
        replicas = (self.stays, self.coordinator, self.dies) if coordinator_has_it else (self.stays, self.dies)
        make_topic(cluster, replicas, name="goes")
        make_topic(cluster, (self.stays,), name="stays")
        self.transaction = Transaction(cluster, self.coordinator, self.id)
        self.transaction.begin("goes", "stays")

    def begin(self) -> None:
        self.cluster.submit(Create(f"{paths.DELETE_TOPICS}/goes"))

    def kill_one(self) -> None:
        self.cluster.nodes[self.dies].die(power=False)
        self.cluster.until(lambda: self.cluster.ensemble.tree.node(paths.broker(self.dies)) is None)

    def commit(self) -> None:
        self.transaction.commit()
        self.cluster.until(lambda: self.transaction.status == "COMPLETE_COMMIT")
        assert self.transaction.init() is ErrorCode.none
        assert self.cluster.ensemble.tree.node(paths.topic("goes")) is not None


def test_deletion_that_waits_for_a_dead_broker_keeps_no_transaction_from_its_end():
    """The controller names -2 as its leader at once; its znode goes when the dead broker has come back and deleted its replica."""
    deletion = Deletion()
    deletion.kill_one()
    deletion.begin()
    deletion.cluster.until(lambda: deletion.cluster.core(deletion.coordinator).topics.named("goes") is None)
    deletion.commit()


def test_deletion_that_another_controller_takes_over_and_halts_keeps_no_transaction_from_its_end():
    """The coordinator has a replica, which nobody tells it to delete as long as another one is on a dead broker."""
    deletion = Deletion(coordinator_has_it=True, size=4)
    cluster = deletion.cluster
    deletion.kill_one()
    controller = next(
        one for one in range(4) if one != deletion.dies and cluster.core(one).metadata.controller.is_active
    )
    cluster.nodes[controller].die(power=False)
    deletion.begin()
    partition = cluster.partition(deletion.coordinator, "goes")
    cluster.until(lambda: partition.leadership.leader < 0)
    assert partition.is_readable
    deletion.commit()


def test_deletion_that_a_coordinator_finds_when_it_has_started_keeps_no_transaction_from_its_end():
    """A controller tells a broker that has started of no topic that is being deleted."""
    deletion = Deletion()
    cluster = deletion.cluster
    deletion.kill_one()
    deletion.begin()
    cluster.until(lambda: cluster.core(deletion.coordinator).topics.named("goes") is None)
    cluster.nodes[deletion.coordinator].die(power=False)
    cluster.start_served(deletion.coordinator)

    def coordinator() -> int:
        answer = cluster.answer_of(deletion.stays, "find_coordinator", 3, key=deletion.id, key_type=1)
        return answer.node_id if answer.error_code is ErrorCode.none else -1

    def is_known() -> bool:
        found = coordinator()
        return found >= 0 and cluster.core(found).transactions.error(deletion.id) is ErrorCode.none

    cluster.until(is_known)
    deletion.transaction.coordinator = coordinator()
    deletion.commit()


def test_deletion_that_a_coordinator_misses_without_zookeeper_keeps_no_transaction_from_its_end():
    """Nobody tells it afterwards."""
    cluster = RunningCluster(3, transaction_state_log_replication_factor="1", transaction_state_log_min_isr="1")
    ids = (f"{ID}-{number}" for number in range(50))
    transactional_id = next(one for one in ids if coordinator_of(cluster, one) != cluster.controller)
    coordinator = coordinator_of(cluster, transactional_id)
    leader = next(node_id for node_id in range(3) if node_id not in (coordinator, cluster.controller))
    make_topic(cluster, (leader,), name="goes")
    make_topic(cluster, (leader,), name="stays")
    transaction = Transaction(cluster, coordinator, transactional_id)
    transaction.begin("goes", "stays")
    before = cluster.epoch(coordinator)
    cluster.ensemble.cut_off(cluster.nodes[coordinator].name, cluster.queue.now_ms + 9_000)
    cluster.until(lambda: cluster.ensemble.tree.node(paths.broker(coordinator)) is None)
    cluster.submit(Create(f"{paths.DELETE_TOPICS}/goes"))
    cluster.until(lambda: cluster.ensemble.tree.node(paths.topic("goes")) is None)
    cluster.until(lambda: cluster.epoch(coordinator) > before)
    cluster.until(lambda: cluster.core(coordinator).transactions.error(transactional_id) is ErrorCode.none)
    assert cluster.core(coordinator).topics.named("goes") is None
    transaction.commit()
    cluster.until(lambda: transaction.status == "COMPLETE_COMMIT")


def test_leader_that_knows_no_such_topic_keeps_no_transaction_from_its_end():
    """What the coordinator was told last is older than the deletion."""
    cluster = RunningCluster(3)
    coordinator = coordinator_of(cluster)
    leader = next(node_id for node_id in range(3) if node_id != coordinator)
    for name in ("goes", "stays"):
        make_topic(cluster, (leader,), name=name)
    transaction = Transaction(cluster, coordinator)
    transaction.begin("goes", "stays")
    topics = cluster.core(coordinator).metadata.shared_topics
    topic = topics.named("goes")
    told = topic.topic_id, {0: topic.partitions[0].leadership}
    cluster.submit(Create(f"{paths.DELETE_TOPICS}/goes"))
    cluster.until(lambda: cluster.ensemble.tree.node(paths.topic("goes")) is None)
    cluster.until(lambda: all(core.topics.named("goes") is None for core in cluster.brokers.values()))
    topics.learn("goes", *told)
    transaction.commit()
    cluster.until(lambda: transaction.status == "COMPLETE_COMMIT")


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

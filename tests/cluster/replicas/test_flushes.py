"""Followers of a topic with flush.messages=1: a leader hears of what is on their disks, and nobody else waits for a disk."""

from __future__ import annotations

import pytest

from harness.cluster_in_memory import ClusterInMemory
from harness.running_cluster import RunningCluster
from oncelog.broker import slices
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.cluster.replicas.replicas import ReplicaOrder
from oncelog.cluster.zookeeper.znodes import paths
from oncelog.coordination import Promise, start
from oncelog.replication import LeaderAndIsrState
from oncelog.replication.follower import HELD_BACK_MS
from oncelog.wire import ErrorCode
from tests.cluster.held_disk import HeldDisk
from tests.cluster.in_memory import MINUTE, TOPIC, make_topic, produce, produced

LARGE = b"x" * 100_000
"""More than the write-ahead log takes, which is on another disk."""
NONE = ErrorCode.none


class Flushed:
    """One broker leads two partitions, another one follows, and has them on two disks. The controller is the third."""

    def __init__(self) -> None:
        self.cluster = RunningCluster(
            directories=("/home", "/slow"), replica_lag_time_max_ms="60000", auto_leader_rebalance_enable="false"
        )
        self.leader, self.follower = (one for one in self.cluster.brokers if one != self.cluster.controller)
        both = self.leader, self.follower
        make_topic(self.cluster, both, both, flush_messages="1", min_insync_replicas="2")
        (self.slow,) = (index for index in (0, 1) if self.followed(index).directory.path == "/slow")
        self.quick = 1 - self.slow
        for index in (0, 1):
            assert produced(self.cluster, self.leader, b"first", index=index) is NONE
        self.cluster.until(lambda: all(self.followed(index).log.durability.is_complete for index in (0, 1)))
        self.disk = HeldDisk(self.cluster.disks[self.follower], "/slow/")

    def followed(self, index: int) -> Partition:
        return self.cluster.partition(self.follower, TOPIC, index)

    def led(self, index: int) -> Partition:
        return self.cluster.partition(self.leader, TOPIC, index)

    def write_to_slow(self) -> None:
        """The follower has a second record of the one, and its disk has not."""
        self.asked = produce(self.cluster, self.leader, LARGE, index=self.slow)
        self.cluster.until(lambda: self.followed(self.slow).log.log_end_offset == 2)

    @property
    def is_acknowledged(self) -> bool:
        return self.asked.came and self.asked.message.responses[0].partition_responses[0].error_code is NONE


@pytest.fixture
def flushed() -> Flushed:
    return Flushed()


def within(cluster: ClusterInMemory, before_ms: float) -> float:
    return cluster.queue.now_ms - before_ms


def test_others_are_followed_while_the_disk_of_one_takes_its_time(flushed: Flushed) -> None:
    flushed.write_to_slow()
    for _ in range(10):
        before_ms = flushed.cluster.queue.now_ms
        assert produced(flushed.cluster, flushed.leader, b"another", index=flushed.quick) is NONE
        assert within(flushed.cluster, before_ms) < 2 * HELD_BACK_MS
    flushed.cluster.rest(5_000)
    assert not flushed.asked.came
    assert flushed.led(flushed.slow).log.high_watermark == 1
    before_ms = flushed.cluster.queue.now_ms
    flushed.disk.go_on()
    flushed.cluster.until(lambda: flushed.is_acknowledged)
    assert within(flushed.cluster, before_ms) < 2 * HELD_BACK_MS


def test_who_is_to_lead_does_so_while_the_disk_of_one_takes_its_time(flushed: Flushed) -> None:
    flushed.write_to_slow()
    flushed.cluster.nodes[flushed.leader].die(power=False)
    for index in (flushed.slow, flushed.quick):
        flushed.cluster.until(lambda index=index: leader_in_zookeeper(flushed.cluster, index) == flushed.follower)
    before_ms = flushed.cluster.queue.now_ms
    for index in (flushed.slow, flushed.quick):
        flushed.cluster.until(lambda index=index: flushed.followed(index).role is ReplicaRole.LEADER)
    assert within(flushed.cluster, before_ms) < 100
    flushed.cluster.start_served(flushed.leader)
    flushed.cluster.until(lambda: flushed.led(flushed.slow).log.log_end_offset == 2)
    flushed.cluster.rest(1_000)
    assert flushed.followed(flushed.slow).log.high_watermark == 1, "it has it on no disk yet"
    flushed.disk.go_on()
    flushed.cluster.until(lambda: flushed.followed(flushed.slow).log.high_watermark == 2)


def leader_in_zookeeper(cluster: RunningCluster, index: int) -> int:
    state = cluster.state(TOPIC, index)
    return -1 if state is None else state.leader


def test_end_is_named_when_it_is_durable_also_by_who_follows_anew_before_anything_is_flushed(
    flushed: Flushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order may come while an answer is being carried out."""
    monkeypatch.setattr(slices, "SLICE_MS", 0)
    flushed.write_to_slow()
    orders = [order_again(flushed, broker) for broker in (flushed.leader, flushed.follower)]
    assert not flushed.disk.holds
    flushed.cluster.rest(1_000)
    assert [order.value for order in orders] == [[NONE], [NONE]]
    assert flushed.led(flushed.slow).log.high_watermark == 1
    flushed.disk.go_on()
    flushed.cluster.until(lambda: flushed.is_acknowledged)


def order_again(flushed: Flushed, broker: int) -> Promise[list[ErrorCode]]:
    """The same leader, under the next epoch."""
    led, both = flushed.led(flushed.slow), (flushed.leader, flushed.follower)
    state = LeaderAndIsrState(flushed.leader, 1, both, 100, 1, both)
    membership = flushed.cluster.core(broker).metadata.membership
    assert membership is not None
    return start(membership.replicas.become([ReplicaOrder(TOPIC, led.topic_id, flushed.slow, state)], {}))


def test_replica_is_deleted_while_it_is_flushed(flushed: Flushed) -> None:
    flushed.write_to_slow()
    flushed.cluster.until(lambda: flushed.disk.holds)
    before_ms = flushed.cluster.queue.now_ms
    answer = flushed.cluster.answer_of(
        flushed.cluster.controller, "delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE
    )
    assert answer.responses[0].error_code is NONE
    flushed.cluster.until(lambda: flushed.cluster.ensemble.tree.node(paths.topic(TOPIC)) is None)
    assert within(flushed.cluster, before_ms) < 1_000
    flushed.disk.go_on()
    both = flushed.leader, flushed.follower
    make_topic(flushed.cluster, both, both, flush_messages="1", min_insync_replicas="2")
    assert [produced(flushed.cluster, flushed.leader, b"anew", index=index) for index in (0, 1)] == [NONE, NONE]


def test_disk_that_fails_while_it_flushes_takes_no_other_along(flushed: Flushed) -> None:
    flushed.write_to_slow()
    flushed.cluster.until(lambda: flushed.disk.holds)
    flushed.cluster.disks[flushed.follower].failing.add("/slow")
    flushed.disk.go_on()
    flushed.cluster.until(lambda: flushed.followed(flushed.slow).is_offline)
    assert produced(flushed.cluster, flushed.leader, b"another", index=flushed.quick) is NONE
    assert not flushed.asked.came
    assert flushed.led(flushed.slow).log.high_watermark == 1


def test_partition_that_moves_to_another_disk_while_it_is_flushed_is_acknowledged_when_that_is_over(
    flushed: Flushed,
) -> None:
    """It is copied beside the flush, and the switch waits for that."""
    flushed.write_to_slow()
    dirs = [{"path": "/home", "topics": [{"name": TOPIC, "partitions": [flushed.slow]}]}]
    answer = flushed.cluster.answer_of(flushed.follower, "alter_replica_log_dirs", 2, dirs=dirs)
    assert answer.results[0].partitions[0].error_code is NONE
    flushed.cluster.rest(1_000)
    assert flushed.led(flushed.slow).log.high_watermark == 1
    flushed.disk.go_on()
    flushed.cluster.until(lambda: flushed.is_acknowledged)
    flushed.cluster.until(lambda: flushed.followed(flushed.slow).directory.path == "/home")
    assert produced(flushed.cluster, flushed.leader, LARGE, index=flushed.slow) is NONE

"""AlterPartition (KIP-497): what a leader is told, check by check, in Kafka's order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.cluster.controller.actions import LeaderAndIsrRequest, UpdateMetadataRequest
from oncelog.cluster.controller.alter_partition import WantedIsr, alter_partitions, broker_epoch_problem, change_isrs
from oncelog.cluster.controller.brokers import shut_down
from oncelog.cluster.controller.values import LeaderRecoveryState
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode

T = ("t", 0)
RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


@pytest.fixture
def ask(cluster, create):
    create("t", (1, 2, 3))

    def alter(wanted: WantedIsr, version: int = 3):
        return cluster.run(alter_partitions(cluster.context, 1, {T: wanted}, version))[T]

    return alter


def test_change_is_written_told_to_all_and_answered_with_the_next_partition_epoch(cluster, ask):
    state = ask(WantedIsr(0, (1, 2), RECOVERED, 0))
    assert state == replace(cluster.state("t"), isr=(1, 2), leader_epoch=0, partition_epoch=1)
    assert [one.broker_id for one in cluster.requests(UpdateMetadataRequest)] == [1, 2, 3]
    assert not cluster.requests(LeaderAndIsrRequest), "the epoch of the leader is the same"
    cluster.check()


def test_request_that_comes_twice_is_answered_as_the_first_one(cluster, ask):
    """tryProcessAlterPartition: this check "must be done before fencing based on partition epoch to maintain idempotency"."""
    wanted = WantedIsr(0, (1, 2), RECOVERED, 0)
    assert ask(wanted) == ask(wanted)
    assert cluster.state("t").partition_epoch == 1


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (WantedIsr(1, (1,), RECOVERED, 0), ErrorCode.not_controller),
        (WantedIsr(0, (1,), RECOVERED, 1), ErrorCode.not_controller),
        (WantedIsr(-1, (1,), RECOVERED, 0), ErrorCode.fenced_leader_epoch),
        (WantedIsr(0, (1,), RECOVERED, -1), ErrorCode.invalid_update_version),
        (WantedIsr(0, (1, 2), RECOVERING, 0), ErrorCode.invalid_request),
        (WantedIsr(0, (1,), RECOVERING, 0), ErrorCode.invalid_request),
        (WantedIsr(0, (1, 9), RECOVERED, 0), ErrorCode.ineligible_replica),
    ],
)
def test_what_is_wrong_is_told(cluster, ask, wanted, error):
    before = cluster.state("t")
    assert ask(wanted) is error
    assert cluster.state("t") == before


def test_replica_that_shuts_down_is_ineligible_and_old_leaders_are_told_otherwise(cluster, ask):
    """KIP-841: INELIGIBLE_REPLICA since AlterPartition v2; before it OPERATION_NOT_ATTEMPTED."""
    ask(WantedIsr(0, (1, 2), RECOVERED, 0))
    cluster.run(shut_down(cluster.context, 3, cluster.registered[3].epoch))
    state = cluster.state("t")
    wanted = WantedIsr(state.leader_epoch, (1, 2, 3), RECOVERED, state.partition_epoch)
    assert ask(wanted, 2) is ErrorCode.ineligible_replica
    assert ask(wanted, 1) is ErrorCode.operation_not_attempted


def test_broker_that_has_started_since_it_had_caught_up_is_ineligible(cluster, ask):
    """KIP-903; a leader that does not know under which epoch that was says so, as Kafka's do over ZooKeeper."""
    ask(WantedIsr(0, (1, 2), RECOVERED, 0))
    epoch = cluster.context.brokers[3].epoch
    for epochs, error in (
        ({1: -1, 2: -1, 3: epoch - 1}, ErrorCode.ineligible_replica),
        ({3: epoch + 1}, ErrorCode.ineligible_replica),
    ):
        assert ask(WantedIsr(0, (1, 2, 3), RECOVERED, 1, epochs)) is error
    assert ask(WantedIsr(0, (1, 2, 3), RECOVERED, 1, {1: -1, 2: -1, 3: epoch})).isr == (1, 2, 3)


def test_partition_that_is_unknown_is_told(cluster):
    wanted = WantedIsr(0, (1,), RECOVERED, 0)
    assert cluster.run(alter_partitions(cluster.context, 1, {T: wanted}, 3)) == {
        T: ErrorCode.unknown_topic_or_partition
    }


def test_version_that_somebody_else_wrote_is_refused_and_learned(cluster, ask):
    cluster.alter_outside(T, (1, 3))
    wanted = WantedIsr(0, (1, 2), RECOVERED, 0)
    assert ask(wanted) is ErrorCode.invalid_update_version
    assert cluster.context.leaders[T].isr == (1, 3)
    assert ask(replace(wanted, partition_epoch=1)) == cluster.state("t")


def test_change_that_was_written_before_the_connection_broke_is_answered_as_done(cluster, ask):
    """Asked again behind that, ZooKeeper has another version, which is this one's own."""

    def write_and_forget(write):
        cluster.before_write = lambda _: None
        assert isinstance(cluster.carry_out(write), int)
        return ZooKeeperError.BAD_VERSION

    cluster.before_write = write_and_forget
    assert ask(WantedIsr(0, (1, 2), RECOVERED, 0)) == cluster.state("t")
    assert cluster.state("t").isr == (1, 2)
    cluster.check()


def test_write_that_fails_is_told_as_unknown(cluster, ask):
    cluster.before_write = lambda _: ZooKeeperError.NO_NODE
    assert ask(WantedIsr(0, (1, 2), RECOVERED, 0)) is ErrorCode.unknown_server_error


def test_broker_of_another_epoch_is_refused_as_a_whole(cluster):
    epoch = cluster.registered[1].epoch
    assert broker_epoch_problem(cluster.context, 1, epoch) is None
    assert broker_epoch_problem(cluster.context, 1, epoch - 1) is ErrorCode.stale_broker_epoch
    assert broker_epoch_problem(cluster.context, 9, epoch) is ErrorCode.stale_broker_epoch


def test_change_that_an_old_leader_wrote_itself_is_told_to_all(cluster, ask):
    cluster.alter_outside(T, (1, 3))
    cluster.sent.clear()
    cluster.run(change_isrs(cluster.context, [T]))
    cluster.check()
    assert cluster.told[2].metadata[T].state.isr == (1, 3)

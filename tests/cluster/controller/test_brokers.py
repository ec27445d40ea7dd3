"""Brokers that come, go, and shut down, and log directories that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.cluster.controller.actions import (
    LeaderAndIsrRequest,
    SetPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from oncelog.cluster.controller.brokers import (
    STOPPED_AT_ONCE_MAX,
    ask_for_failed_directories,
    change_brokers,
    modify_broker,
    shut_down,
)
from oncelog.cluster.controller.partitions import ELECTED_AT_ONCE_MAX, LED_AGAIN_AT_ONCE_MAX, bring_online
from oncelog.cluster.controller.values import BrokerEndpoint, LeaderRecoveryState
from oncelog.cluster.zookeeper.session import ZooKeeperError
from oncelog.wire import ErrorCode


def notice(cluster) -> None:
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    cluster.check()


def test_partitions_of_a_broker_that_died_are_led_by_the_next_in_sync_with_one_write_each(cluster, create):
    create("t", *[(1, 2, 3)] * 10)
    cluster.writes.clear()
    cluster.kill(1)
    notice(cluster)
    assert {cluster.state("t", number).leader for number in range(10)} == {2}
    assert {cluster.state("t", number).isr for number in range(10)} == {(2, 3)}
    assert {cluster.state("t", number).leader_epoch for number in range(10)} == {1}
    assert len(cluster.writes) == 10
    first = cluster.requests(LeaderAndIsrRequest, 2)[0]
    assert len(first.partitions) == 10


def test_follower_that_died_leaves_the_in_sync_replicas_and_the_leader_is_told(cluster, create):
    create("t", (1, 2, 3))
    cluster.kill(3)
    notice(cluster)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 2))
    assert cluster.told[1].hosted["t", 0].state.isr == (1, 2)


def test_last_in_sync_replica_stays_and_leads_again_when_it_is_back(cluster, create):
    create("t", (1, 2))
    for broker_id in (2, 1):
        cluster.kill(broker_id)
        notice(cluster)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (-1, (1,))
    cluster.start(2)
    notice(cluster)
    assert cluster.state("t").leader == -1, "2 is not in sync"
    cluster.start(1)
    notice(cluster)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1,))


def test_unclean_election_waits_for_the_setting_of_the_topic(cluster, create):
    create("t", (1, 2))
    cluster.kill(2)
    notice(cluster)
    cluster.kill(1)
    cluster.start(2)
    notice(cluster)
    assert cluster.state("t").leader == -1
    cluster.unclean.add("t")
    cluster.run(bring_online(cluster.context, "t"))
    state = cluster.state("t")
    assert (state.leader, state.isr, state.recovery_state) == (2, (2,), LeaderRecoveryState.RECOVERING)


def test_broker_that_was_restarted_unseen_is_taken_for_gone_and_back(cluster, create):
    """processBrokerChange: a broker whose epoch has grown has bounced; it lost what it was told."""
    create("t", (1, 2, 3))
    cluster.start(1)
    notice(cluster)
    assert cluster.state("t").leader == 2
    assert cluster.told[1].hosted["t", 0].state.leader == 2
    assert ("t", 0) in cluster.told[1].metadata


def test_started_broker_hears_of_every_partition_and_the_others_of_it(cluster, create):
    create("t", (1, 2))
    cluster.start(4)
    notice(cluster)
    assert [len(one.partitions) for one in cluster.requests(UpdateMetadataRequest, 4)] == [1]
    assert [len(one.partitions) for one in cluster.requests(UpdateMetadataRequest, 1)] == [0]
    assert cluster.told[1].known_brokers == {1, 2, 3, 4}


def test_write_that_meets_another_version_reads_and_decides_anew(cluster, create):
    create("t", (1, 2, 3))
    # An old leader has taken 2 out, and nobody has said so.
    cluster.alter_outside(("t", 0), (1, 3))
    cluster.kill(1)
    notice(cluster)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (3, (3,))


def test_partition_that_cannot_be_written_fails_alone(cluster, create):
    create("t", (1, 2), (1, 3))

    def refuse(write):
        is_first = isinstance(write, SetPartitionState) and write.partition == ("t", 0)
        return ZooKeeperError.NO_NODE if is_first else None

    cluster.before_write = refuse
    cluster.kill(1)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert cluster.state("t", 0).leader == 1
    assert cluster.state("t", 1).leader == 3


def test_broker_that_shuts_down_gives_away_what_it_leads_and_stops_to_follow(cluster, create):
    create("t", (1, 2, 3), (2, 1, 3), (1,))
    error, remaining = cluster.run(shut_down(cluster.context, 1, cluster.registered[1].epoch))
    assert (error, remaining) == (ErrorCode.none, [])
    assert (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (2, (2, 3))
    assert (cluster.state("t", 1).leader, cluster.state("t", 1).isr) == (2, (2, 3))
    assert cluster.state("t", 2).leader == 1, "nobody else has it"
    stopped = cluster.requests(StopReplicaRequest, 1)[0].partitions
    assert [(one.partition, one.delete) for one in stopped] == [(("t", 1), False)]


@pytest.mark.parametrize("epochs_off", [None, -1, 1])
def test_broker_that_shuts_down_under_another_epoch_than_its_own_leads_on(cluster, create, epochs_off):
    """KIP-380. Kafka's controller takes -1 and an epoch that is ahead, too."""
    create("t", (1, 2, 3))
    epoch = -1 if epochs_off is None else cluster.registered[1].epoch + epochs_off
    assert cluster.run(shut_down(cluster.context, 1, epoch)) == (ErrorCode.stale_broker_epoch, [])
    assert cluster.state("t", 0).leader == 1


def test_leaders_of_a_broker_that_shuts_down_change_in_groups_the_next_when_brokers_are_done_with_the_last(
    cluster, create
):
    """Between the first and the last broker that hears of it nobody can write to a partition."""
    create("t", *[(1, 2, 3)] * (2 * ELECTED_AT_ONCE_MAX + 1))
    cluster.actions.clear()
    cluster.run(shut_down(cluster.context, 1, cluster.registered[1].epoch))
    assert cluster.actions == ["write", "send", *["write", "await answers", "send"] * 2, "await answers"]
    sizes = [len(request.partitions) for request in cluster.requests(LeaderAndIsrRequest, 2)]
    assert sizes == [ELECTED_AT_ONCE_MAX, ELECTED_AT_ONCE_MAX, 1]
    assert {cluster.state("t", number).leader for number in range(2 * ELECTED_AT_ONCE_MAX + 1)} == {2}
    cluster.check()


def test_broker_that_shuts_down_ceases_to_follow_in_groups_the_next_when_leaders_know_of_the_last(cluster, create):
    create("t", *[(2, 1, 3)] * (STOPPED_AT_ONCE_MAX + 1))
    cluster.actions.clear()
    cluster.run(shut_down(cluster.context, 1, cluster.registered[1].epoch))
    group = ["await answers", "send", "write", "send"]
    assert cluster.actions == [*group, *group, "await answers"]
    assert {cluster.state("t", number).isr for number in range(STOPPED_AT_ONCE_MAX + 1)} == {(2, 3)}


def test_partitions_without_a_leader_wait_for_no_broker(cluster, create):
    create("t", *[(1, 2, 3)] * (LED_AGAIN_AT_ONCE_MAX + 1))
    cluster.kill(1)
    cluster.actions.clear()
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert "await answers" not in cluster.actions
    sizes = [len(request.partitions) for request in cluster.requests(LeaderAndIsrRequest, 2)]
    assert sizes[:2] == [LED_AGAIN_AT_ONCE_MAX, 1]
    cluster.check()


def test_broker_that_shuts_down_hears_what_nobody_else_can_lead(cluster, create):
    create("t", (1, 2))
    cluster.kill(2)
    notice(cluster)
    _, remaining = cluster.run(shut_down(cluster.context, 1, cluster.registered[1].epoch))
    assert remaining == [("t", 0)]


def test_replicas_of_a_failed_log_directory_give_up_their_leaders(cluster, create):
    """KIP-112: the controller sends LeaderAndIsr, and KAFKA_STORAGE_ERROR says which replicas are offline."""
    create("t", (1, 2), (1, 2))
    cluster.failed_replicas.add((1, ("t", 0)))
    cluster.run(ask_for_failed_directories(cluster.context, [1]))
    cluster.check()
    assert (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (2, (2,))
    assert (cluster.state("t", 1).leader, cluster.state("t", 1).isr) == (1, (1, 2))
    assert cluster.told[2].metadata["t", 0].offline_replicas == (1,)


def test_broker_that_listens_elsewhere_is_told_to_everybody(cluster):
    cluster.sent.clear()
    moved = replace(cluster.registered[1], endpoints=(BrokerEndpoint("PLAINTEXT", "new", 9092, 0),))
    cluster.run(modify_broker(cluster.context, moved))
    assert [one.broker_id for one in cluster.requests(UpdateMetadataRequest)] == [1, 2, 3]
    assert moved in cluster.requests(UpdateMetadataRequest, 2)[0].live_brokers
    cluster.sent.clear()
    cluster.run(modify_broker(cluster.context, moved))
    assert not cluster.sent


def test_broker_that_has_started_again_elsewhere_is_told_everything_whichever_of_its_changes_is_seen_first(
    cluster, create
):
    """After a lost connection ZooKeeper tells of a znode that has changed before it tells of the children of its parent."""
    create("t", (1, 2))
    cluster.kill(1)
    cluster.start(1)
    moved = replace(cluster.registered[1], endpoints=(BrokerEndpoint("PLAINTEXT", "new", 9092, 0),))
    cluster.registered[1] = moved
    cluster.run(modify_broker(cluster.context, moved))
    notice(cluster)
    assert ("t", 0) in cluster.told[1].hosted
    assert cluster.context.brokers[1] == moved

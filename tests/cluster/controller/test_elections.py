"""The elections of Kafka 3.9 (Election.scala), rule by rule."""

from __future__ import annotations

from dataclasses import replace

from oncelog.cluster.controller.elections import (
    controlled_shutdown_election,
    needs_unclean_election,
    offline_election,
    preferred_election,
    reassignment_election,
    without_replica,
)
from oncelog.cluster.controller.values import LeaderAndIsr, LeaderRecoveryState

LED = LeaderAndIsr(1, 5, (1, 2, 3), LeaderRecoveryState.RECOVERED, 9, 4)


def online(*broker_ids: int):
    return lambda broker_id: broker_id in broker_ids


def test_first_live_replica_in_sync_leads_after_the_leader_and_takes_the_live_ones_with_it():
    """offlinePartitionLeaderElection: "assignment.find(id => liveReplicas.contains(id) && isr.contains(id))"."""
    election = offline_election((1, 3, 2, 4), LED, online(2, 3, 4), allow_unclean=False)
    assert election.elected == replace(LED, leader=3, leader_epoch=6, isr=(2, 3))
    assert election.recipients == (3, 2, 4)


def test_nobody_leads_while_none_in_sync_lives_and_unclean_election_is_not_allowed():
    assert offline_election((1, 2, 3, 4), LED, online(4), allow_unclean=False).elected is None
    assert needs_unclean_election(LED, online(4))


def test_unclean_leader_is_alone_in_sync_and_recovering():
    """KIP-704: a leader that was elected uncleanly begins with leader_recovery_state RECOVERING."""
    election = offline_election((1, 2, 3, 5, 4), LED, online(4, 5), allow_unclean=True)
    expected = replace(LED, leader=5, leader_epoch=6, isr=(5,), recovery_state=LeaderRecoveryState.RECOVERING)
    assert election.elected == expected


def test_clean_election_goes_first_where_both_are_possible_and_keeps_the_recovery_state():
    """leaderForOffline: "Elect a new leader but keep the previous leader recovery state"."""
    led = replace(LED, recovery_state=LeaderRecoveryState.RECOVERING)
    election = offline_election((4, 2), led, online(2, 4), allow_unclean=True)
    assert election.elected == replace(led, leader=2, leader_epoch=6, isr=(2,))


def test_nobody_leads_uncleanly_while_no_replica_lives():
    assert offline_election((1, 2), LED, online(), allow_unclean=True).elected is None


def test_reassigned_partition_is_led_by_the_first_target_replica_in_sync_and_keeps_its_in_sync_replicas():
    election = reassignment_election((4, 3, 2), LED, online(2, 3, 4))
    assert election.elected == replace(LED, leader=3, leader_epoch=6)
    assert election.recipients == (4, 3, 2)
    assert reassignment_election((4,), LED, online(4)).elected is None


def test_preferred_replica_leads_if_it_lives_and_is_in_sync():
    assert preferred_election((2, 1, 3), LED, online(1, 2)).elected == replace(LED, leader=2, leader_epoch=6)
    assert preferred_election((2, 1, 3), LED, online(1)).elected is None
    assert preferred_election((4, 1), LED, online(1, 4)).elected is None


def test_broker_that_shuts_down_gives_its_leaders_away_and_leaves_the_in_sync_replicas():
    """controlledShutdownPartitionLeaderElection; the broker itself is among those that are told."""
    election = controlled_shutdown_election((1, 2, 3), LED, online(1, 2, 3), {1})
    assert election.elected == replace(LED, leader=2, leader_epoch=6, isr=(2, 3))
    assert election.recipients == (1, 2, 3)
    assert controlled_shutdown_election((1,), replace(LED, isr=(1,)), online(1), {1}).elected is None


def test_replica_that_goes_offline_leaves_the_in_sync_ones_unless_it_is_the_last():
    """doRemoveReplicasFromIsr: "if (leaderAndIsr.isr.size == 1) leaderAndIsr.isr"; a leader that goes leaves NoLeader."""
    assert without_replica(LED, 3) == replace(LED, leader_epoch=6, isr=(1, 2))
    assert without_replica(LED, 1) == replace(LED, leader=-1, leader_epoch=6, isr=(2, 3))
    alone = replace(LED, isr=(1,))
    assert without_replica(alone, 1) == replace(alone, leader=-1, leader_epoch=6)

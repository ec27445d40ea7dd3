"""Reassignments step by step (KIP-455; the table of KafkaController.onPartitionReassignment)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.cluster.controller.actions import StopReplicaRequest
from oncelog.cluster.controller.alter_partition import WantedIsr, alter_partitions, complete_reassignments
from oncelog.cluster.controller.brokers import change_brokers
from oncelog.cluster.controller.reassignment import (
    NO_ERROR,
    NO_SUCH_PARTITION,
    NOTHING_UNDER_WAY,
    listed_reassignments,
    reassign,
    reassign_from_znode,
)
from oncelog.cluster.controller.topics import queue_deletions
from oncelog.cluster.controller.values import LeaderRecoveryState, ReplicaAssignment
from oncelog.wire import ErrorCode

T = ("t", 0)


def expand(cluster, *isr: int) -> None:
    state = cluster.states[T]
    wanted = WantedIsr(state.leader_epoch, isr, LeaderRecoveryState.RECOVERED, state.partition_epoch)
    results = cluster.run(alter_partitions(cluster.context, state.leader, {T: wanted}, 3))
    assert not isinstance(results[T], ErrorCode)
    cluster.run(complete_reassignments(cluster.context, results))


def test_partition_moves_by_the_states_of_kafkas_table(cluster, create):
    """{1,2,3} to {4,5,6}: adding, in sync, another leader, the others out of sync, the others gone."""
    create("t", (1, 2, 3))
    cluster.start(4, 5, 6)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert cluster.run(reassign(cluster.context, {T: (4, 5, 6)})) == {T: NO_ERROR}
    under_way = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert cluster.topics["t"].partitions[0] == under_way
    assert listed_reassignments(cluster.context, None) == {T: under_way}
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 2, 3))
    assert cluster.told[4].hosted[T].is_new
    assert not cluster.told[2].hosted[T].is_new
    expand(cluster, 1, 2, 3, 4, 5)
    assert cluster.topics["t"].partitions[0] == under_way
    expand(cluster, 1, 2, 3, 4, 5, 6)
    assert cluster.topics["t"].partitions[0] == ReplicaAssignment((4, 5, 6))
    assert (cluster.state("t").leader, cluster.state("t").isr) == (4, (4, 5, 6))
    assert not listed_reassignments(cluster.context, None)
    assert not any(T in cluster.told[broker_id].hosted for broker_id in (1, 2, 3))
    assert cluster.requests(StopReplicaRequest, 1)[-1].partitions[0].delete
    cluster.check()


def test_leader_that_stays_learns_of_its_replicas_by_a_new_epoch(cluster, create):
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (1, 3)}))
    assert cluster.state("t").leader_epoch == 1
    expand(cluster, 1, 2, 3)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 3))
    assert cluster.told[1].hosted[T].assignment == ReplicaAssignment((1, 3))


def test_reassignment_that_is_cancelled_removes_what_was_added(cluster, create):
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (3, 1)}))
    assert cluster.run(reassign(cluster.context, {T: None})) == {T: NO_ERROR}
    assert set(cluster.topics["t"].partitions[0].replicas) == {1, 2}
    assert T not in cluster.told[3].hosted
    assert T not in cluster.context.being_reassigned
    cluster.check()


def test_reassignment_that_supplants_another_stops_what_it_does_not_want(cluster, create):
    create("t", (1,))
    cluster.run(reassign(cluster.context, {T: (2,)}))
    cluster.run(reassign(cluster.context, {T: (3,)}))
    assert cluster.topics["t"].partitions[0] == ReplicaAssignment((3, 1), (3,), (1,))
    assert T not in cluster.told[2].hosted
    cluster.check()


def test_impossible_targets_are_refused_in_kafkas_words(cluster, create):
    create("t", (1, 2))

    def refused(*target: int) -> str:
        result = cluster.run(reassign(cluster.context, {T: target}))[T]
        assert result.code is ErrorCode.invalid_replica_assignment
        return result.message

    assert refused() == "Empty replica list specified in partition reassignment."
    assert refused(1, 1) == "Duplicate replica ids in partition reassignment replica list: List(1, 1)"
    assert refused(1, -1) == "Invalid broker id in replica list: List(1, -1)"
    assert refused(9).startswith("Replica assignment has brokers that are not alive. Replica list: List(9)")


def test_nothing_to_cancel_and_no_such_partition_are_told(cluster, create):
    create("t", (1, 2))
    targets = {T: None, ("t", 7): (1,)}
    assert cluster.run(reassign(cluster.context, targets)) == {T: NOTHING_UNDER_WAY, ("t", 7): NO_SUCH_PARTITION}


def test_replica_that_is_away_is_waited_for(cluster, create):
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (1, 3)}))
    cluster.kill(3)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    cluster.start(3)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert T in cluster.told[3].hosted
    expand(cluster, 1, 2, 3)
    assert cluster.topics["t"].partitions[0] == ReplicaAssignment((1, 3))


def test_reassignment_by_znode_leaves_the_znode_when_it_is_done(cluster, create):
    create("t", (1, 2))
    cluster.reassignments = {T: (1, 3), ("none", 0): (1,)}
    under_way = cluster.run(reassign_from_znode(cluster.context, dict(cluster.reassignments)))
    assert under_way == {T}
    assert cluster.reassignments == {T: (1, 3)}, "what cannot be done is taken out"
    expand(cluster, 1, 2, 3)
    assert cluster.reassignments is None


def test_reassignment_by_api_supersedes_the_znode(cluster, create):
    create("t", (1, 2))
    cluster.reassignments = {T: (1, 3)}
    cluster.run(reassign_from_znode(cluster.context, dict(cluster.reassignments)))
    cluster.run(reassign(cluster.context, {T: (2, 3)}))
    assert cluster.reassignments is None


def test_controller_goes_on_where_the_one_before_was(cluster, create):
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (3,)}))
    cluster.become_controller(2)
    assert T in cluster.context.being_reassigned
    expand(cluster, 1, 2, 3)
    assert cluster.topics["t"].partitions[0] == ReplicaAssignment((3,))
    assert cluster.state("t").leader == 3
    cluster.check()


def test_topic_is_deleted_once_its_reassignment_is_over(cluster, create):
    """TopicDeletionManager: a topic is ineligible while a "partition reassignment for partitions of that topic is in progress"."""
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (1, 3)}))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    assert cluster.topics
    expand(cluster, 1, 2, 3)
    assert not cluster.topics


def test_partition_of_a_topic_that_is_deleted_is_not_reassigned(cluster, create):
    create("t", (1, 4))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    assert cluster.run(reassign(cluster.context, {T: (2, 3)})) == {T: NO_SUCH_PARTITION}


@pytest.mark.parametrize("target", [None, (1, 2), (1, 4)])
def test_no_reassignment_deletes_every_replica_that_is_in_sync(cluster, create, target):
    """KRaft refuses: "because it would require an unclean leader election" (ReplicationControlManager)."""
    create("t", (1, 2))
    cluster.start(4)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    cluster.run(reassign(cluster.context, {T: (3, 4)}))
    expand(cluster, 1, 2, 3)
    for broker_id in (1, 2):
        cluster.kill(broker_id)
        cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert (cluster.state("t").leader, cluster.state("t").isr) == (3, (3,))
    for broker_id in (1, 2):
        cluster.start(broker_id)
        cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    refusal = cluster.run(reassign(cluster.context, {T: target}))[T]
    assert refusal.code is ErrorCode.invalid_replica_assignment
    assert refusal.message.endswith("because it would require an unclean leader election")
    if target is not None:
        assert cluster.run(reassign_from_znode(cluster.context, {T: target})) == set()
    assert T in cluster.told[3].hosted
    assert cluster.context.assignment(T).target == (3, 4)
    cluster.check()


def test_another_replica_leads_when_a_reassignment_no_longer_wants_the_leader(cluster, create):
    create("t", (1, 2))
    cluster.run(reassign(cluster.context, {T: (3,)}))
    cluster.states[T] = cluster.context.leaders[T] = replace(cluster.states[T], leader=3, isr=(1, 2, 3))
    cluster.start(4)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))
    assert cluster.run(reassign(cluster.context, {T: (4,)})) == {T: NO_ERROR}
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 2))
    expand(cluster, 1, 2, 4)
    assert (cluster.state("t").leader, cluster.state("t").isr) == (4, (4,))
    cluster.check()

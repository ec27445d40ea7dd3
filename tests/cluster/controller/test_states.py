"""The transition tables, against those of PartitionStateMachine.scala and ReplicaStateMachine.scala of Kafka 3.9.1."""

from __future__ import annotations

from oncelog.cluster.controller.states import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS, PartitionState, ReplicaState


def test_partitions_move_as_in_kafka():
    named = {state.value: {one.value for one in before} for state, before in PARTITION_TRANSITIONS.items()}
    assert named == {
        "NewPartition": {"NonExistentPartition"},
        "OnlinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
        "OfflinePartition": {"NewPartition", "OnlinePartition", "OfflinePartition"},
        "NonExistentPartition": {"OfflinePartition"},
    }
    assert set(PARTITION_TRANSITIONS) == set(PartitionState)


def test_replicas_move_as_in_kafka():
    named = {state.value: {one.value for one in before} for state, before in REPLICA_TRANSITIONS.items()}
    alive = {"NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible"}
    assert named == {
        "NewReplica": {"NonExistentReplica"},
        "OnlineReplica": alive,
        "OfflineReplica": alive,
        "ReplicaDeletionStarted": {"OfflineReplica"},
        "ReplicaDeletionSuccessful": {"ReplicaDeletionStarted"},
        "ReplicaDeletionIneligible": {"OfflineReplica", "ReplicaDeletionStarted"},
        "NonExistentReplica": {"ReplicaDeletionSuccessful"},
    }
    assert set(REPLICA_TRANSITIONS) == set(ReplicaState)

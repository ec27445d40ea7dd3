from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.cluster.controller.values import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
)

replica_lists = st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True).map(tuple)


def test_reassignment_has_the_target_first_then_those_that_go():
    """KafkaController: "U1. RS = ORS + TRS, AR = TRS - ORS, RR = ORS - TRS"."""
    assignment = ReplicaAssignment((1, 2, 3)).reassign_to((4, 5, 1))
    assert assignment == ReplicaAssignment((4, 5, 1, 2, 3), adding=(4, 5), removing=(2, 3))
    assert assignment.target == (4, 5, 1)
    assert set(assignment.origin) == {1, 2, 3}


@given(replica_lists, replica_lists, replica_lists)
def test_reassignment_that_supplants_another_starts_from_the_same_origin(origin, first, second):
    once = ReplicaAssignment(origin).reassign_to(first)
    twice = once.reassign_to(second)
    assert twice.target == second
    assert set(once.origin) == set(twice.origin) == set(origin)
    assert set(twice.adding) == set(second) - set(origin)
    assert set(twice.removing) == set(origin) - set(second)


@given(replica_lists, replica_lists)
def test_reassignment_that_is_cancelled_leaves_the_replicas_that_were_there(origin, target):
    under_way = ReplicaAssignment(origin).reassign_to(target)
    cancelled = under_way.reassign_to(under_way.origin)
    assert not cancelled.adding
    assert not cancelled.removing
    assert set(cancelled.replicas) == set(origin)


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

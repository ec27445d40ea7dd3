from __future__ import annotations

from oncelog.replication import Becomes, Decided, LeaderAndIsrState, decide
from oncelog.wire import ErrorCode

TOLD = LeaderAndIsrState(1, 5, (1, 2), 10, 4, (1, 2))


def test_new_leader_epoch_makes_a_leader_and_followers() -> None:
    assert decide(TOLD, 1, 4, 9) == Decided(Becomes.LEADER)
    assert decide(TOLD, 2, -1, -1) == Decided(Becomes.FOLLOWER)


def test_leader_epoch_that_is_not_new_changes_nothing() -> None:
    """ReplicaManager.becomeLeaderOrFollower: STALE_CONTROLLER_EPOCH for a smaller one, and for the same one, too."""
    for known in (5, 6):
        assert decide(TOLD, 1, known, 10) == Decided(Becomes.UNCHANGED, ErrorCode.stale_controller_epoch)


def test_broker_that_is_no_replica_is_told_so() -> None:
    assert decide(TOLD, 3, 4, 9) == Decided(Becomes.UNCHANGED, ErrorCode.unknown_topic_or_partition)


def test_partition_epoch_behind_what_alter_partition_told_changes_nothing() -> None:
    """Partition.makeLeader and makeFollower skip it."""
    assert decide(TOLD, 1, 4, 11) == Decided(Becomes.UNCHANGED)
    assert decide(TOLD, 1, 4, 10) == Decided(Becomes.LEADER)

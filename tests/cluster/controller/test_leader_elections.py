"""Elections by request (KIP-460), by znode, and by the automatic rebalance."""

from __future__ import annotations

from oncelog.cluster.controller.alter_partition import WantedIsr, alter_partitions
from oncelog.cluster.controller.brokers import change_brokers
from oncelog.cluster.controller.leader_elections import ElectionType, elect_from_znode, elect_leaders, rebalance
from oncelog.cluster.controller.topics import queue_deletions
from oncelog.cluster.controller.values import ApiError, LeaderRecoveryState
from oncelog.wire import ErrorCode

T = ("t", 0)


def lose(cluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        cluster.kill(broker_id)
        cluster.run(change_brokers(cluster.context, dict(cluster.registered)))


def restart(cluster, broker_id: int) -> None:
    cluster.start(broker_id)
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))


def bring_in_sync(cluster, topic: str, count: int, isr: tuple[int, ...]) -> None:
    for number in range(count):
        state = cluster.state(topic, number)
        wanted = WantedIsr(state.leader_epoch, isr, LeaderRecoveryState.RECOVERED, state.partition_epoch)
        cluster.run(alter_partitions(cluster.context, state.leader, {(topic, number): wanted}, 3))


def test_preferred_replica_leads_again_when_it_is_in_sync(cluster, create):
    create("t", (1, 2))
    lose(cluster, 1)
    restart(cluster, 1)
    refused = cluster.run(elect_leaders(cluster.context, [T], ElectionType.PREFERRED))[T]
    assert refused.code is ErrorCode.preferred_leader_not_available
    bring_in_sync(cluster, "t", 1, (2, 1))
    assert cluster.run(elect_leaders(cluster.context, [T], ElectionType.PREFERRED)) == {T: 1}
    again = cluster.run(elect_leaders(cluster.context, [T], ElectionType.PREFERRED))
    assert again == {T: ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")}


def test_unclean_election_is_held_whatever_the_topic_allows(cluster, create):
    create("t", (1, 2))
    lose(cluster, 2, 1)
    restart(cluster, 2)
    assert cluster.state("t").leader == -1
    cluster.is_forced_unclean = True
    assert cluster.run(elect_leaders(cluster.context, [T], ElectionType.UNCLEAN)) == {T: 2}


def test_unclean_election_without_any_live_replica_is_refused(cluster, create):
    create("t", (1,))
    lose(cluster, 1)
    refused = cluster.run(elect_leaders(cluster.context, [T], ElectionType.UNCLEAN))[T]
    assert refused.code is ErrorCode.eligible_leaders_not_available
    assert refused.message == (
        "Failed to elect leader for partition t-0 under strategy OfflinePartitionLeaderElectionStrategy(true)"
    )


def test_partition_that_is_unknown_or_deleted_is_told(cluster, create):
    create("t", (1, 4))
    cluster.deletions.add("t")
    cluster.run(queue_deletions(cluster.context, {"t"}))
    answers = cluster.run(elect_leaders(cluster.context, [T, ("u", 0)], ElectionType.PREFERRED))
    assert answers == {
        T: ApiError(ErrorCode.invalid_topic_exception, "The topic is being deleted"),
        ("u", 0): ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist."),
    }


def test_election_by_znode_removes_the_znode_whatever_came_of_it(cluster, create):
    create("t", (1, 2))
    cluster.preferred_elections = {T, ("u", 0)}
    cluster.run(elect_from_znode(cluster.context, {T, ("u", 0)}))
    assert cluster.preferred_elections is None


def test_broker_that_leads_too_little_of_its_own_gets_it_back(cluster, create):
    """leader.imbalance.per.broker.percentage: more than that share of what it should lead is led elsewhere."""
    create("t", *[(1, 2)] * 10)
    lose(cluster, 1)
    restart(cluster, 1)
    bring_in_sync(cluster, "t", 10, (2, 1))
    cluster.run(rebalance(cluster.context, 100))
    assert cluster.state("t").leader == 2
    cluster.run(rebalance(cluster.context, 10))
    assert {cluster.state("t", number).leader for number in range(10)} == {1}
    cluster.check()

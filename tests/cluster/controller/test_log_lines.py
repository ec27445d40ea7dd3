"""What the log says of each election and each change of who is in sync, with the reason."""

from __future__ import annotations

import logging

import pytest

from oncelog.cluster.controller.alter_partition import WantedIsr, alter_partitions, complete_reassignments
from oncelog.cluster.controller.brokers import change_brokers, shut_down
from oncelog.cluster.controller.leader_elections import ElectionType, elect_leaders, rebalance
from oncelog.cluster.controller.reassignment import reassign
from oncelog.cluster.controller.values import LeaderRecoveryState
from tests.cluster.controller.cluster import Cluster

T = ("t", 0)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture):
    """What was said of the partition since it was asked last."""
    caplog.set_level(logging.INFO, "oncelog.cluster.controller")

    def since() -> list[str]:
        lines = [one.getMessage() for one in caplog.records if "t-0 " in one.getMessage() or "t-0:" in one.getMessage()]
        caplog.clear()
        return lines

    return since


def notice(cluster: Cluster) -> None:
    cluster.run(change_brokers(cluster.context, dict(cluster.registered)))


def expand(cluster: Cluster, *isr: int) -> None:
    state = cluster.states[T]
    wanted = WantedIsr(state.leader_epoch, isr, LeaderRecoveryState.RECOVERED, state.partition_epoch)
    results = cluster.run(alter_partitions(cluster.context, state.leader, {T: wanted}, 3))
    cluster.run(complete_reassignments(cluster.context, results))


def test_election_after_a_death_and_back_to_the_preferred_replica(cluster, create, said) -> None:
    create("t", (1, 2, 3))
    assert said() == ["t-0 is led by 1 at first, in sync: 1,2,3"]
    cluster.kill(1)
    notice(cluster)
    assert said() == ["t-0 is led by 2 in epoch 1, in sync: 2,3 (offline)"]
    cluster.start(1)
    notice(cluster)
    expand(cluster, 1, 2, 3)
    assert said() == ["in sync with t-0: 1,2,3, before: 2,3"]
    cluster.run(rebalance(cluster.context, 10))
    assert said() == ["t-0 is led by 1 in epoch 2, in sync: 1,2,3 (preferred)"]


def test_broker_that_shuts_down_and_replicas_that_move(cluster, create, said) -> None:
    create("t", (1, 2))
    said()
    cluster.run(shut_down(cluster.context, 1, cluster.registered[1].epoch))
    assert said() == ["t-0 is led by 2 in epoch 1, in sync: 2 (controlled shutdown)"]
    cluster.run(reassign(cluster.context, {T: (3,)}))
    said()
    expand(cluster, 2, 3)
    in_sync, elected, *left, moved = said()
    assert in_sync == "in sync with t-0: 2,3, before: 2"
    assert elected.startswith("t-0 is led by 3 in epoch ")
    assert elected.endswith("(reassignment)")
    assert all(one.startswith("t-0 has lost the replica on ") for one in left)
    assert moved == "t-0 is reassigned to 3"


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_unclean_election_is_a_warning_of_what_is_lost(cluster, create, said, caplog, is_asked_for: bool) -> None:
    create("t", (1, 2))
    for broker_id in (2, 1):
        cluster.kill(broker_id)
        notice(cluster)
    strategy = "OfflinePartitionLeaderElectionStrategy(false)"
    assert said()[-2:] == [
        f"t-0 has no new leader: Failed to elect leader for partition t-0 under strategy {strategy}",
        "t-0 has lost the replica on 1, leader -1 in epoch 2, in sync: 1",
    ]
    cluster.is_forced_unclean = is_asked_for
    if not is_asked_for:
        cluster.unclean.add("t")
    cluster.start(2)
    notice(cluster)
    if is_asked_for:
        said()
        cluster.run(elect_leaders(cluster.context, [T], ElectionType.UNCLEAN))
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    kind = "offline unclean" if is_asked_for else "offline"
    (line,) = [one for one in warned if one.startswith("t-0 ")]
    assert line.endswith(
        f", in sync: 2 ({kind}, and nobody in sync is alive: what the new leader does not have is lost)"
    )

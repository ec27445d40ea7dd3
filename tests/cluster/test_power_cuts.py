"""A power cut at every broker at once: what was acknowledged is on each disk where the topic asks for that."""

from __future__ import annotations

import pytest

from harness.running_cluster import RunningCluster
from oncelog.cluster.replicas.replica import HostedReplica
from oncelog.wire import ErrorCode
from tests.cluster.held_disk import HeldDisk
from tests.cluster.in_memory import MINUTE, TOPIC, fetched, isr_of, make_topic, produce, produced

NONE = ErrorCode.none
LARGE = b"x" * 100_000
"""More than the write-ahead log takes."""


@pytest.mark.parametrize("first", range(3))
def test_acknowledged_record_is_durable_at_every_replica_in_sync_where_each_is_flushed(first: int) -> None:
    """flush.messages is a setting of the log, of whoever leads and of whoever follows: any of them may be the first to be back."""
    cluster = RunningCluster(3)
    make_topic(cluster, (0, 1, 2), flush_messages="1", min_insync_replicas="2")
    for value in (b"one", b"two", b"three"):
        assert produced(cluster, 0, value) is NONE
    for node in cluster.nodes.values():
        node.die(power=True)
    cluster.start_served(first)
    cluster.until(lambda: cluster.partition(first, TOPIC).leadership.leader == first)
    cluster.start_served(*(node_id for node_id in range(3) if node_id != first))
    cluster.until(lambda: isr_of(cluster) == {0, 1, 2})
    assert {cluster.partition(node_id, TOPIC).log.log_end_offset for node_id in range(3)} == {3}
    records = fetched(cluster, first).records
    assert all(value in records for value in (b"one", b"two", b"three"))


def test_record_that_a_former_leader_has_not_on_its_disk_is_not_acknowledged_by_the_next_one() -> None:
    """It led, and its own flush is not over: as a follower it has nothing to fetch, but to say where its log ends."""
    cluster = RunningCluster(2, replica_lag_time_max_ms="60000", auto_leader_rebalance_enable="false")
    new = cluster.controller
    old = 1 - new
    make_topic(cluster, (old, new), flush_messages="1", min_insync_replicas="2")
    assert produced(cluster, old, b"first") is NONE
    prefer(cluster, new, old)
    disk = HeldDisk(cluster.disks[old], f"/{TOPIC}-0/")
    produce(cluster, old, LARGE)
    cluster.until(lambda: cluster.partition(new, TOPIC).log.log_end_offset == 2)
    elect_preferred(cluster)
    cluster.until(lambda: cluster.partition(old, TOPIC).leadership.leader == new)
    asked = produce(cluster, new, b"second")
    cluster.rest(5_000)
    assert not asked.came
    assert cluster.partition(new, TOPIC).log.high_watermark == 1
    disk.go_on()
    assert cluster.answer(asked).responses[0].partition_responses[0].error_code is NONE
    for node in cluster.nodes.values():
        node.die(power=True)
    cluster.start_served(old)
    cluster.until(lambda: cluster.partition(old, TOPIC).leadership.leader == old)
    assert cluster.partition(old, TOPIC).log.log_end_offset == 3


def test_replica_that_lost_its_end_is_not_in_sync_for_what_was_asked_before_it_did() -> None:
    """KIP-903: who had caught up is another life of that broker, and the leader's request has been on its way since."""
    cluster = RunningCluster(3, replica_lag_time_max_ms="60000")
    leader, follower = (one for one in cluster.nodes if one != cluster.controller)
    make_topic(cluster, (leader, follower))
    cluster.nodes[follower].die(power=False)
    cluster.until(lambda: isr_of_leader(cluster, leader) == {leader})
    cluster.hold(leader)
    cluster.start_served(follower)
    for value in (b"one", b"two"):
        assert produced(cluster, leader, value) is NONE
    cluster.until(lambda: cluster.partition(follower, TOPIC).log.log_end_offset == 2)
    cluster.until(lambda: cluster.partition(leader, TOPIC).leading.state.state.is_pending)
    cluster.hold(follower)
    cluster.nodes[follower].die(power=True)
    cluster.start_served(follower)
    assert cluster.partition(follower, TOPIC).log.log_end_offset == 0
    cluster.let_go(leader)
    cluster.until(lambda: not cluster.partition(leader, TOPIC).leading.state.state.is_pending)
    state = cluster.state(TOPIC)
    assert state is not None
    assert state.isr == (leader,)
    cluster.let_go(follower)
    cluster.until(lambda: isr_of(cluster) == {leader, follower})
    assert cluster.partition(follower, TOPIC).log.log_end_offset == 2


def isr_of_leader(cluster: RunningCluster, leader: int) -> set[int]:
    leading = cluster.partition(leader, TOPIC).leading
    assert isinstance(leading, HostedReplica)
    return set(leading.state.state.isr)


def prefer(cluster: RunningCluster, *replicas: int) -> None:
    partitions = [{"partition_index": 0, "replicas": replicas}]
    topics = [{"name": TOPIC, "partitions": partitions}]
    answer = cluster.answer_of(cluster.controller, "alter_partition_reassignments", 0, timeout=MINUTE, topics=topics)
    assert answer.error_code is NONE
    cluster.rest(1_000)


def elect_preferred(cluster: RunningCluster) -> None:
    partitions = [{"topic": TOPIC, "partitions": [0]}]
    answer = cluster.answer_of(
        cluster.controller, "elect_leaders", 2, election_type=0, topic_partitions=partitions, timeout=MINUTE
    )
    assert answer.error_code is NONE

"""What a run of a cluster does to its brokers is no more than what a cluster promises to stand."""

from __future__ import annotations

from uuid import UUID

from harness.cluster_in_memory import TOPIC, ClusterInMemory
from harness.cluster_messages import produced, records
from oncelog.simulation.cluster.injection import ClusterInjection
from oncelog.simulation.cluster.metadata import ClusterMetadata
from oncelog.wire import ErrorCode

TOPIC_ID = UUID(int=77)


def injection_of(cluster: ClusterInMemory) -> ClusterInjection:
    brokers = list(cluster.nodes.values())
    metadata = ClusterMetadata(cluster.ensemble)
    return ClusterInjection(cluster.queue, cluster.network, cluster.ensemble, brokers, (), metadata)


def in_sync(cluster: ClusterInMemory) -> set[int]:
    state = cluster.state()
    return set() if state is None else set(state.isr)


def test_broker_that_its_disk_ends_while_it_starts_comes_back_and_keeps_its_power() -> None:
    cluster = ClusterInMemory(0)
    node = cluster.nodes[0]
    node.disk.operations_left = 0
    boot_id = node.disk.boot_id()
    node.start()
    assert not node.process.is_alive
    cluster.until(lambda: node.served is not None)
    assert (node.power_cuts, node.disk.boot_id()) == (0, boot_id)


def test_broker_without_power_is_down_until_the_others_do_not_count_on_what_it_had() -> None:
    cluster = ClusterInMemory(0, 1)
    cluster.start_served(0, 1)
    cluster.create(TOPIC, TOPIC_ID, (0, 1))
    cluster.until(lambda: in_sync(cluster) == {0, 1})
    node = cluster.nodes[1]
    boot_id = node.disk.boot_id()
    node.die(power=True)
    injection_of(cluster).end()
    assert not node.is_up
    cluster.until(lambda: node.is_up)
    assert in_sync(cluster) == {0}
    assert node.disk.boot_id() != boot_id


def test_broker_whose_disk_is_lost_comes_back_with_an_empty_one_and_gets_everything() -> None:
    cluster = ClusterInMemory(0, 1)
    cluster.start_served(0, 1)
    cluster.create(TOPIC, TOPIC_ID, (0, 1))
    cluster.until(lambda: in_sync(cluster) == {0, 1})
    cluster.until(lambda: cluster.core(0).topics.partition(TOPIC, 0) is not None)
    assert produced(cluster.wait(cluster.produce(0, records(b"a", b"b")))) == (ErrorCode.none, 0)
    node = cluster.nodes[1]
    node.die(power=True)
    node.has_lost_disk = True
    injection_of(cluster).end()
    cluster.until(lambda: node.is_up)
    assert in_sync(cluster) == {0}
    assert not node.disk.exists(f"/data/{TOPIC}-0")
    cluster.until(lambda: in_sync(cluster) == {0, 1})
    assert cluster.partition(1).log.log_end_offset == 2


def test_broker_that_alone_is_in_sync_when_it_is_to_start_has_lost_nothing() -> None:
    """Nobody else may lead then: a run would wait for a leader for ever, and a cluster promises no more than one copy."""
    cluster = ClusterInMemory(0, 1)
    cluster.start_served(0, 1)
    cluster.create(TOPIC, TOPIC_ID, (1, 0))
    cluster.until(lambda: in_sync(cluster) == {0, 1})
    node, other = cluster.nodes[1], cluster.nodes[0]
    other.die(power=False)
    cluster.until(lambda: in_sync(cluster) == {1})
    boot_id = node.disk.boot_id()
    node.die(power=True)
    injection_of(cluster).end()
    assert node.is_up
    assert (node.has_lost_power, node.disk.boot_id()) == (False, boot_id)

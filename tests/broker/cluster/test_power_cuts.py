"""A power cut at every broker at once: what was acknowledged is on each disk where the topic asks for that."""

from __future__ import annotations

import pytest

from harness.running_cluster import RunningCluster
from oncelog.wire import ErrorCode
from tests.broker.cluster.in_memory import TOPIC, fetched, isr_of, make_topic, produced

NONE = ErrorCode.none


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

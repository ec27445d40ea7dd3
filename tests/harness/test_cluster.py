"""The clusters of both kinds of brokers that tests run against."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]


@pytest.mark.parametrize("kinds", [("oncelog", "kafka"), ("kafka", "oncelog"), ("oncelog", "oncelog")], ids="+".join)
def test_every_broker_knows_every_other_and_the_controller(new_cluster, kinds):
    cluster = new_cluster(*kinds)
    assert cluster.controller in cluster.brokers.values()
    zookeeper = KazooClient(cluster.zookeeper_connect)
    zookeeper.start(30)
    try:
        assert sorted(zookeeper.get_children("/brokers/ids")) == ["0", "1"]
    finally:
        zookeeper.stop()
        zookeeper.close()

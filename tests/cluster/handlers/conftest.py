"""Clusters of two brokers, for what is compared with Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.cluster import Cluster
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker
from harness.oncelog_cluster import OncelogMember


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def two_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_chroot: Callable[[], str]
) -> Iterator[Cluster]:
    """A cluster of our brokers, and one of Apache Kafka's: each test of it runs twice."""
    kinds = {"oncelog": OncelogMember, "kafka": ZooKeeperKafkaBroker}
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), (kinds[request.param],) * 2, zookeeper_connect=new_chroot())
    cluster.start()
    yield cluster
    cluster.kill()

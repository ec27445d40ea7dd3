"""Clusters that are not started yet: a test says who is first, and so the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster, ClusterMember
from harness.kafka_tools import ToolProcess
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker
from harness.oncelog_cluster import OncelogMember
from harness.secured_cluster import BetweenBrokers

KINDS: dict[str, type[ClusterMember]] = {"oncelog": OncelogMember, "kafka": ZooKeeperKafkaBroker}
NOT_CLEANED = {"log.cleaner.enable": "false"}
"""Each broker cleans by itself: what one has cleaned and another has not is not the same bytes."""


@pytest.fixture
def led_cluster(tmp_path: Path, new_chroot: Callable[[], str]) -> Iterator[Callable[..., Cluster]]:
    """led_cluster("kafka", "oncelog", "oncelog", controller=1): brokers 0, 1 and 2, of which 1 is the controller.

    `between` says how they speak to each other, if not in plain text.
    """
    made: list[Cluster] = []

    def make(*kinds: str, controller: int = 0, between: BetweenBrokers | None = None, **settings: str) -> Cluster:
        directory = tmp_path / f"cluster-{len(made)}"
        members = [KINDS[kind] for kind in kinds]
        cluster = Cluster(directory, members, zookeeper_connect=new_chroot(), **NOT_CLEANED, **settings)
        made.append(cluster)
        if between is not None:
            between.secure(cluster)
        cluster.brokers[controller].start()
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.kill()


@pytest.fixture
def tool_process() -> Iterator[ToolProcess]:
    """Apache Kafka's command line tools."""
    process = ToolProcess()
    yield process
    process.close()

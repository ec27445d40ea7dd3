"""Feature levels of a cluster over ZooKeeper (KIP-584): what a new controller makes of `/feature`, and whom it leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.cluster.controller.values import RegisteredBroker
from oncelog.cluster.zookeeper.znodes import FeatureStatus, FeatureZnode


def feature_znode(existing: FeatureZnode | None) -> FeatureZnode:
    """As a controller of Kafka 3.9 leaves it: enabled, with the levels that it had. Over ZooKeeper brokers support none."""
    is_used = existing is not None and existing.status is FeatureStatus.ENABLED
    return FeatureZnode(existing.features if existing is not None and is_used else {})


def is_compatible(broker: RegisteredBroker, levels: Mapping[str, int]) -> bool:
    """Whether the broker supports every feature in the level that the cluster uses. One that does not is as if not there."""
    supported = {name: (low, high) for name, low, high in broker.features}
    return all(
        name in supported and supported[name][0] <= level <= supported[name][1] for name, level in levels.items()
    )

from __future__ import annotations

from uuid import UUID

import pytest

from oncelog.cluster.controller.topics import change_topics
from oncelog.cluster.controller.values import ReplicaAssignment, TopicAssignment
from tests.cluster.controller.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Brokers 1, 2 and 3, and a controller."""
    made = Cluster()
    made.start(1, 2, 3)
    made.become_controller()
    return made


@pytest.fixture
def create(cluster: Cluster):
    """Makes a topic with these replicas for each partition."""

    def make(topic: str, *assignment: tuple[int, ...]) -> None:
        partitions = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(assignment)}
        one = TopicAssignment(UUID(int=len(cluster.topics) + 1), partitions)
        cluster.topics[topic] = one
        cluster.run(change_topics(cluster.context, cluster.topics.keys(), {topic: one}, {}))
        cluster.sent.clear()

    return make

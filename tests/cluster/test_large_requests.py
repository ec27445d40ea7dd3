"""Requests of clients that would make one to ZooKeeper larger than it takes: they are refused, and the cluster goes on."""

from __future__ import annotations

from datetime import timedelta

from oncelog.wire import ErrorCode, construct, message_module
from tests.cluster.test_broken_znodes import CREATE_TOPICS, Watched

REPLICAS = 98_000


def test_topic_that_zookeeper_does_not_take_is_refused_and_the_next_one_is_made() -> None:
    """Kafka lets a topic have replicas on brokers that there are not."""
    cluster = Watched()
    types = message_module(CREATE_TOPICS, 5, "request")
    replicas = tuple(2**31 - 1 - number for number in range(REPLICAS))
    assigned = types.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    large = construct(
        types.CreatableTopic,
        name="large",
        num_partitions=-1,
        replication_factor=-1,
        assignments=(assigned,),
        configs=(),
    )
    body = types.CreateTopicsRequest(topics=(large,), timeout=timedelta(seconds=10), validate_only=False)
    (answer,) = cluster.ask(cluster.controller(), body).topics
    assert answer.error_code is ErrorCode.unknown_server_error
    assert cluster.make("next") is ErrorCode.none

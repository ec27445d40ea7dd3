"""A consumer is sent to the follower in its rack (KIP-392), where leader and follower are one of ours and one of Kafka's."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.waiting import until
from harness.wire import Connection

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3)]
TOPIC = "t"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER, FOLLOWER = 0, 1


def fetched(cluster, broker_id: int):
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}
    with closing(Connection(cluster.brokers[broker_id].bootstrap_servers)) as connection:
        answer = connection.ask(
            "fetch",
            11,
            max_wait=timedelta(milliseconds=100),
            min_bytes=1,
            isolation_level=0,
            rack_id="b",
            topics=[{"topic": TOPIC, "partitions": [asked]}],
            forgotten_topics_data=[],
        )
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("kinds", [("oncelog", "kafka"), ("kafka", "oncelog")], ids="+".join)
def test_leader_of_one_kind_sends_consumers_to_a_follower_of_the_other(new_cluster, kinds):
    racks = {LEADER: {"broker.rack": "a"}, FOLLOWER: {"broker.rack": "b"}}
    cluster = new_cluster(*kinds, own=racks, replica_selector_class=RACK_AWARE)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[LEADER, FOLLOWER]])]).values()
    made.result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce(TOPIC, b"near")
    assert producer.flush(30) == 0
    until(lambda: fetched(cluster, LEADER).preferred_read_replica == FOLLOWER, 30)
    assert fetched(cluster, LEADER).records == b""
    until(lambda: fetched(cluster, FOLLOWER).high_watermark == 1, 30)
    near = fetched(cluster, FOLLOWER)
    assert (near.error_code, near.preferred_read_replica) == (ErrorCode.none, -1)
    assert b"near" in near.records
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "client.rack": "b"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    (record,) = consumer.consume(1, timeout=30)
    consumer.close()
    assert record.value() == b"near"

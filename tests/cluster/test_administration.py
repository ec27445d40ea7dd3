"""Administrators of a cluster whose brokers are of oncelog and of Apache Kafka 3.9.1: whichever is asked, it is one cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.waiting import until
from oncelog.cluster.zookeeper.znodes import decode_controller

pytestmark = [pytest.mark.jvm, pytest.mark.drawn(3)]


@pytest.fixture(params=[0, 1], ids=["oncelog-is-the-controller", "kafka-is-the-controller"])
def cluster(request, new_cluster):
    made = new_cluster("oncelog", "kafka")
    zookeeper = KazooClient(made.zookeeper_connect)
    zookeeper.start(30)
    # The other one leaves and comes back: after a mere resignation it may win every election.
    other = made.brokers[1 - request.param]
    if controller_of(zookeeper) != request.param:
        other.stop()
        until(lambda: controller_of(zookeeper) == request.param)
        other.start()
    until(lambda: {one.known_controller() for one in made.brokers.values()} == {request.param})
    zookeeper.stop()
    return made


def controller_of(zookeeper):
    try:
        return decode_controller(zookeeper.get("/controller")[0]).broker_id
    except NoNodeError:
        return None


def administrators(cluster):
    return [
        AdminClient({"bootstrap.servers": one.bootstrap_servers, "log_level": 0}) for one in cluster.brokers.values()
    ]


def done(futures):
    return [future.result(30) for future in futures.values()]


def partitions(admin, topic):
    found = admin.list_topics(timeout=10).topics.get(topic)
    return None if found is None else found.partitions


def setting(admin, kind, name, key, **at):
    (described,) = done(admin.describe_configs([ConfigResource(kind, name)], **at))
    return described[key].value if key in described else None


def knows_topic(admin, topic, broker):
    """Whether a broker describes a topic. A client's metadata may come from another one, whoever it is given first."""
    try:
        return setting(admin, "topic", topic, "retention.ms", broker=broker) is not None
    except KafkaException:
        return False


def alter(admin, kind, name, key, value, **at):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    done(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])], **at))


def assigned(admin, topic):
    """The brokers of each partition, as the broker that is asked knows it: any may be, also one that learns of the topic later."""
    return [tuple(sorted(one.replicas)) for one in (partitions(admin, topic) or {}).values()]


def test_topics_are_made_grow_and_go_for_all(cluster):
    first, second = administrators(cluster)
    done(second.create_topics([NewTopic("t", 2, 2, config={"retention.ms": "7200000"})]))
    until(lambda: all(knows_topic(first, "t", broker) for broker in cluster.brokers))
    for admin in (first, second):
        until(lambda admin=admin: assigned(admin, "t") == [(0, 1)] * 2)
        assert setting(admin, "topic", "t", "retention.ms") == "7200000"
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(first.create_topics([NewTopic("t", 1, 1)]))
    done(second.create_partitions([NewPartitions("t", 3)]))
    for admin in (first, second):
        until(lambda admin=admin: len(assigned(admin, "t")) == 3)
    done(first.delete_topics(["t"]))
    for admin in (first, second):
        until(lambda admin=admin: partitions(admin, "t") is None)


def test_settings_that_one_broker_changes_count_for_all(cluster):
    admin, _ = administrators(cluster)
    done(admin.create_topics([NewTopic("t", 1, 2)]))
    until(lambda: all(knows_topic(admin, "t", broker) for broker in cluster.brokers))
    for broker_id in cluster.brokers:
        value = str(1_000_000 + broker_id)
        alter(admin, "topic", "t", "retention.ms", value, broker=broker_id)
        for one in cluster.brokers:
            until(lambda one=one, value=value: setting(admin, "topic", "t", "retention.ms", broker=one) == value)
        alter(admin, "broker", str(broker_id), "log.retention.ms", value)
    for broker_id in cluster.brokers:
        value = str(1_000_000 + broker_id)
        until(lambda: setting(admin, "broker", str(broker_id), "log.retention.ms") == value)  # noqa: B023

"""AlterPartitionReassignments and ListPartitionReassignments in a cluster in memory (KIP-455)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.running_cluster import RunningCluster
from oncelog.broker.apis import APIS
from oncelog.cluster.apis import CLUSTER_APIS
from tests.cluster.in_memory import MINUTE, TOPIC, isr_of, make_topic, produced

NONE = ErrorCode.none
NOT_CONTROLLER = (ErrorCode.not_controller, "This is not the correct controller for this cluster.")


@pytest.fixture
def cluster():
    return RunningCluster()


@pytest.fixture
def roles(cluster):
    """The leader, the replica that goes, and the broker that gets one, which is not the controller's."""
    away, leader, gone = sorted(cluster.brokers, key=lambda one: one == cluster.controller)
    make_topic(cluster, (leader, gone))
    assert produced(cluster, leader, b"a") is NONE
    return leader, gone, away


def reassign(cluster, *targets, broker_id=None):
    """The error of the whole, and those of each partition."""
    topics: dict[str, list] = {}
    for topic, index, replicas in targets:
        topics.setdefault(topic, []).append({"partition_index": index, "replicas": replicas})
    answer = cluster.answer_of(
        cluster.controller if broker_id is None else broker_id,
        "alter_partition_reassignments",
        0,
        timeout=MINUTE,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    )
    errors = {
        (topic.name, one.partition_index): (one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    }
    return (answer.error_code, answer.error_message), errors


def under_way(cluster, asked=None, broker_id=None):
    controller = cluster.controller if broker_id is None else broker_id
    answer = cluster.answer_of(controller, "list_partition_reassignments", 0, timeout=MINUTE, topics=asked)
    found = {
        (topic.name, one.partition_index): (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    }
    return (answer.error_code, answer.error_message), found


def assigned(cluster, index=0):
    return cluster.partition(0, TOPIC, index).leadership.replicas


def test_move_is_answered_at_once_and_over_when_the_new_replica_is_in_sync(cluster, roles):
    leader, _, away = roles
    whole, errors = reassign(cluster, (TOPIC, 0, (leader, away)))
    assert (whole, errors) == ((NONE, None), {(TOPIC, 0): (NONE, None)})
    cluster.until(lambda: assigned(cluster) == (leader, away))
    cluster.until(lambda: isr_of(cluster) == {leader, away})
    assert under_way(cluster) == ((NONE, None), {})
    assert cluster.partition(away, TOPIC).log.log_end_offset == 1


def test_move_is_listed_as_long_as_it_lasts_and_can_be_called_off(cluster, roles):
    """KIP-455: "replicas" are those that are there and those that are added; null replicas call it off."""
    leader, gone, away = roles
    cluster.hold(away)
    reassign(cluster, (TOPIC, 0, (leader, away)))
    expected = {(TOPIC, 0): ((leader, away, gone), (away,), (gone,))}
    assert under_way(cluster) == ((NONE, None), expected)
    this, other = ({"name": TOPIC, "partition_indexes": (index,)} for index in (0, 1))
    assert under_way(cluster, [this]) == ((NONE, None), expected)
    assert under_way(cluster, [other]) == ((NONE, None), {})
    assert reassign(cluster, (TOPIC, 0, None)) == ((NONE, None), {(TOPIC, 0): (NONE, None)})
    cluster.until(lambda: assigned(cluster) == (leader, gone))
    assert under_way(cluster) == ((NONE, None), {})
    cluster.let_go(away)
    assert produced(cluster, leader, b"b") is NONE


def test_each_partition_has_an_error_of_its_own(cluster, roles):
    leader = roles[0]
    whole, errors = reassign(cluster, (TOPIC, 0, (leader, 7)), (TOPIC, 9, (leader,)), ("other", 0, ()))
    assert whole == (NONE, None)
    code, message = errors[TOPIC, 0]
    assert code is ErrorCode.invalid_replica_assignment
    assert message.startswith("Replica assignment has brokers that are not alive. Replica list: List(7)")
    assert errors[TOPIC, 9] == (ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
    empty = "Empty replica list specified in partition reassignment."
    assert errors["other", 0] == (ErrorCode.invalid_replica_assignment, empty)


def test_there_is_nothing_to_call_off(cluster, roles):
    text = "No partition reassignment is in progress."
    assert reassign(cluster, (TOPIC, 0, None))[1] == {(TOPIC, 0): (ErrorCode.no_reassignment_in_progress, text)}


def test_broker_that_is_not_the_controller_refuses(cluster, roles):
    leader, _, away = roles
    assert reassign(cluster, (TOPIC, 0, (leader, away)), broker_id=away) == (NOT_CONTROLLER, {})
    assert under_way(cluster, broker_id=away) == (NOT_CONTROLLER, {})


def test_version_that_keeps_the_number_of_replicas_is_not_offered():
    """KIP-860 came with Kafka 4.1."""
    assert (APIS[45].maximum, CLUSTER_APIS[45].maximum) == (1, 0)

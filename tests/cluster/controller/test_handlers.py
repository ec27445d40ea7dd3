"""What brokers ask of the controller, from message to message, in every version."""

from __future__ import annotations

from uuid import UUID

import pytest

from oncelog.cluster.controller.handlers import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    allocate_producer_ids,
    alter_partition,
    controlled_shutdown,
)
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN
from oncelog.wire import ErrorCode, construct, message_class, message_module
from tests.cluster.controllers import SimulatedCluster

UNKNOWN_ID = UUID(int=99)


@pytest.fixture
def cluster():
    made = SimulatedCluster()
    made.start_broker(1, 2)
    return made


@pytest.fixture
def node(cluster):
    made = cluster.start_controller(1)
    cluster.until(lambda: made.controller.is_active)
    return made


def alter_request(version: int, topic_id: UUID, broker_epoch: int, isr: tuple[int, ...], recovery_state: int = 0):
    types = message_module(ALTER_PARTITION, version, "request")
    states = tuple(types.BrokerState(broker_id=one) for one in isr) if version >= 3 else ()
    partition = construct(
        types.PartitionData,
        partition_index=0,
        leader_epoch=0,
        new_isr=isr,
        new_isr_with_epochs=states,
        leader_recovery_state=recovery_state,
        partition_epoch=0,
    )
    topic = types.TopicData(topic_id=topic_id, partitions=(partition,))
    return types.AlterPartitionRequest(broker_id=1, broker_epoch=broker_epoch, topics=(topic,))


@pytest.mark.parametrize("version", [2, 3])
def test_in_sync_replicas_are_altered_by_the_id_of_the_topic(cluster, node, version):
    topic_id = cluster.create("t", (1, 2))
    cluster.settle()
    body = alter_request(version, topic_id, cluster.brokers[1].epoch, (1,))
    answer = cluster.take(alter_partition(node.controller, version, body))
    assert answer.error_code is ErrorCode.none
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.isr, partition.partition_epoch) == (ErrorCode.none, (1,), 1)
    assert topic.topic_id == topic_id


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("recovery_state", [-128, -1, 2, 127])
def test_recovery_state_that_there_is_not_is_refused(cluster, node, version, recovery_state):
    """Any client can say it; Kafka's controller throws at it, and answers so."""
    topic_id = cluster.create("t", (1, 2))
    cluster.settle()
    body = alter_request(version, topic_id, cluster.brokers[1].epoch, (1,), recovery_state)
    answer = cluster.take(alter_partition(node.controller, version, body))
    assert (answer.error_code, answer.topics) == (ErrorCode.unknown_server_error, ())


def test_id_that_is_unknown_is_told_for_its_partitions_alone(cluster, node):
    body = alter_request(3, UNKNOWN_ID, cluster.brokers[1].epoch, (1,))
    answer = cluster.take(alter_partition(node.controller, 3, body))
    assert answer.error_code is ErrorCode.none
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


def test_id_is_known_to_a_controller_that_is_still_loading(cluster, node):
    """What comes while it loads is served behind that: a leader that was told UNKNOWN_TOPIC_ID would not ask again."""
    topic_id = cluster.create("t", (1, 2))
    cluster.settle()
    cluster.world.ensemble.expire(node.zookeeper.session_id)
    cluster.until(lambda: not node.controller.is_active)
    cluster.until(lambda: node.controller.is_active)
    assert not node.controller.context.topic_names
    body = alter_request(3, topic_id, cluster.brokers[1].epoch, (1,))
    answer = cluster.take(alter_partition(node.controller, 3, body))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def test_broker_of_another_epoch_is_refused_as_a_whole(cluster, node):
    body = alter_request(3, UNKNOWN_ID, cluster.brokers[1].epoch - 1, (1,))
    answer = cluster.take(alter_partition(node.controller, 3, body))
    assert (answer.error_code, answer.topics) == (ErrorCode.stale_broker_epoch, ())


@pytest.mark.parametrize("version", [2, 3])
def test_broker_that_shuts_down_is_told_what_it_leads_still(cluster, node, version):
    cluster.create("t", (1, 2))
    cluster.settle()
    cluster.kill_broker(2)
    cluster.settle()
    body = message_class(CONTROLLED_SHUTDOWN, version, "request")(broker_id=1, broker_epoch=cluster.brokers[1].epoch)
    answer = cluster.take(controlled_shutdown(node.controller, version, body))
    assert answer.error_code is ErrorCode.none
    assert [(one.topic_name, one.partition_index) for one in answer.remaining_partitions] == [("t", 0)]


def test_producer_ids_are_answered_as_a_block(cluster, node):
    body = message_class(ALLOCATE_PRODUCER_IDS, 0, "request")(broker_id=1, broker_epoch=cluster.brokers[1].epoch)
    cluster.take(allocate_producer_ids(node.controller, 0, body))
    answer = cluster.take(allocate_producer_ids(node.controller, 0, body))
    assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (ErrorCode.none, 1000, 1000)
    node.controller.close()
    answer = cluster.take(allocate_producer_ids(node.controller, 0, body))
    assert (answer.error_code, answer.producer_id_len) == (ErrorCode.not_controller, 0)

"""Apache Kafka 3.9 takes what a controller of ours says for its own controller's words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from oncelog.cluster.channel import Channel
from oncelog.cluster.messages import CONTROLLED_SHUTDOWN, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, VERSIONS
from oncelog.wire import ErrorCode, construct, message_class, message_module
from tests.cluster.channels_on_sockets import over, with_channel

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3)]

METADATA, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS = 3, 56, 67
TIMEOUT_MS = 30_000
TOPIC_ID = UUID(int=0x123456789ABCDEF)
STALE_EPOCH, EPOCH = 0, 1
"""Controller epochs: of a controller that is none any more, and of the first one that a cluster has."""


@pytest.fixture
def broker(new_kafka_cluster) -> Iterator[Any]:
    return new_kafka_cluster(1).brokers[0]


def ask(channel: Channel, api_key: int, version: int, body: Any) -> asyncio.Future[Any]:
    return over(channel.ask(api_key, version, body, TIMEOUT_MS))


def leader_and_isr(version: int, controller_epoch: int, topic: str) -> Any:
    types = message_module(LEADER_AND_ISR, version, "request")
    partition = construct(
        types.LeaderAndIsrPartitionState,
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=0,
        leader_epoch=version,
        isr=(0,),
        partition_epoch=version,
        replicas=(0,),
        adding_replicas=(),
        removing_replicas=(),
        is_new=True,
    )
    state = types.LeaderAndIsrTopicState(topic_name=topic, topic_id=TOPIC_ID, partition_states=(partition,))
    live = types.LeaderAndIsrLiveLeader(broker_id=0, host_name="127.0.0.1", port=1)
    return types.LeaderAndIsrRequest(
        controller_id=0, controller_epoch=controller_epoch, type=0, topic_states=(state,), live_leaders=(live,)
    )


def update_metadata(version: int, controller_epoch: int, topic: str, port: int) -> Any:
    types = message_module(UPDATE_METADATA, version, "request")
    partition = types.UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=0,
        leader_epoch=version,
        isr=(0,),
        zk_version=version,
        replicas=(0, 7),
        offline_replicas=(7,),
    )
    state = types.UpdateMetadataTopicState(topic_name=topic, topic_id=TOPIC_ID, partition_states=(partition,))
    endpoint = types.UpdateMetadataEndpoint(port=port, host="127.0.0.1", listener="PLAINTEXT", security_protocol=0)
    live = types.UpdateMetadataBroker(id=0, endpoints=(endpoint,), rack="a-rack")
    return types.UpdateMetadataRequest(
        controller_id=0, controller_epoch=controller_epoch, topic_states=(state,), live_brokers=(live,)
    )


def stop_replica(version: int, controller_epoch: int, topic: str) -> Any:
    types = message_module(STOP_REPLICA, version, "request")
    partition = types.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    state = types.StopReplicaTopicState(topic_name=topic, partition_states=(partition,))
    return types.StopReplicaRequest(controller_id=0, controller_epoch=controller_epoch, topic_states=(state,))


def metadata_request(topic: str) -> Any:
    types = message_module(METADATA, 12, "request")
    asked = types.MetadataRequestTopic(topic_id=None, name=topic)
    return types.MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def test_words_of_our_controller_are_carried_out_in_every_version(broker):
    async def play(channel: Channel) -> None:
        for version in VERSIONS[LEADER_AND_ISR]:
            topic = f"of-version-{version}"
            answer = await ask(channel, LEADER_AND_ISR, version, leader_and_isr(version, EPOCH, topic))
            assert answer.error_code is ErrorCode.none
            (partition,) = answer.topics[0].partition_errors
            assert (answer.topics[0].topic_id, partition.error_code) == (TOPIC_ID, ErrorCode.none)
            assert (broker.data_directory / f"{topic}-0").exists()
        for version in VERSIONS[UPDATE_METADATA]:
            topic = f"told-of-in-version-{version}"
            body = update_metadata(version, EPOCH, topic, broker.port)
            assert (await ask(channel, UPDATE_METADATA, version, body)).error_code is ErrorCode.none
            metadata = await ask(channel, METADATA, 12, metadata_request(topic))
            (found,) = metadata.topics
            (partition,) = found.partitions
            assert (found.name, found.topic_id) == (topic, TOPIC_ID)
            assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (0, version, (0, 7))
            assert partition.offline_replicas == (7,)
            assert [(one.node_id, one.port, one.rack) for one in metadata.brokers] == [(0, broker.port, "a-rack")]
        for version in VERSIONS[STOP_REPLICA]:
            topic = f"of-version-{version + 2}"
            answer = await ask(channel, STOP_REPLICA, version, stop_replica(version, EPOCH, topic))
            assert answer.error_code is ErrorCode.none
            (partition,) = answer.partition_errors
            assert (partition.topic_name, partition.error_code) == (topic, ErrorCode.none)
            assert not (broker.data_directory / f"{topic}-0").exists()

    with_channel(broker, play, "0")


def test_words_of_a_controller_that_is_none_any_more_are_refused(broker):
    async def play(channel: Channel) -> None:
        asked = [
            (LEADER_AND_ISR, 7, leader_and_isr(7, STALE_EPOCH, "orders")),
            (UPDATE_METADATA, 8, update_metadata(8, STALE_EPOCH, "orders", 1)),
            (STOP_REPLICA, 4, stop_replica(4, STALE_EPOCH, "orders")),
        ]
        for one in asked:
            assert (await ask(channel, *one)).error_code is ErrorCode.stale_controller_epoch

    with_channel(broker, play, "0")


def test_questions_of_a_broker_are_answered_by_the_controller(broker):
    """With a broker epoch that is not the one of its registration: STALE_BROKER_EPOCH."""

    async def play(channel: Channel) -> None:
        for version in VERSIONS[CONTROLLED_SHUTDOWN]:
            body = message_class(CONTROLLED_SHUTDOWN, version, "request")(broker_id=0, broker_epoch=1)
            answer = await ask(channel, CONTROLLED_SHUTDOWN, version, body)
            assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.stale_broker_epoch, ())
        body = message_class(ALLOCATE_PRODUCER_IDS, 0, "request")(broker_id=0, broker_epoch=1)
        assert (await ask(channel, ALLOCATE_PRODUCER_IDS, 0, body)).error_code is ErrorCode.stale_broker_epoch
        for version in (2, 3):
            body = message_class(ALTER_PARTITION, version, "request")(broker_id=0, broker_epoch=1, topics=())
            answer = await ask(channel, ALTER_PARTITION, version, body)
            assert (answer.error_code, answer.throttle_time) == (ErrorCode.stale_broker_epoch, timedelta(0))

    with_channel(broker, play, "0")

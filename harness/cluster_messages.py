"""What is said in a cluster: the messages of a controller, a leader and clients, as a test writes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from oncelog.cluster.controller.requests import leader_and_isr, stop_replica, update_metadata
from oncelog.records import Record, build_batch
from oncelog.records.batch import stamped
from oncelog.wire import ErrorCode, construct, message_module

API_VERSIONS, FETCH, LIST_OFFSETS, PRODUCE = 18, 1, 2, 0
ADD_PARTITIONS, WRITE_TXN_MARKERS = 24, 27
ALTER_PARTITION, ALLOCATE_PRODUCER_IDS, CONTROLLED_SHUTDOWN = 56, 67, 7
NO_TIME = timedelta(0)
TOPIC, TOPIC_ID = "orders", UUID(int=0x5EED)


def live_broker(broker_id: int, host: str, port: int = 9092) -> Any:
    endpoint = update_metadata.UpdateMetadataEndpoint(port=port, host=host, listener="PLAINTEXT", security_protocol=0)
    return update_metadata.UpdateMetadataBroker(id=broker_id, endpoints=(endpoint,), rack=None)


def known(
    leader: int,
    epoch: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    *,
    indexes: Sequence[int] = (0,),
    topic: str = TOPIC,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """What UpdateMetadata says of partitions of a topic."""
    states = tuple(
        update_metadata.UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=5,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(replicas if isr is None else isr),
            zk_version=epoch,
            replicas=tuple(replicas),
            offline_replicas=(),
        )
        for index in indexes
    )
    return update_metadata.UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)


def led(
    leader: int,
    epoch: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    *,
    partition_epoch: int | None = None,
    indexes: Sequence[int] = (0,),
    topic: str = TOPIC,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """What LeaderAndIsr says of partitions of a topic."""
    states = tuple(
        leader_and_isr.LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=5,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(replicas if isr is None else isr),
            partition_epoch=epoch if partition_epoch is None else partition_epoch,
            replicas=tuple(replicas),
            adding_replicas=(),
            removing_replicas=(),
        )
        for index in indexes
    )
    return leader_and_isr.LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=states)


def stopped(epoch: int, *, delete: bool, indexes: Sequence[int] = (0,), topic: str = TOPIC) -> Any:
    """What StopReplica says of partitions of a topic."""
    states = tuple(
        stop_replica.StopReplicaPartitionState(partition_index=index, leader_epoch=epoch, delete_partition=delete)
        for index in indexes
    )
    return stop_replica.StopReplicaTopicState(topic_name=topic, partition_states=states)


def errors_of(answer: Any) -> list[ErrorCode]:
    """What a LeaderAndIsr or StopReplica was answered, partition by partition."""
    assert answer.error_code is ErrorCode.none, answer
    if hasattr(answer, "partition_errors"):
        return [one.error_code for one in answer.partition_errors]
    return [one.error_code for topic in answer.topics for one in topic.partition_errors]


def produce_request(
    batch: bytes,
    *,
    acks: int = -1,
    index: int = 0,
    topic: str = TOPIC,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
    version: int = 9,
) -> Any:
    types = message_module(PRODUCE, version, "request")
    data = types.PartitionProduceData(index=index, records=batch)
    return types.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(types.TopicProduceData(name=topic, partition_data=(data,)),),
    )


def produced(answer: Any) -> tuple[ErrorCode, int]:
    """What the one partition of a Produce was answered."""
    ((one,),) = (topic.partition_responses for topic in answer.responses)
    return one.error_code, one.base_offset


def fetch_request(
    replica_id: int,
    offset: int,
    *,
    leader_epoch: int = -1,
    broker_epoch: int = -1,
    last_epoch: int = -1,
    log_start_offset: int = 0,
    topic_id: UUID = TOPIC_ID,
) -> Any:
    """A Fetch outside of a session that waits for nothing."""
    types = message_module(FETCH, 17, "request")
    one = construct(
        types.FetchPartition,
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=1 << 20,
    )
    return types.FetchRequest(
        replica_state=types.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(types.FetchTopic(topic_id=topic_id, partitions=(one,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def fetched(answer: Any) -> Any:
    """What the one partition of a Fetch was answered."""
    ((one,),) = (topic.partitions for topic in answer.responses)
    return one


def fetch_answer(
    topic_id: UUID = TOPIC_ID,
    *,
    indexes: Sequence[int] = (0,),
    error: ErrorCode = ErrorCode.none,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    records: bytes = b"",
    diverging: tuple[int, int] | None = None,
    session_id: int = 0,
) -> Any:
    """What a leader answers about each of these partitions; `diverging` is an epoch and where it ends."""
    types = message_module(FETCH, 17, "response")
    fields: dict[str, Any] = {}
    if diverging is not None:
        fields["diverging_epoch"] = types.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    partitions = tuple(
        construct(
            types.PartitionData,
            partition_index=index,
            error_code=error,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=records,
            **fields,
        )
        for index in indexes
    )
    topic = types.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)
    return construct(
        types.FetchResponse,
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        session_id=session_id,
        responses=(topic,),
    )


def alter_answer(body: Any, error: ErrorCode = ErrorCode.none, *, topmost: ErrorCode = ErrorCode.none) -> Any:
    """What a controller answers to AlterPartition v3: that it is done, or why it is not."""
    types = message_module(ALTER_PARTITION, 3, "response")
    topics = tuple(
        types.TopicData(
            topic_id=topic.topic_id,
            partitions=tuple(
                construct(
                    types.PartitionData,
                    partition_index=one.partition_index,
                    error_code=error,
                    leader_id=body.broker_id,
                    leader_epoch=one.leader_epoch,
                    isr=tuple(state.broker_id for state in one.new_isr_with_epochs),
                    leader_recovery_state=0,
                    partition_epoch=one.partition_epoch + 1,
                )
                for one in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return types.AlterPartitionResponse(
        throttle_time=NO_TIME, error_code=topmost, topics=() if topmost is not ErrorCode.none else topics
    )


def records(
    *values: bytes, leader_epoch: int | None = None, base_offset: int = 0, producer: tuple[int, int] | None = None
) -> bytes:
    """One batch; with a leader epoch, as it is in a leader's log; with a producer id and epoch, the first of a transaction."""
    some = [Record(None, value, timestamp_ms=1_700_000_000_000) for value in values]
    if producer is None:
        batch = build_batch(some)
    else:
        batch = build_batch(
            some, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
        )
    return (
        batch if leader_epoch is None else b"".join(bytes(part) for part in stamped(batch, base_offset, leader_epoch))
    )

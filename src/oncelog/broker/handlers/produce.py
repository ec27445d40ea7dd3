"""Produce v3-13: appends record batches to partitions.

v10 tells a client the current leader, which with one broker never differs; v11 lets the broker answer
TRANSACTION_ABORTABLE; from v12 on the partition is added to the transaction by this request (KIP-890); v13 names topics by id.

Every transactional batch is checked with the transaction coordinator, not only the first of a transaction: once a
transaction is prepared, nothing more can slip into it. A batch that is transactional but has no producer id is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncelog.broker.partition import Partition
from oncelog.broker.request import Reply, Request, reply_when, time_or_none
from oncelog.broker.topics import TRANSACTION_STATE, Topic
from oncelog.coordination import Parked
from oncelog.log import Appended, Origin, PartitionLog, Refused
from oncelog.records import (
    BatchHeader,
    Codec,
    RecordsError,
    check_batch,
    read_header,
    recompressed,
    records_without_key,
)
from oncelog.transactions import TopicPartition
from oncelog.transactions.versions import produce_adds_partitions, produce_error
from oncelog.wire import ErrorCode, construct

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

TOPIC_ID_FROM_VERSION = 13
ZSTD_FROM_VERSION = 7
ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to the coordinators' topics, as in Kafka."""

Checked = tuple[Partition, bytes, BatchHeader]


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    if body.acks not in (-1, 0, 1):
        return _answer(request, _every(request, Refused(ErrorCode.invalid_required_acks, f"acks is {body.acks}")))
    results: dict[tuple[Any, int], Appended | Refused] = {}
    checked: dict[tuple[Any, int], Checked] = {}
    for topic_data in body.topic_data:
        key = topic_data.topic_id if request.version >= TOPIC_ID_FROM_VERSION else topic_data.name
        topic = broker.topics.with_id(key) if isinstance(key, UUID) else broker.topics.named(key or "")
        for data in topic_data.partition_data:
            found = _check(request, topic, data)
            if isinstance(found, Refused):
                results[key, data.index] = found
            else:
                checked[key, data.index] = found
    transactional = [entry for entry in checked.values() if entry[2].is_transactional]
    if not transactional:
        return _append(broker, request, checked, results)
    problem = _transactional_problem(request, transactional)
    if problem is not None:
        return _answer(request, _every(request, problem))
    return _append_in_transaction(broker, request, checked, results, transactional[0][2])


def _check(request: Request, topic: Topic | None, data: Any) -> Checked | Refused:
    """Everything that can be said of one partition's records without changing anything."""
    partition = topic.partition(data.index) if topic is not None else None
    if topic is None or partition is None:
        if topic is None and request.version >= TOPIC_ID_FROM_VERSION:
            return Refused(ErrorCode.unknown_topic_id, "no topic has this id")
        return Refused(ErrorCode.unknown_topic_or_partition, "there is no such topic or partition")
    if topic.is_internal and request.client_id != ADMIN_CLIENT_ID:
        return Refused(ErrorCode.invalid_topic_exception, f"{topic.name} is written by the broker alone")
    try:
        header = check_batch(data.records or b"")
    except RecordsError as error:
        return Refused(error.error, f"{partition}: {error}")
    if header.codec is Codec.ZSTD and request.version < ZSTD_FROM_VERSION:
        return Refused(ErrorCode.unsupported_compression_type, "zstd needs Produce v7")
    if header.is_transactional and header.producer_id < 0:
        return Refused(ErrorCode.invalid_record, f"{partition}: a transactional batch has no producer id")
    if header.is_transactional and header.producer_epoch < partition.log.producer_epoch(header.producer_id):
        # Before the coordinator is asked: it may know nothing of a producer id that ran out of epochs (KIP-890).
        return Refused(ErrorCode.invalid_producer_epoch, f"{partition}: epoch {header.producer_epoch} is fenced")
    try:
        return _as_configured(topic, partition, data.records, header)
    except RecordsError as error:
        return Refused(error.error, f"{partition}: {error}")


def _as_configured(topic: Topic, partition: Partition, batch: bytes, header: BatchHeader) -> Checked | Refused:
    """The batch as the topic's settings want it. Raises RecordsError for a malformed record."""
    if "compact" in topic.policies:
        keyless = records_without_key(batch, header)
        if keyless:
            message = f"{partition} is compacted: its records need a key"
            return Refused(ErrorCode.invalid_record, message, tuple((index, message) for index in keyless))
    if topic.codec is None or topic.codec is header.codec:
        return partition, batch, header
    if len(batch) > int(topic.values["max.message.bytes"]):
        # Kafka too looks at the size before and after.
        return Refused(ErrorCode.message_too_large, f"{partition}: a batch of {len(batch)} bytes is too large")
    batch = recompressed(batch, header, topic.codec, topic.compression_level)
    return partition, batch, read_header(batch)


def _transactional_problem(request: Request, batches: list[Checked]) -> Refused | None:
    if not request.body.transactional_id:
        message = "a transactional batch came without a transactional id"
        return Refused(ErrorCode.transactional_id_authorization_failed, message)
    if len({(header.producer_id, header.producer_epoch) for _, _, header in batches}) > 1:
        return Refused(ErrorCode.invalid_producer_id_mapping, "one request has batches of several producers")
    return None


def _append_in_transaction(
    broker: Broker,
    request: Request,
    checked: dict[tuple[Any, int], Checked],
    results: dict[tuple[Any, int], Appended | Refused],
    producer: BatchHeader,
) -> Reply:
    written = [
        (partition.topic, partition.index) for partition, _, header in checked.values() if header.is_transactional
    ]
    asker = (request.body.transactional_id, producer.producer_id, producer.producer_epoch)
    if broker.topics.named(TRANSACTION_STATE) is None:
        allowed = Parked.ready(dict.fromkeys(written, ErrorCode.not_coordinator))
    elif produce_adds_partitions(request.version):
        allowed = _all_as(broker.transactions.add_partitions(*asker, written, tv2=True), written)
    else:
        allowed = Parked.ready(broker.transactions.verify(*asker, written))

    def append() -> Any:
        for key, (partition, _, header) in list(checked.items()):
            error = allowed.value[partition.topic, partition.index] if header.is_transactional else ErrorCode.none
            if error is not ErrorCode.none:
                message = f"{partition}: {request.body.transactional_id} has no transaction open here ({error.name})"
                results[key] = Refused(produce_error(error, request.version), message)
                del checked[key]
        return _append(broker, request, checked, results)

    return reply_when(allowed, append)


def _all_as(error: Parked[ErrorCode], partitions: list[TopicPartition]) -> Parked[dict[TopicPartition, ErrorCode]]:
    every: Parked[dict[TopicPartition, ErrorCode]] = Parked()
    error.then(lambda value: every.release(dict.fromkeys(partitions, value)))
    return every


def _append(
    broker: Broker,
    request: Request,
    checked: dict[tuple[Any, int], Checked],
    results: dict[tuple[Any, int], Appended | Refused],
) -> Reply:
    to_flush: list[PartitionLog] = []
    first_must_be_zero = produce_adds_partitions(request.version)
    for key, (partition, batch, header) in checked.items():
        result = partition.append(
            batch,
            header,
            Origin.CLIENT,
            verified=header.is_transactional,
            first_sequence_must_be_zero=first_must_be_zero and header.is_transactional,
        )
        results[key] = result
        if isinstance(result, Appended) and partition.log.needs_flush(broker.clock.now_ms()):
            to_flush.append(partition.log)
    if to_flush:
        return reply_when(broker.durability.make_durable(to_flush), lambda: _answer(request, results))
    return _answer(request, results)


def _every(request: Request, refused: Refused) -> dict[tuple[Any, int], Appended | Refused]:
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    return {
        (topic.topic_id if by_id else topic.name, data.index): refused
        for topic in request.body.topic_data
        for data in topic.partition_data
    }


def _answer(request: Request, results: dict[tuple[Any, int], Appended | Refused]) -> Any:
    if request.body.acks == 0:
        refused = next((result for result in results.values() if isinstance(result, Refused)), None)
        if refused is not None:
            # With acks=0 closing the connection is the only way to tell (Kafka does the same).
            request.connection.close(refused.message)
        return None
    types = request.types
    responses = []
    for topic in request.body.topic_data:
        key = topic.topic_id if request.version >= TOPIC_ID_FROM_VERSION else topic.name
        partitions = tuple(_partition(types, data.index, results[key, data.index]) for data in topic.partition_data)
        responses.append(construct(types.TopicProduceResponse, name=key, topic_id=key, partition_responses=partitions))
    return request.answer(responses=tuple(responses))


def _partition(types: Any, index: int, result: Appended | Refused) -> Any:
    if isinstance(result, Refused):
        return construct(
            types.PartitionProduceResponse,
            index=index,
            error_code=result.error,
            base_offset=-1,
            log_append_time=None,
            log_start_offset=-1,
            record_errors=_record_errors(types, result),
            error_message=result.message,
        )
    return construct(
        types.PartitionProduceResponse,
        index=index,
        error_code=ErrorCode.none,
        base_offset=result.base_offset,
        log_append_time=time_or_none(result.log_append_time_ms),
        log_start_offset=result.log_start_offset,
        record_errors=(),
    )


def _record_errors(types: Any, refused: Refused) -> tuple[Any, ...]:
    """What is wrong with single records, which is told from v8 on."""
    if not hasattr(types, "BatchIndexAndErrorMessage"):
        return ()
    return tuple(
        types.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in refused.record_errors
    )

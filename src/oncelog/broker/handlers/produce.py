"""Produce v3-13: appends record batches to partitions.

v10 tells a client who leads in place of this broker (KIP-951); v11 lets the broker answer
TRANSACTION_ABORTABLE; from v12 on the partition is added to the transaction by this request (KIP-890); v13 names topics by id.

Every transactional batch is checked with the transaction coordinator, not only the first of a transaction: once a
transaction is prepared, nothing more can slip into it. A batch that is transactional but has no producer id is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from oncelog.broker.coordinators.session_guard import TransactionalProducer
from oncelog.broker.coordinators.verification import PartitionVerification
from oncelog.broker.leaders import MovedLeaders
from oncelog.broker.readiness import Readiness, StartProgress
from oncelog.broker.request import Request, time_or_none
from oncelog.broker.slices import NO_MEMORY, Turn, beside
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topic, Topics
from oncelog.broker.view import ClusterView
from oncelog.coordination import Promise
from oncelog.coordination.deadline import Deadline
from oncelog.environment import Clock, RefusedError, Workers
from oncelog.log import Appended, Origin, PartitionLog, Refused
from oncelog.records import BatchHeader, Codec, Effort, Form, Prepared, RecordsError, prepare
from oncelog.transactions.versions import produce_adds_partitions, produce_error
from oncelog.wire import ErrorCode, construct

ALL_IN_SYNC = -1
"""acks=all: the batch is with every replica that is in sync before the answer is given."""
TOPIC_ID_FROM_VERSION = 13
ZSTD_FROM_VERSION = 7
LEADER_FROM_VERSION = 10
MOVED = (ErrorCode.not_leader_or_follower,)
ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to the coordinators' topics, as in Kafka."""
APPENDED_AT_ONCE = 100
"""Batches of one request. The coordinator is asked for so many, and nothing comes between its answer and their appends."""

Key = tuple[UUID | str, int]
"""A topic as the request names it, and the index of a partition."""
Results = dict[Key, Appended | Refused]


class Checked(NamedTuple):
    """A batch that may be appended, and where. The topic's name is for the coordinator and for messages."""

    topic_id: UUID
    topic: str
    partition: int
    batch: bytes
    header: BatchHeader


async def handle(
    request: Request,
    clock: Clock,
    durability: Durability,
    progress: StartProgress,
    topics: Topics,
    verification: PartitionVerification,
    view: ClusterView,
    workers: Workers,
) -> Any:
    body = request.body
    turn = Turn(clock)
    if body.transactional_id is not None or request.client_id == ADMIN_CLIENT_ID:
        await progress.until(Readiness.COORDINATORS)
    if body.acks not in (-1, 0, 1):
        refused = Refused(ErrorCode.invalid_required_acks, f"acks is {body.acks}")
        return await _answer(topics, view, request, turn, _every(request, refused))
    results: Results = {}
    checked: dict[Key, Checked] = {}
    for topic_data in body.topic_data:
        name = topic_data.topic_id if request.version >= TOPIC_ID_FROM_VERSION else topic_data.name
        for data in topic_data.partition_data:
            found = _check(topics, request, name, data) or await _check_beside(topics, workers, request, name, data)
            if isinstance(found, Refused):
                results[name, data.index] = found
            else:
                checked[name, data.index] = found
            if turn.is_over:
                await turn.rest()
    transactional = {key: batch for key, batch in checked.items() if batch.header.is_transactional}
    problem = _transactional_problem(request, transactional.values()) if transactional else None
    if problem is not None:
        return await _answer(topics, view, request, turn, _every(request, problem))
    replicating: dict[Key, Promise[ErrorCode]] = {}
    for part in _parts(checked):
        if transactional:
            outside = await _refused_by_coordinator(verification, request, part)
            if outside is None:
                return None
            results |= outside
        to_flush = _append_all(clock, topics, request, part, results, replicating)
        if to_flush:
            if not await durability.make_durable(to_flush):
                results |= _gone_offline(topics, part)
            # Others were served while the disk was waited for.
            turn.begin()
        if turn.is_over:
            await turn.rest()
    if replicating:
        results |= await _replicated(clock, checked, replicating, body.timeout.total_seconds() * 1000)
        turn.begin()
    return await _answer(topics, view, request, turn, results)


def _parts(checked: dict[Key, Checked]) -> Iterator[Mapping[Key, Checked]]:
    if len(checked) <= APPENDED_AT_ONCE:
        yield checked
        return
    batches = iter(checked.items())
    while part := dict(islice(batches, APPENDED_AT_ONCE)):
        yield part


def _find(topics: Topics, request: Request, name: UUID | str | None, index: int) -> tuple[Topic, Partition] | Refused:
    topic = topics.with_id(name) if isinstance(name, UUID) else topics.named(name or "")
    if topic is None and request.version >= TOPIC_ID_FROM_VERSION:
        return Refused(ErrorCode.unknown_topic_id, "no topic has this id")
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        return Refused(ErrorCode.unknown_topic_or_partition, "there is no such topic or partition")
    if partition.problem is not None:
        return partition.refused(partition.problem)
    return _full(partition) if partition.directory.is_full else (topic, partition)


def _check(topics: Topics, request: Request, name: UUID | str | None, data: Any) -> Checked | Refused | None:
    """All that can be said of one partition's records without changing anything; None if saying it takes long."""
    found = _find(topics, request, name, data.index)
    if isinstance(found, Refused):
        return found
    topic, partition = found
    if topic.is_internal and request.client_id != ADMIN_CLIENT_ID:
        return Refused(ErrorCode.invalid_topic_exception, f"{topic.name} is written by the broker alone")
    batch, form = data.records or b"", topic.form
    if len(batch) > form.size_bytes_max:
        message = f"{partition}: a batch of {len(batch)} bytes is larger than {form.size_bytes_max}"
        return Refused(ErrorCode.message_too_large, message)
    try:
        prepared = _prepare(batch, form, Effort.SMALL)
    except MemoryError as error:
        raise RefusedError(NO_MEMORY) from error
    return None if prepared is None else _accept(request, topic, partition, prepared)


async def _check_beside(
    topics: Topics, workers: Workers, request: Request, name: UUID | str | None, data: Any
) -> Checked | Refused:
    """A small batch may take seconds and a hundred megabytes: one at a time, and not from those who are served meanwhile."""
    found = _find(topics, request, name, data.index)
    assert not isinstance(found, Refused), "it was checked just now"
    form = found[0].form
    prepared: Prepared | Refused | None = None
    for effort in (Effort.LARGE, Effort.ANY):
        work = partial(_prepare, data.records, form, effort)
        prepared = prepared or await beside(workers, work, is_long=effort is Effort.ANY)
    assert prepared is not None, "nothing is more work than any"
    found = _find(topics, request, name, data.index)
    return found if isinstance(found, Refused) else _accept(request, *found, prepared)


def _prepare(batch: bytes, form: Form, effort: Effort) -> Prepared | Refused | None:
    try:
        return prepare(batch, form, effort)
    except RecordsError as error:
        # The error itself would keep the records for as long as it lives.
        return Refused(error.error, str(error))


def _accept(request: Request, topic: Topic, partition: Partition, prepared: Prepared | Refused) -> Checked | Refused:
    if isinstance(prepared, Refused):
        return Refused(prepared.error, f"{partition}: {prepared.message}")
    header = prepared.header
    if prepared.sent_codec is Codec.ZSTD and request.version < ZSTD_FROM_VERSION:
        return Refused(ErrorCode.unsupported_compression_type, "zstd needs Produce v7")
    if header.is_transactional and header.producer_epoch < partition.log.producers.epoch_of(header.producer_id):
        # Before the coordinator is asked: it may know nothing of a producer id that ran out of epochs (KIP-890).
        return Refused(ErrorCode.invalid_producer_epoch, f"{partition}: epoch {header.producer_epoch} is fenced")
    if prepared.keyless:
        message = f"{partition} is compacted: its records need a key"
        return Refused(ErrorCode.invalid_record, message, tuple((place, message) for place in prepared.keyless))
    return Checked(topic.topic_id, topic.name, partition.index, prepared.batch, header)


def _transactional_problem(request: Request, batches: Collection[Checked]) -> Refused | None:
    if not request.body.transactional_id:
        message = "a transactional batch came without a transactional id"
        return Refused(ErrorCode.transactional_id_authorization_failed, message)
    if len({(batch.header.producer_id, batch.header.producer_epoch) for batch in batches}) > 1:
        return Refused(ErrorCode.invalid_producer_id_mapping, "one request has batches of several producers")
    return None


async def _refused_by_coordinator(
    verification: PartitionVerification, request: Request, checked: Mapping[Key, Checked]
) -> dict[Key, Refused] | None:
    """The batches that are in no open transaction of their producer; None if the request comes late.

    From v12 on they are added to one.
    """
    batches = {key: batch for key, batch in checked.items() if batch.header.is_transactional}
    if not batches:
        return {}
    transactional_id = request.body.transactional_id
    partitions = [(batch.topic, batch.partition) for batch in batches.values()]
    header = next(iter(batches.values())).header
    producer = TransactionalProducer(transactional_id, header.producer_id, header.producer_epoch)
    adds = produce_adds_partitions(request.version)
    errors = await verification.check(request, producer, partitions, partitions, adds=adds)
    if errors is None:
        return None
    refused: dict[Key, Refused] = {}
    for key, batch in batches.items():
        error = errors[batch.topic, batch.partition]
        if error is not ErrorCode.none:
            message = f"{batch.topic}-{batch.partition}: {transactional_id} has no transaction open here ({error.name})"
            refused[key] = Refused(produce_error(error, request.version), message)
    return refused


def _append_all(
    clock: Clock,
    topics: Topics,
    request: Request,
    checked: Mapping[Key, Checked],
    results: Results,
    replicating: dict[Key, Promise[ErrorCode]],
) -> list[PartitionLog]:
    """Append the batches, say what became of each, and return the logs that `flush.messages` wants on disk now.

    What other brokers have to have is noted in the same breath: later this broker may lead the partition no more, or again.
    """
    to_flush: list[PartitionLog] = []
    first_must_be_zero = produce_adds_partitions(request.version)
    for key, batch in checked.items():
        if key in results:
            continue
        topic = topics.with_id(batch.topic_id)
        partition = topic.partition(batch.partition) if topic is not None else None
        if partition is None:
            results[key] = Refused(ErrorCode.unknown_topic_or_partition, f"topic {batch.topic} was deleted")
            continue
        if partition.problem is not None:
            results[key] = partition.refused(partition.problem)
            continue
        if partition.directory.is_full:
            results[key] = _full(partition)
            continue
        if request.body.acks == ALL_IN_SYNC:
            refused = partition.leading.refuses()
            if refused is not None:
                results[key] = refused
                continue
        is_transactional = batch.header.is_transactional
        result = results[key] = partition.append(
            batch.batch,
            batch.header,
            Origin.CLIENT,
            verified=is_transactional,
            first_sequence_must_be_zero=first_must_be_zero and is_transactional,
        )
        if isinstance(result, Appended) and request.body.acks == ALL_IN_SYNC:
            replicating[key] = partition.leading.committed(result.last_offset + 1)
        if isinstance(result, Appended) and partition.log.durability.needs_flush(clock.now_ms()):
            to_flush.append(partition.log)
    return to_flush


async def _replicated(
    clock: Clock, checked: Mapping[Key, Checked], replicating: Mapping[Key, Promise[ErrorCode]], timeout_ms: float
) -> Results:
    """Wait until every replica that is in sync has the batches; return those of which that is not certain, and why."""
    deadline = Deadline(clock, timeout_ms)
    uncertain: Results = {}
    try:
        for key, committed in replicating.items():
            error = committed.value if await deadline.until(committed) else ErrorCode.request_timed_out
            if error is not ErrorCode.none:
                batch = checked[key]
                message = f"{batch.topic}-{batch.partition}: not every replica has it, or nobody knows ({error.name})"
                uncertain[key] = Refused(error, message)
    finally:
        deadline.end()
    return uncertain


def _gone_offline(topics: Topics, batches: Mapping[Key, Checked]) -> Results:
    """Refuse the batches whose log directory failed while they were made durable: nobody knows what it has."""
    gone: Results = {}
    for key, batch in batches.items():
        topic = topics.with_id(batch.topic_id)
        partition = topic.partition(batch.partition) if topic is not None else None
        if partition is not None and partition.is_offline:
            gone[key] = partition.refused(ErrorCode.kafka_storage_error)
    return gone


def _full(partition: Partition) -> Refused:
    return Refused(ErrorCode.kafka_storage_error, f"{partition}: the disk of {partition.directory.path} is full")


def _every(request: Request, refused: Refused) -> Results:
    by_id = request.version >= TOPIC_ID_FROM_VERSION
    return {
        (topic.topic_id if by_id else topic.name, data.index): refused
        for topic in request.body.topic_data
        for data in topic.partition_data
    }


async def _answer(topics: Topics, view: ClusterView, request: Request, turn: Turn, results: Results) -> Any:
    if request.body.acks == 0:
        refused = next((result for result in results.values() if isinstance(result, Refused)), None)
        if refused is not None:
            # With acks=0 closing the connection is the only way to tell (Kafka does the same).
            request.connection.close(refused.message)
        return None
    types = request.types
    leaders = MovedLeaders(topics, view, request, MOVED if request.version >= LEADER_FROM_VERSION else ())
    named_by = "topic_id" if request.version >= TOPIC_ID_FROM_VERSION else "name"
    responses = []
    for topic in request.body.topic_data:
        name = getattr(topic, named_by)
        partitions = await turn.each(topic.partition_data, partial(_partition, types, name, results, leaders))
        responses.append(types.TopicProduceResponse(**{named_by: name}, partition_responses=partitions))
    return request.answer(responses=tuple(responses), **leaders.endpoints())


def _partition(types: Any, topic: UUID | str, results: Results, leaders: MovedLeaders, data: Any) -> Any:
    index = data.index
    result = results[topic, index]
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
            **leaders.current(topic, index, result.error),
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
    """The errors of single records, which answers have from v8 on."""
    if not hasattr(types, "BatchIndexAndErrorMessage"):
        return ()
    return tuple(
        types.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in refused.record_errors
    )

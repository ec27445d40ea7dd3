"""AddPartitionsToTxn v0-5: adds partitions to the open transaction, or begins one.

Up to v3 a client asks for one transactional id; v4 is what leaders ask the coordinator: many at once, and `verify only`.
Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH. One partition that does not exist, or is a coordinator's, keeps all
others from being added: they are answered OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from oncelog.broker.access import Access
from oncelog.broker.coordinators.session_guard import FixedPlace, SessionGuard, TransactionalProducer
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import INTERNAL_TOPICS, TRANSACTION_STATE, Topics
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.transactions import TopicPartition
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode

BATCHED_FROM_VERSION = 4
NOT_ADDED_BY_BROKERS = (TRANSACTION_STATE,)
"""A coordinator of groups adds the partition of a group whose offsets a producer has sent it (TxnOffsetCommit v5)."""

Errors = Mapping[TopicPartition, ErrorCode]


async def handle(
    request: Request,
    access: Access,
    clock: Clock,
    session_guard: SessionGuard,
    topics: Topics,
    transactions: Transactions,
) -> Any:
    body = request.body
    turn = Turn(clock)
    if request.version < BATCHED_FROM_VERSION:
        producer = TransactionalProducer(
            body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
        )
        errors = await _add(session_guard, topics, transactions, request, turn, producer, body.v3_and_below_topics)
        if errors is None:
            return None
        results = await _topics(request, turn, body.v3_and_below_topics, errors)
        return request.answer(results_by_topic_v3_and_below=results)
    if not access.is_broker(request.connection):
        access.refused("AddPartitionsToTxn", request.connection)
        return request.answer(error_code=ErrorCode.cluster_authorization_failed, results_by_transaction=())
    # All at once: an id that is in the middle of something holds back its own answer alone.
    under_way = await turn.each(
        body.transactions, lambda transaction: start(_add_or_verify(clock, topics, transactions, transaction))
    )
    found = [await errors for errors in under_way]
    # Others were served while one of them was waited for.
    turn.begin()
    answers = [
        request.types.AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=await _topics(request, turn, transaction.topics, errors),
        )
        for transaction, errors in zip(body.transactions, found, strict=True)
    ]
    return request.answer(error_code=ErrorCode.none, results_by_transaction=tuple(answers))


async def _add_or_verify(clock: Clock, topics: Topics, transactions: Transactions, transaction: Any) -> Errors:
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    partitions = _named(transaction.topics)
    if transaction.verify_only:
        return transactions.verify(*producer, partitions)
    refused = await _refused(topics, Turn(clock), partitions, NOT_ADDED_BY_BROKERS)
    if refused is not None:
        return refused
    return dict.fromkeys(partitions, await transactions.add_partitions(*producer, partitions, tv2=True))


async def _add(
    session_guard: SessionGuard,
    topics: Topics,
    transactions: Transactions,
    request: Request,
    turn: Turn,
    producer: TransactionalProducer,
    asked: Any,
) -> Errors | None:
    """None for a request that comes late. Nothing waits between the answer of the guard and what it is asked for."""
    partitions = _named(asked)
    refused = await _refused(topics, turn, partitions, INTERNAL_TOPICS)
    if not session_guard.admits(request, producer, [FixedPlace.PARTITIONS]):
        return None
    if refused is not None:
        return refused
    error = await transactions.add_partitions(*producer, partitions, tv2=False)
    # Others were served while the id was in the middle of something.
    turn.begin()
    return dict.fromkeys(partitions, error)


async def _refused(
    topics: Topics, turn: Turn, partitions: Sequence[TopicPartition], internal: Sequence[str]
) -> Errors | None:
    """The errors of the request itself, whatever the state of the transaction; None without any."""
    problems = await turn.each(partitions, lambda partition: _problem(topics, internal, *partition))
    wrong = {one: error for one, error in zip(partitions, problems, strict=True) if error is not None}
    return dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | wrong if wrong else None


def _problem(topics: Topics, internal: Sequence[str], topic: str, index: int) -> ErrorCode | None:
    if topic in internal:
        # Kafka too, whatever rights a client has: the coordinators write there.
        return ErrorCode.topic_authorization_failed
    return ErrorCode.unknown_topic_or_partition if topics.partition(topic, index) is None else None


def _named(topics: Any) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


async def _topics(request: Request, turn: Turn, topics: Any, errors: Errors) -> tuple[Any, ...]:
    results = []
    for topic in topics:
        partitions = await turn.each(topic.partitions, partial(_result, request, topic.name, errors))
        results.append(request.types.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return tuple(results)


def _result(request: Request, topic: str, errors: Errors, index: int) -> Any:
    return request.types.AddPartitionsToTxnPartitionResult(
        partition_index=index, partition_error_code=transaction_error(errors[topic, index], request.version)
    )

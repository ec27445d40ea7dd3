"""AddPartitionsToTxn v0-5: adds partitions to the open transaction, or begins one.

Up to v3 a client asks for one transactional id; v4 is what leaders ask the coordinator: many at once, and `verify only`.
Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH. One partition that does not exist keeps all others from being
added: they are answered OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncelog.broker.request import Reply, Request, reply_when
from oncelog.broker.topics import TRANSACTION_STATE
from oncelog.coordination import Parked, all_of
from oncelog.transactions import TopicPartition
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

BATCHED_FROM_VERSION = 4

Errors = Mapping[TopicPartition, ErrorCode]


def handle(broker: Broker, request: Request) -> Reply:
    body = request.body
    if request.version < BATCHED_FROM_VERSION:
        errors = _add(
            broker,
            body.v3_and_below_transactional_id,
            body.v3_and_below_producer_id,
            body.v3_and_below_producer_epoch,
            body.v3_and_below_topics,
            tv2=False,
        )
        return reply_when(
            errors,
            lambda: request.answer(
                results_by_topic_v3_and_below=_topics(request, body.v3_and_below_topics, errors.value)
            ),
        )
    every = all_of([_add_or_verify(broker, transaction) for transaction in body.transactions])
    return reply_when(every, lambda: _answer_batched(request, every.value))


def _answer_batched(request: Request, errors: list[Errors]) -> Any:
    return request.answer(
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            request.types.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_topics(request, transaction.topics, found),
            )
            for transaction, found in zip(request.body.transactions, errors, strict=True)
        ),
    )


def _add_or_verify(broker: Broker, transaction: Any) -> Parked[Errors]:
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return Parked.ready(broker.transactions.verify(*producer, _named(transaction.topics)))
    return _add(broker, *producer, transaction.topics, tv2=True)


def _add(
    broker: Broker, transactional_id: str, producer_id: int, producer_epoch: int, topics: Any, *, tv2: bool
) -> Parked[Errors]:
    partitions = _named(topics)
    if broker.topics.named(TRANSACTION_STATE) is None:
        return Parked.ready(dict.fromkeys(partitions, ErrorCode.not_coordinator))
    unknown = [partition for partition in partitions if broker.topics.partition(*partition) is None]
    if unknown:
        errors = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
        return Parked.ready(errors | dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition))
    answer: Parked[Errors] = Parked()
    broker.transactions.add_partitions(transactional_id, producer_id, producer_epoch, partitions, tv2=tv2).then(
        lambda error: answer.release(dict.fromkeys(partitions, error))
    )
    return answer


def _named(topics: Any) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _topics(request: Request, topics: Any, errors: Errors) -> tuple[Any, ...]:
    types = request.types
    return tuple(
        types.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                types.AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=transaction_error(errors[topic.name, index], request.version),
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )

"""AddPartitionsToTxn v0-5: adds partitions to the open transaction, or begins one.

Up to v3 a client asks for one transactional id; v4 is what leaders ask the coordinator: many at once, and `verify only`.
Before v2 a fenced producer is told INVALID_PRODUCER_EPOCH. One partition that does not exist, or is a coordinator's, keeps all
others from being added: they are answered OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.request import Request
from oncelog.broker.storage.topics import INTERNAL_TOPICS
from oncelog.coordination import start
from oncelog.transactions import TopicPartition
from oncelog.transactions.versions import transaction_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.topics import Topics

BATCHED_FROM_VERSION = 4

Errors = Mapping[TopicPartition, ErrorCode]


class Needs(Protocol):
    """What this API needs of the broker."""

    topics: Topics
    transactions: Transactions


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    if request.version < BATCHED_FROM_VERSION:
        errors = await _add(
            broker,
            body.v3_and_below_transactional_id,
            body.v3_and_below_producer_id,
            body.v3_and_below_producer_epoch,
            body.v3_and_below_topics,
            tv2=False,
        )
        return request.answer(results_by_topic_v3_and_below=_topics(request, body.v3_and_below_topics, errors))
    # All at once: an id that is in the middle of something holds back its own answer alone.
    under_way = [start(_add_or_verify(broker, transaction)) for transaction in body.transactions]
    return _answer_batched(request, [await errors for errors in under_way])


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


async def _add_or_verify(broker: Needs, transaction: Any) -> Errors:
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        partitions = _named(transaction.topics)
        if not broker.transactions.coordinates(transaction.transactional_id):
            return dict.fromkeys(partitions, ErrorCode.not_coordinator)
        return broker.transactions.verify(*producer, partitions)
    return await _add(broker, *producer, transaction.topics, tv2=True)


async def _add(
    broker: Needs, transactional_id: str, producer_id: int, producer_epoch: int, topics: Any, *, tv2: bool
) -> Errors:
    partitions = _named(topics)
    if not broker.transactions.coordinates(transactional_id):
        return dict.fromkeys(partitions, ErrorCode.not_coordinator)
    wrong = {partition: error for partition in partitions if (error := _problem(broker, *partition)) is not None}
    if wrong:
        return dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | wrong
    error = await broker.transactions.add_partitions(transactional_id, producer_id, producer_epoch, partitions, tv2=tv2)
    return dict.fromkeys(partitions, error)


def _problem(broker: Needs, topic: str, index: int) -> ErrorCode | None:
    if topic in INTERNAL_TOPICS:
        # Kafka too, whatever rights a client has: the coordinators write there.
        return ErrorCode.topic_authorization_failed
    return ErrorCode.unknown_topic_or_partition if broker.topics.partition(topic, index) is None else None


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

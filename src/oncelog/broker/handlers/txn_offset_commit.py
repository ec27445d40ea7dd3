"""TxnOffsetCommit v0-5: stores a group's offsets as part of a transaction: they count when it is committed.

v3 says which member of the group asks (KIP-447); v4 may be answered TRANSACTION_ABORTABLE; v5 adds the group to the
transaction by itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.broker.coordinators.session_guard import FixedPlace, SessionGuard, TransactionalProducer
from oncelog.broker.handlers.offset_commit import offset_to_commit, takes_offsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.groups import CommitContext, OffsetToCommit
from oncelog.transactions.versions import offset_commit_adds_partitions, transactional_offset_commit_error
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.coordinators.verification import TransactionVerification
    from oncelog.broker.storage.topics import Topics
    from oncelog.broker.view import ClusterView
    from oncelog.environment import Clock

Key = tuple[str, int]


class Needs(Protocol):
    """What this API needs of the broker."""

    clock: Clock
    offsets: CommittedOffsets
    session_guard: SessionGuard
    topics: Topics
    transactions: Transactions
    verification: TransactionVerification
    view: ClusterView


async def handle(broker: Needs, request: Request) -> Any:
    body = request.body
    home = (CONSUMER_OFFSETS, broker.offsets.partition_for(body.group_id))
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    errors: dict[Key, ErrorCode] = {}
    # Kafka asks neither coordinator about partitions of which there is none.
    if next(_found(broker, request), None) is not None:
        error = await _problem(broker, request, producer, home)
        if error is None:
            return None
        errors = await _commit(broker, request, error)
    return await _answer(broker, request, errors)


async def _commit(broker: Needs, request: Request, error: ErrorCode) -> dict[Key, ErrorCode]:
    """What became of each partition that there is; all of them have this error, if it is one."""
    body, wanted = request.body, list(_found(broker, request))
    answers: Sequence[ErrorCode] = [error] * len(wanted)
    if error is ErrorCode.none:
        answers = await broker.offsets.commit_in_transaction(
            body.group_id, _member(body), wanted, (body.producer_id, body.producer_epoch)
        )
    return {
        (offset.topic, offset.partition): transactional_offset_commit_error(answer, request.version)
        for offset, answer in zip(wanted, answers, strict=True)
    }


def _found(broker: Needs, request: Request) -> Iterator[OffsetToCommit]:
    """What is asked for of the partitions that there are now."""
    for topic in request.body.topics:
        found = broker.topics.named(topic.name)
        if found is None:
            continue
        for asked in topic.partitions:
            if takes_offsets(broker.topics, found, asked.partition_index):
                yield offset_to_commit(found, asked)


async def _problem(broker: Needs, request: Request, producer: TransactionalProducer, home: Key) -> ErrorCode | None:
    """Why the group's partition is in no open transaction of the producer; None if the request comes late.

    No wait may come between this and the append.
    """
    # The group is coordinated here; the transaction may be so on another broker.
    error = broker.offsets.error(request.body.group_id)
    if error is not ErrorCode.none:
        return error
    if broker.topics.named(CONSUMER_OFFSETS) is None:
        return ErrorCode.not_coordinator
    if offset_commit_adds_partitions(request.version):
        return (await broker.verification.add(producer, [home]))[home]
    verified = await broker.verification.verify(request, producer, [home], [FixedPlace.OFFSET_COMMIT])
    return None if verified is None else verified[home]


def _member(body: Any) -> CommitContext:
    return CommitContext(
        getattr(body, "member_id", ""), getattr(body, "generation_id", -1), getattr(body, "group_instance_id", None)
    )


async def _answer(broker: Needs, request: Request, errors: dict[Key, ErrorCode]) -> Any:
    turn = Turn(broker.clock)
    topics = []
    for topic in request.body.topics:
        partitions = await turn.each(topic.partitions, partial(_result, request, topic.name, errors))
        topics.append(request.types.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _result(request: Request, topic: str, errors: dict[Key, ErrorCode], asked: Any) -> Any:
    """A partition that nobody answered for is not there."""
    error = errors.get((topic, asked.partition_index), ErrorCode.unknown_topic_or_partition)
    return request.types.TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)

"""TxnOffsetCommit v0-5: stores a group's offsets as part of a transaction: they count when it is committed.

v3 says which member of the group asks (KIP-447); v4 may be answered TRANSACTION_ABORTABLE; v5 adds the group to the
transaction by itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.session_guard import FixedPlace, TransactionalProducer
from oncelog.broker.coordinators.verification import PartitionVerification
from oncelog.broker.handlers.offset_commit import offset_to_commit, takes_offsets
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topics
from oncelog.environment import Clock
from oncelog.groups import CommitContext, OffsetToCommit
from oncelog.transactions.versions import offset_commit_adds_partitions, transactional_offset_commit_error
from oncelog.wire import ErrorCode

Key = tuple[str, int]


async def handle(
    request: Request, clock: Clock, offsets: CommittedOffsets, topics: Topics, verification: PartitionVerification
) -> Any:
    body = request.body
    home = (CONSUMER_OFFSETS, offsets.partition_for(body.group_id))
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    errors: dict[Key, ErrorCode] = {}
    # Kafka asks neither coordinator about partitions of which there is none.
    if next(_found(topics, request), None) is not None:
        error = await _problem(offsets, topics, verification, request, producer, home)
        if error is None:
            return None
        errors = await _commit(offsets, topics, request, error)
    return await _answer(clock, request, errors)


async def _commit(
    offsets: CommittedOffsets, topics: Topics, request: Request, error: ErrorCode
) -> dict[Key, ErrorCode]:
    """Return the outcome of each partition that exists; with `error` it is that of all."""
    body, wanted = request.body, list(_found(topics, request))
    answers: Sequence[ErrorCode] = [error] * len(wanted)
    if error is ErrorCode.none:
        answers = await offsets.commit_in_transaction(
            body.group_id, _member(body), wanted, (body.producer_id, body.producer_epoch)
        )
    return {
        (offset.topic, offset.partition): transactional_offset_commit_error(answer, request.version)
        for offset, answer in zip(wanted, answers, strict=True)
    }


def _found(topics: Topics, request: Request) -> Iterator[OffsetToCommit]:
    """The offsets for the partitions that exist now."""
    for topic in request.body.topics:
        found = topics.named(topic.name)
        if found is None:
            continue
        for asked in topic.partitions:
            if takes_offsets(topics, found, asked.partition_index):
                yield offset_to_commit(found, asked)


async def _problem(
    offsets: CommittedOffsets,
    topics: Topics,
    verification: PartitionVerification,
    request: Request,
    producer: TransactionalProducer,
    home: Key,
) -> ErrorCode | None:
    """The error if the group's partition is in no open transaction of the producer; None if the request comes late.

    No wait may come between this and the append.
    """
    error = offsets.error(request.body.group_id)
    if error is not ErrorCode.none:
        return error
    if topics.named(CONSUMER_OFFSETS) is None:
        return ErrorCode.not_coordinator
    adds = offset_commit_adds_partitions(request.version)
    errors = await verification.check(request, producer, [home], [FixedPlace.OFFSET_COMMIT], adds=adds)
    return None if errors is None else errors[home]


def _member(body: Any) -> CommitContext:
    return CommitContext(
        getattr(body, "member_id", ""), getattr(body, "generation_id", -1), getattr(body, "group_instance_id", None)
    )


async def _answer(clock: Clock, request: Request, errors: dict[Key, ErrorCode]) -> Any:
    turn = Turn(clock)
    topics = []
    for topic in request.body.topics:
        partitions = await turn.each(topic.partitions, partial(_result, request, topic.name, errors))
        topics.append(request.types.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return request.answer(topics=tuple(topics))


def _result(request: Request, topic: str, errors: dict[Key, ErrorCode], asked: Any) -> Any:
    """A partition that nobody answered for is not there."""
    error = errors.get((topic, asked.partition_index), ErrorCode.unknown_topic_or_partition)
    return request.types.TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)

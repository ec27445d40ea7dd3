"""Asking the transaction coordinator whether a transaction contains a partition, before the first of its batches is appended.

KIP-890: without that a batch that comes late would begin a transaction which nobody ends. For a producer of the second
generation, which leaves that to brokers, the partition is added. The coordinator may be on another broker. Between its answer
and the append the transaction may end here: then the batch is refused.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.session_guard import Place, TransactionalProducer
from oncelog.broker.request import Request
from oncelog.broker.storage.topics import TRANSACTION_STATE
from oncelog.cluster.channel import ChannelError
from oncelog.wire import ErrorCode, message_class, message_module

if TYPE_CHECKING:
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.topics import Topics
    from oncelog.cluster.channel import Channels
    from oncelog.cluster.members import ClusterMembers

logger = logging.getLogger("oncelog.broker")

ADD_PARTITIONS, LOWEST, HIGHEST = 24, 4, 5
AWAY, BUSY = ErrorCode.coordinator_not_available, ErrorCode.concurrent_transactions
NOT_ANNOUNCED = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted})
"""Errors of a coordinator whose metadata is late: it does not know one of the partitions, and has added none."""
TopicPartition = tuple[str, int]
Errors = dict[TopicPartition, ErrorCode]


class TransactionVerification:
    """`timeout_ms` is request.timeout.ms."""

    def __init__(
        self, topics: Topics, transactions: Transactions, members: ClusterMembers, channels: Channels, timeout_ms: int
    ) -> None:
        self._topics = topics
        self._transactions = transactions
        self._members = members
        self._channels = channels
        self._timeout_ms = timeout_ms

    async def check(
        self,
        request: Request,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        places: Sequence[Place],
        *,
        adds: bool,
    ) -> Errors:
        """As `PartitionVerification` says it. None comes late: what has to be known of that, the coordinator knows."""
        return await (self.add(producer, partitions) if adds else self.verify(producer, partitions))

    async def verify(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Errors:
        """Verifies that each partition is in the producer's open transaction. No wait may come between this and the appends.

        Errors: those of the coordinator; not_coordinator, coordinator_not_available, network_exception if it was not reached;
        invalid_txn_state if the transaction has ended meanwhile, not_leader_or_follower if it may have.
        """
        unknown = [one for one in partitions if not self._is_open(one, producer.producer_id)]
        return dict.fromkeys(partitions, ErrorCode.none) | await self._guarded(producer, unknown, is_addition=False)

    async def add(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Errors:
        """Have each in the producer's transaction, which begins where none is open.

        Errors: those of `verify`, but concurrent_transactions where a transaction has ended meanwhile: it may be the one before.
        """
        unknown = [
            one
            for one in partitions
            if not (self._is_open(one, producer.producer_id) and self._epoch(one, producer) == producer.epoch)
        ]
        return dict.fromkeys(partitions, ErrorCode.none) | await self._guarded(producer, unknown, is_addition=True)

    async def _guarded(
        self, producer: TransactionalProducer, unknown: Sequence[TopicPartition], *, is_addition: bool
    ) -> Errors:
        if not unknown:
            return {}
        guarded = [found for one in unknown if (found := self._topics.partition(*one)) is not None]
        guards = [partition.guard(producer.producer_id) for partition in guarded]
        try:
            answered = await self._ask(producer, unknown, is_addition=is_addition)
            errors = {one: answered.get(one, ErrorCode.unknown_server_error) for one in unknown}
            broken: Errors = {guard.partition: guard.error for guard in guards if guard.error is not ErrorCode.none}
        finally:
            for guard in guards:
                guard.end()
        if is_addition:
            errors = {one: AWAY if error in NOT_ANNOUNCED else error for one, error in errors.items()}
            broken = {one: BUSY if error is ErrorCode.invalid_txn_state else error for one, error in broken.items()}
        return errors | broken

    def _is_open(self, partition: TopicPartition, producer_id: int) -> bool:
        """True for a transaction that has begun here: it was verified then."""
        found = self._topics.partition(*partition)
        return (
            found is not None
            and found.problem is None
            and found.log.producers.open_transaction(producer_id) is not None
        )

    def _epoch(self, partition: TopicPartition, producer: TransactionalProducer) -> int:
        found = self._topics.partition(*partition)
        assert found is not None, "a transaction is open there"
        return found.log.producers.epoch_of(producer.producer_id)

    async def _ask(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition], *, is_addition: bool
    ) -> Errors:
        home = self._transactions.coordinator.partition_for(producer.transactional_id)
        state = self._topics.partition(TRANSACTION_STATE, home)
        leader = -1 if state is None else self._members.leadership(state).leader
        node = self._members.broker(leader)
        if self._transactions.error(producer.transactional_id) is not ErrorCode.not_coordinator:
            if is_addition:
                added = await self._transactions.add_partitions(*producer, partitions, tv2=True)
                return dict.fromkeys(partitions, added)
            return self._transactions.verify(*producer, partitions)
        if node is None:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)

        def request(version: int) -> Any:
            return _request(version, producer, partitions, verify_only=not is_addition)

        answer = await self._channels.to(node).ask_newest(ADD_PARTITIONS, LOWEST, HIGHEST, request, self._timeout_ms)
        if isinstance(answer, ChannelError):
            logger.info("the coordinator of %s was not asked: %s", producer.transactional_id, answer.reason)
            return dict.fromkeys(partitions, ErrorCode.network_exception)
        if answer.error_code is not ErrorCode.none:
            return dict.fromkeys(partitions, answer.error_code)
        return {
            (topic.name, one.partition_index): one.partition_error_code
            for transaction in answer.results_by_transaction
            for topic in transaction.topic_results
            for one in topic.results_by_partition
        }


def _request(
    version: int, producer: TransactionalProducer, partitions: Sequence[TopicPartition], *, verify_only: bool
) -> Any:
    types = message_module(ADD_PARTITIONS, version, "request")
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        indexes[topic].append(index)
    topics = tuple(types.AddPartitionsToTxnTopic(name=name, partitions=tuple(some)) for name, some in indexes.items())
    transaction = types.AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=topics,
    )
    return message_class(ADD_PARTITIONS, version, "request")(transactions=(transaction,))

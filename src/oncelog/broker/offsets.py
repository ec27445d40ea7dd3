"""Carrying out what the offset coordinator decides: its records go to `__consumer_offsets`, and are replayed from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog.broker.partition import Partition
from oncelog.broker.topics import CONSUMER_OFFSETS
from oncelog.groups import CommitDecision, MemberFacts, OffsetCoordinator, OffsetRecord, OffsetToCommit, encode
from oncelog.log import Appended, Origin
from oncelog.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, build_batch, read_header
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class CommittedOffsets:
    """Everything between the handlers and the offset coordinator of one broker."""

    def __init__(self, broker: Broker, coordinator: OffsetCoordinator) -> None:
        self._broker = broker
        self.coordinator = coordinator

    def partition_for(self, group: str) -> int:
        return self.coordinator.partition_for(group)

    def commit(
        self, group: str, member: MemberFacts, offsets: Sequence[OffsetToCommit], retention_ms: int
    ) -> tuple[ErrorCode, ...]:
        decision = self.coordinator.commit_offsets(group, member, offsets, self._now_ms(), retention_ms)
        return self._write(group, decision, NO_PRODUCER)

    def commit_in_transaction(
        self, group: str, member: MemberFacts, offsets: Sequence[OffsetToCommit], producer: tuple[int, int]
    ) -> tuple[ErrorCode, ...]:
        """`producer` is the id and epoch of a transaction that the partition of the group has been added to."""
        decision = self.coordinator.transactional_commit(group, member, offsets, self._now_ms())
        return self._write(group, decision, producer)

    def replay_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        self.coordinator.replay_marker(partition, producer_id, committed)

    def expire(self) -> None:
        if self._broker.topics.named(CONSUMER_OFFSETS) is not None:
            for decision in self.coordinator.expire_offsets(self._now_ms()):
                self._append(decision.records[0].group, decision.records, NO_PRODUCER)

    def forget_partitions(self, topic: str, partition_count: int) -> None:
        """What was committed for a deleted topic must not be found by one that is made under its name."""
        deleted = [(topic, index) for index in range(partition_count)]
        for decision in self.coordinator.forget_partitions(deleted, self._now_ms()):
            self._append(decision.records[0].group, decision.records, NO_PRODUCER)

    def _write(self, group: str, decision: CommitDecision, producer: tuple[int, int]) -> tuple[ErrorCode, ...]:
        error = self._append(group, decision.records, producer) if decision.records else ErrorCode.none
        if error is ErrorCode.none:
            return decision.answer
        return tuple(error if given is ErrorCode.none else given for given in decision.answer)

    def _append(self, group: str, records: Sequence[OffsetRecord], producer: tuple[int, int]) -> ErrorCode:
        partition = self._home(group)
        producer_id, producer_epoch = producer
        is_transactional = producer_id != NO_PRODUCER_ID
        batch = build_batch(
            [encode(record) for record in records],
            leader_epoch=partition.leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            # Coordinators write every batch with sequence 0; the log does not check theirs.
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
        result = partition.append(batch, read_header(batch), Origin.COORDINATOR, verified=is_transactional)
        if not isinstance(result, Appended):
            return result.error
        for position, record in enumerate(records):
            offset = result.base_offset + position
            self.coordinator.replay(partition.index, record, producer_id, is_transactional, offset)
        return ErrorCode.none

    def _home(self, group: str) -> Partition:
        partition = self._broker.topics.partition(CONSUMER_OFFSETS, self.partition_for(group))
        assert partition is not None, group
        return partition

    def _now_ms(self) -> int:
        return self._broker.clock.now_ms()

"""Carrying out what is decided about the offsets of groups, and about the end of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.coordinators.group_log import NO_PRODUCER, GroupLog
from oncelog.broker.storage.topics import CONSUMER_OFFSETS
from oncelog.groups import (
    CommitContext,
    CommitDecision,
    GroupCoordinator,
    GroupRecord,
    OffsetDeletion,
    OffsetToCommit,
    TopicPartition,
)
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.broker.coordinators.memberships import Memberships
    from oncelog.broker.storage.topics import Topics
    from oncelog.environment import Clock


class Needs(Protocol):
    """What of the broker is needed here."""

    clock: Clock
    memberships: Memberships
    topics: Topics


class CommittedOffsets:
    """Everything between the handlers and the offsets that the coordinator of one broker keeps."""

    def __init__(self, broker: Needs, coordinator: GroupCoordinator, log: GroupLog) -> None:
        self._broker = broker
        self._log = log
        self.coordinator = coordinator

    def partition_for(self, group: str) -> int:
        return self.coordinator.partition_for(group)

    def is_offline(self, group: str) -> bool:
        """Whether nobody coordinates the group, for its partition of `__consumer_offsets` is damaged."""
        return self._log.is_offline(group)

    def commit(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit], retention_ms: int
    ) -> tuple[ErrorCode, ...]:
        if self.is_offline(group):
            return (ErrorCode.not_coordinator,) * len(offsets)
        decision = self.coordinator.commit_offsets(group, member, offsets, self._broker.memberships.now(), retention_ms)
        return self._write(group, decision, NO_PRODUCER)

    def commit_in_transaction(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit], producer: tuple[int, int]
    ) -> tuple[ErrorCode, ...]:
        """`producer` is the id and epoch of a transaction that the partition of the group has been added to."""
        if self.is_offline(group):
            return (ErrorCode.not_coordinator,) * len(offsets)
        decision = self.coordinator.transactional_commit(group, member, offsets, self._now_ms())
        return self._write(group, decision, producer)

    def replay_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        self.coordinator.replay_marker(partition, producer_id, committed)

    def delete(self, group: str, partitions: Sequence[TopicPartition]) -> OffsetDeletion:
        if self.is_offline(group):
            return OffsetDeletion(ErrorCode.not_coordinator)
        decision = self.coordinator.delete_offsets(group, partitions, self._now_ms())
        error = self._append(group, decision.records)
        return decision.answer if error is ErrorCode.none else OffsetDeletion(error)

    def delete_group(self, group: str) -> ErrorCode:
        if self.is_offline(group):
            return ErrorCode.not_coordinator
        decision = self.coordinator.delete_group(group, self._now_ms())
        error = self._append(group, decision.records)
        return decision.answer if error is ErrorCode.none else error

    def expire(self) -> None:
        if self._broker.topics.named(CONSUMER_OFFSETS) is not None:
            for decision in self.coordinator.expire_offsets(self._now_ms()):
                self._log.append_obliged(decision.records[0].group, decision.records)

    def forget_partitions(self, topic: str, partition_count: int) -> None:
        """What was committed for a deleted topic must not be found by one that is made under its name."""
        deleted = [(topic, index) for index in range(partition_count)]
        for decision in self.coordinator.forget_partitions(deleted, self._now_ms()):
            self._log.append_obliged(decision.records[0].group, decision.records)

    def _write(self, group: str, decision: CommitDecision, producer: tuple[int, int]) -> tuple[ErrorCode, ...]:
        error = self._append(group, decision.records, producer)
        if error is ErrorCode.none:
            decision.remember()
            return decision.answer
        return tuple(error if given is ErrorCode.none else given for given in decision.answer)

    def _append(self, group: str, records: Sequence[GroupRecord], producer: tuple[int, int] = NO_PRODUCER) -> ErrorCode:
        return self._log.append(group, records, producer) if records else ErrorCode.none

    def _now_ms(self) -> int:
        return self._broker.clock.now_ms()

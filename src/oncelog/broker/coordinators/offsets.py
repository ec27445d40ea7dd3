"""Carrying out what is decided about the offsets of groups, and about the end of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from uuid import UUID

from oncelog.broker.coordinators.group_log import NO_PRODUCER, GroupLog, Recorded
from oncelog.broker.coordinators.known_brokers import KnownBrokers, TopicOfOffsets
from oncelog.broker.slices import Turn
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, Topic, Topics
from oncelog.coordination import start
from oncelog.environment import Clock
from oncelog.groups import (
    CommitContext,
    CommitDecision,
    GroupCoordinator,
    GroupOffsets,
    GroupRecord,
    OffsetDeletion,
    OffsetToCommit,
    Timestamps,
    Tombstones,
    TopicIds,
    TopicPartition,
)
from oncelog.wire import ErrorCode


class CommittedOffsets:
    """Everything between the handlers and the offsets that the coordinator of one broker keeps."""

    def __init__(
        self, clock: Clock, known_brokers: KnownBrokers, topics: Topics, coordinator: GroupCoordinator, log: GroupLog
    ) -> None:
        self._clock = clock
        self._known_brokers = known_brokers
        self._topics = topics
        self._log = log
        self.coordinator = coordinator

    def partition_for(self, group: str) -> int:
        return self.coordinator.partition_for(group)

    def error(self, group: str) -> ErrorCode:
        """none if this broker coordinates the group. Errors: not_coordinator, coordinator_load_in_progress."""
        return self._log.error(group)

    def error_at(self, partition: int) -> ErrorCode:
        """The same, of all groups that a partition of `__consumer_offsets` has."""
        return self._log.error_at(partition)

    @property
    def is_loading(self) -> bool:
        """True while a partition of `__consumer_offsets` is being loaded."""
        return self._log.is_loading

    async def commit(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit], retention_ms: int
    ) -> tuple[ErrorCode, ...]:
        error = self.error(group)
        if error is not ErrorCode.none:
            return (error,) * len(offsets)
        decision = self.coordinator.commit_offsets(group, member, offsets, self._now(), retention_ms)
        return await self._write(group, decision, NO_PRODUCER)

    async def commit_in_transaction(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit], producer: tuple[int, int]
    ) -> tuple[ErrorCode, ...]:
        """`producer` is the id and epoch of a transaction that the partition of the group has been added to."""
        error = self.error(group)
        if error is not ErrorCode.none:
            return (error,) * len(offsets)
        decision = self.coordinator.transactional_commit(group, member, offsets, self._now_ms())
        return await self._write(group, decision, producer)

    async def told(self, group: str, require_stable: bool) -> GroupOffsets | ErrorCode:
        """Return the offsets committed at this moment, once no other coordinator can know less.

        Errors: not_coordinator, also after offsets.commit.timeout.ms: as Kafka's new coordinator, for every client knows it.
        """
        offsets = self.coordinator.offsets_of(group, require_stable)
        if self._log.is_confirmed(group, Recorded.OFFSETS):
            return offsets
        of_this_moment = offsets.copy()
        error = await self._log.committed(group, Recorded.OFFSETS)
        if error is ErrorCode.coordinator_not_available:
            return ErrorCode.not_coordinator
        if error is ErrorCode.none:
            # Another broker may coordinate the group by now, and know more.
            error = self.error(group)
        return of_this_moment if error is ErrorCode.none else error

    def replay_marker(self, partition: int, producer_id: int, committed: bool, end_offset: int) -> None:
        """An offset for a deleted topic was left for what the transaction would put in its place: that may not have come."""
        ended = self.coordinator.replay_marker(partition, producer_id, committed)
        for group in {group for group, _ in ended}:
            self._log.note(group, Recorded.OFFSETS, end_offset)
        if self._known_brokers.has_others:
            groups = {group for group, one in ended if self._has_doubtful_offset(group, one)}
            if groups:
                start(self._forget_what_was_missed(sorted(groups)))

    async def delete(self, group: str, partitions: Sequence[TopicPartition]) -> OffsetDeletion:
        error = self.error(group)
        if error is not ErrorCode.none:
            return OffsetDeletion(error)
        decision = self.coordinator.delete_offsets(group, partitions, self._now_ms())
        error = await self._kept(group, decision.records)
        return decision.answer if error is ErrorCode.none else OffsetDeletion(error)

    async def delete_group(self, group: str) -> ErrorCode:
        error = self.error(group)
        if error is not ErrorCode.none:
            return error
        decision = self.coordinator.delete_group(group, self._now_ms())
        error = await self._kept(group, decision.records)
        return decision.answer if error is ErrorCode.none else error

    def expire(self) -> None:
        if self._topics.named(CONSUMER_OFFSETS) is not None:
            self._append_obliged(self.coordinator.expire_offsets(self._now_ms()))

    def forget_topic(self, topic: Topic) -> None:
        """Forget the offsets of a deleted topic: a new topic of its name must not find them.

        Where a new topic has the name by now, offsets without an id may be its own, and stay.
        """
        topic_ids: set[UUID | None] = {topic.topic_id}
        if self._topics.still_named(topic.topic_id) is not None:
            topic_ids.add(None)
        self._append_obliged(self.coordinator.forget_topics({topic.name: topic_ids}, self._now_ms()))

    def loaded(self, groups: Collection[str]) -> None:
        """A topic may have been deleted while nobody had these groups loaded: then its offsets are in the log still."""
        if self._known_brokers.has_others:
            start(self._forget_what_was_missed(sorted(groups)))

    async def _forget_what_was_missed(self, groups: Sequence[str]) -> None:
        turn = Turn(self._clock)
        doubtful: set[TopicOfOffsets] = set()
        for group in groups:
            doubtful.update(self._doubtful_topics(group))
            if turn.is_over:
                await turn.rest()
        if not doubtful:
            return
        gone = tuple(await self._known_brokers.deleted_topics(sorted(doubtful, key=str)))
        for group in groups:
            decisions = self.coordinator.forget_topics(self._still_gone(gone), self._now_ms(), [group])
            self._append_obliged(decisions)
            if turn.is_over:
                await turn.rest()

    def _still_gone(self, gone: Iterable[TopicOfOffsets]) -> TopicIds:
        """Leave out the topics that this broker knows by now. An offset without an id may be of a new topic."""
        by_name: defaultdict[str, set[UUID | None]] = defaultdict(set)
        for name, topic_id in filter(self._is_doubtful, gone):
            by_name[name].add(topic_id)
        return by_name

    def _doubtful_topics(self, group: str) -> Iterator[TopicOfOffsets]:
        offsets, home = self.coordinator.offsets, self.partition_for(group)
        for partition in offsets.partitions_of(group):
            topics = (TopicOfOffsets(partition[0], one) for one in offsets.topic_ids(home, group, partition))
            yield from filter(self._is_doubtful, topics)

    def _has_doubtful_offset(self, group: str, partition: TopicPartition) -> bool:
        stored = self.coordinator.offsets.of_group(group).get(partition)
        return stored is not None and self._is_doubtful(TopicOfOffsets(partition[0], stored.committed.topic_id))

    def _is_doubtful(self, topic: TopicOfOffsets) -> bool:
        """True if the topic is not there, as far as this broker knows, or not under the same id."""
        known = self._topics.named(topic.name)
        return known is None or self._topics.is_going(known) or topic.topic_id not in (None, known.topic_id)

    def _append_obliged(self, decisions: Iterable[Tombstones]) -> None:
        """Groups that are being loaded are left out: of what is not known to the end nothing can be decided."""
        for decision in decisions:
            group = decision.records[0].group
            if self.error(group) is ErrorCode.none:
                self._log.append_obliged(group, decision.records)

    async def _write(self, group: str, decision: CommitDecision, producer: tuple[int, int]) -> tuple[ErrorCode, ...]:
        error = self._append(group, decision.records, producer)
        if error is ErrorCode.none:
            decision.remember()
        if error is ErrorCode.none and decision.records:
            error = await self._log.committed(group, Recorded.OFFSETS)
        if error is ErrorCode.none:
            return decision.answer
        return tuple(error if given is ErrorCode.none else given for given in decision.answer)

    async def _kept(self, group: str, records: Sequence[GroupRecord]) -> ErrorCode:
        """Append the records, and wait until they are committed. A group that ends has records of its members, too."""
        error = self._append(group, records)
        for kind in Recorded:
            if error is ErrorCode.none:
                error = await self._log.committed(group, kind)
        return error

    def _append(self, group: str, records: Sequence[GroupRecord], producer: tuple[int, int] = NO_PRODUCER) -> ErrorCode:
        return self._log.append(group, records, producer) if records else ErrorCode.none

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def _now(self) -> Timestamps:
        return Timestamps(self._clock.now_ms(), self._clock.monotonic_ms())

"""The group coordinator: commits of offsets, reads of them, and the end of offsets and groups.

It keeps the contract of `coordination/decision.py`. The records of a decision go, in one batch, to the partition of
`__consumer_offsets` that owns the group, and are replayed with their offsets in the log. A transactional commit goes into a
transactional batch of its producer, and the marker of that producer is replayed too.

`members.py` has the members. A client may commit offsets without being one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple
from uuid import UUID

from oncelog.coordination import Decision
from oncelog.coordination.internal_topics import partition_for
from oncelog.groups.classic import (
    NO_SUCH_GROUP,
    ClassicGroupDescription,
    ClassicMembership,
    MembershipLimits,
    PendingResponse,
    describe,
)
from oncelog.groups.context import NO_TOPICS, CommitContext, ConsumerLimits, KnownTopics, LimitsOfGroups, Timestamps
from oncelog.groups.members import Group, Members
from oncelog.groups.offsets import GroupOffsets, Offsets, TopicPartition
from oncelog.groups.records import NO_EXPIRY, NO_LEADER_EPOCH, CommittedOffset, GroupRecord, OffsetRecord
from oncelog.wire import ErrorCode

PARTITION_COUNT = 50
METADATA_MAX_UNITS = 4096
RETENTION_MS = 604_800_000
NO_RETENTION = -1

_NONE = ErrorCode.none


class OffsetToCommit(NamedTuple):
    """The offset to commit for one partition."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


class OffsetDeletion(NamedTuple):
    """The answer to OffsetDelete: an error for all, or one for each partition that was named, in their order."""

    error: ErrorCode = _NONE
    errors: tuple[ErrorCode, ...] = ()


class ListedGroup(NamedTuple):
    """A group as ListGroups names it; the protocol type is empty for one that never had members."""

    group: str
    protocol_type: str
    state: str
    type: str


CommitDecision = Decision[OffsetRecord, tuple[ErrorCode, ...]]
OffsetDeleteDecision = Decision[OffsetRecord, OffsetDeletion]
DeleteDecision = Decision[GroupRecord, ErrorCode]
Tombstones = Decision[GroupRecord, None]
TopicIds = Mapping[str, Set[UUID | None]]
"""Topics by their names: the ids, and None for what was committed without one."""


class GroupCoordinator:
    """Every group of this node."""

    __slots__ = ("members", "metadata_max_units", "offsets", "partition_count", "retention_ms", "stores_topic_ids")

    def __init__(
        self,
        partition_count: int = PARTITION_COUNT,
        *,
        metadata_max_units: int = METADATA_MAX_UNITS,
        retention_ms: int = RETENTION_MS,
        limits: MembershipLimits | None = None,
        consumer_limits: LimitsOfGroups | None = None,
        topics: KnownTopics = NO_TOPICS,
        stores_topic_ids: bool = False,
    ) -> None:
        """`stores_topic_ids`: whether offsets have to be told from those of an earlier topic of the same name."""
        self.partition_count = partition_count
        self.metadata_max_units = metadata_max_units
        self.retention_ms = retention_ms
        self.stores_topic_ids = stores_topic_ids
        self.offsets = Offsets()
        self.members = Members(limits, consumer_limits or ConsumerLimits(), topics)

    @property
    def membership(self) -> ClassicMembership:
        """The members of groups of the classic protocol."""
        return self.members.classic

    def partition_for(self, group: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates this group."""
        return partition_for(group, self.partition_count)

    # What changes state.

    def replay(
        self, partition: int, record: GroupRecord, producer_id: int, is_transactional: bool, offset: int
    ) -> None:
        """Apply one record of partition `partition`, with the producer id of its batch and its own offset."""
        assert partition == self.partition_for(record.group), (partition, record)
        if not isinstance(record, OffsetRecord):
            self.members.replay(record)
        elif record.committed is None:
            self.offsets.forget(partition, record.group, (record.topic, record.partition))
        else:
            self.members.replay_offsets_of(record.group)
            if is_transactional:
                self.offsets.commit_pending(partition, record, producer_id, offset)
            else:
                self.offsets.commit(record, offset)

    def replay_marker(
        self, partition: int, producer_id: int, committed: bool
    ) -> Collection[tuple[str, TopicPartition]]:
        """Apply the marker that ends a producer's transaction on partition `partition`; return what it had offsets for."""
        return self.offsets.end_transaction(partition, producer_id, committed=committed)

    def unload(self, partition: int, now: Timestamps) -> tuple[PendingResponse, ...]:
        """Forget the groups of a partition of `__consumer_offsets`; what those of their members hear who wait."""
        names = self.offsets.groups() | self.members.every_name()
        gone = sorted(name for name in names if self.partition_for(name) == partition)
        self.offsets.unload(partition, gone)
        return tuple(due for name in gone for due in self.members.unload(name, now))

    # Commits

    def commit_offsets(
        self,
        group: str,
        member: CommitContext,
        offsets: Sequence[OffsetToCommit],
        now: Timestamps,
        retention_ms: int = NO_RETENTION,
    ) -> CommitDecision:
        """OffsetCommit. The answer is one error for each of `offsets`, in their order.

        Errors: group_id_not_found (a generation, and no such group), unknown_member_id, fenced_instance_id,
        illegal_generation, rebalance_in_progress, stale_member_epoch, unsupported_version, offset_metadata_too_large.
        """
        error = self.check_commit(group, member, offsets)
        expire_ms = NO_EXPIRY if retention_ms == NO_RETENTION else now.wall_ms + retention_ms
        decision = self._commit(group, offsets, error, now.wall_ms, expire_ms)
        if error is not _NONE:
            return decision
        return decision._replace(
            remember=partial(self.membership.has_committed, group, member.member_id, now.steady_ms)
        )

    def transactional_commit(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit], now_ms: int
    ) -> CommitDecision:
        """TxnOffsetCommit, once the transaction coordinator has said that the group belongs to the transaction.

        The answer is one error for each of `offsets`. Errors: those of commit_offsets, and invalid_group_id.
        """
        error = ErrorCode.invalid_group_id
        if group:
            error = self.check_commit(group, member, offsets, in_transaction=True)
        if error is ErrorCode.stale_member_epoch:
            # Clients know this one in transactions.
            error = ErrorCode.illegal_generation
        return self._commit(group, offsets, error, now_ms, NO_EXPIRY)

    def _commit(
        self, group: str, offsets: Sequence[OffsetToCommit], error: ErrorCode, now_ms: int, expire_ms: int
    ) -> CommitDecision:
        if error is not _NONE:
            return Decision((), (error,) * len(offsets))
        records = []
        errors = []
        for wanted in offsets:
            metadata = wanted.metadata or ""
            if self._is_too_long(metadata):
                errors.append(ErrorCode.offset_metadata_too_large)
                continue
            # A retention takes the version of the record that has no room for the id.
            has_id = self.stores_topic_ids and expire_ms == NO_EXPIRY
            topic_id = wanted.topic_id if has_id else None
            committed = CommittedOffset(wanted.offset, wanted.leader_epoch, metadata, now_ms, expire_ms, topic_id)
            records.append(OffsetRecord(group, wanted.topic, wanted.partition, committed, now_ms))
            errors.append(_NONE)
        return Decision(tuple(records), tuple(errors))

    def check_commit(
        self, group: str, member: CommitContext, offsets: Sequence[OffsetToCommit] = (), *, in_transaction: bool = False
    ) -> ErrorCode:
        """Check that this member may commit now. A commit without a generation makes a group that does not exist."""
        found = self.members.find(group)
        if found is None:
            return _NONE if member.generation < 0 else ErrorCode.group_id_not_found
        partitions = [(one.topic_id, one.partition) for one in offsets if not self._is_too_long(one.metadata or "")]
        return found.check_commit(member, partitions, in_transaction=in_transaction)

    def _is_too_long(self, metadata: str) -> bool:
        # The limit counts UTF-16 units, of which a character has one or two.
        if 2 * len(metadata) <= self.metadata_max_units:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > self.metadata_max_units

    # Reads

    def check_fetch(self, group: str, member_id: str | None, epoch: int) -> ErrorCode:
        """OffsetFetch v9, which may say that a member asks. Errors: unknown_member_id, stale_member_epoch."""
        found = self.members.find(group)
        return _NONE if found is None else found.check_fetch(member_id, epoch)

    def offsets_of(self, group: str, require_stable: bool) -> GroupOffsets:
        """The offsets of the group at this moment (OffsetFetch).

        Errors: unstable_offset_commit, where `require_stable` meets an open transaction (KIP-447).
        """
        unstable = self.offsets.pending_of_group(group) if require_stable else ()
        return GroupOffsets(self.offsets.of_group(group), unstable)

    # What there is

    def describe(self, group: str) -> ClassicGroupDescription:
        """A group that is not there is Dead."""
        found = self.membership.find(group)
        return NO_SUCH_GROUP if found is None else describe(found)

    def list_groups(
        self, names: Iterable[str], states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ListedGroup, ...]:
        """The named groups that exist, in one of the states and of one of the types, in lower case. No states or types
        means any.
        """
        return tuple(
            ListedGroup(group.name, group.protocol_type or "", group.state.value, group.type.value)
            for group in (self.members.find(name) for name in names)
            if group is not None
            and (not states or group.state.value.lower() in states)
            and (not types or group.type.value in types)
        )

    # What ends offsets and groups

    def delete_offsets(self, group: str, partitions: Sequence[TopicPartition], now_ms: int) -> OffsetDeleteDecision:
        """OffsetDelete, of offsets that are pending too.

        Errors: invalid_group_id, group_id_not_found, non_empty_group; for a partition: group_subscribed_to_topic.
        """
        found = self.members.find(group)
        error = ErrorCode.group_id_not_found if found is None else found.check_offset_delete()
        if not group:
            error = ErrorCode.invalid_group_id
        if error is not _NONE or found is None:
            return Decision((), OffsetDeletion(error))
        errors = tuple(
            ErrorCode.group_subscribed_to_topic if found.is_subscribed(topic) else _NONE for topic, _ in partitions
        )
        known = self.offsets.partitions_of(group)
        deleted = [
            partition
            for partition, refused in zip(partitions, errors, strict=True)
            if refused is _NONE and partition in known
        ]
        return Decision(_tombstones(group, dict.fromkeys(deleted), now_ms), OffsetDeletion(_NONE, errors))

    def delete_group(self, group: str, now_ms: int) -> DeleteDecision:
        """DeleteGroups: the group, and everything it committed, pending or not.

        Errors: group_id_not_found, non_empty_group.
        """
        found = self.members.find(group)
        error = ErrorCode.group_id_not_found if found is None else found.check_delete()
        if error is not _NONE or found is None:
            return Decision((), error)
        offsets = _tombstones(group, sorted(self.offsets.partitions_of(group)), now_ms)
        return Decision((*offsets, *found.end(now_ms)), _NONE)

    def forget_topics(self, gone: TopicIds, now_ms: int, groups: Iterable[str] | None = None) -> list[Tombstones]:
        """One decision for each group, of these or of all, that had offsets for topics that are gone.

        What is committed stays where an open transaction has an offset for a topic that is there: it is to take its place. If it
        has not done so when that transaction ends, ask again. What is pending in another partition of `__consumer_offsets`,
        where that has grown, stays too.
        """
        decisions: list[Tombstones] = []
        for group in sorted(self.offsets.groups() if groups is None else groups):
            home = self.partition_for(group)
            named = sorted(one for one in self.offsets.partitions_of(group) if one[0] in gone)
            ids = {one: self.offsets.topic_ids(home, group, one) for one in named}
            forgotten = [one for one in named if ids[one] and ids[one] <= gone[one[0]]]
            records = _tombstones(group, forgotten, now_ms)
            if records:
                decisions.append(Decision(records, None))
        return decisions

    def expire_offsets(self, now_ms: int) -> list[Tombstones]:
        """One decision for each group with something that is over: offsets past their retention, and empty groups."""
        decisions: Iterable[Tombstones] = (
            Decision(self._expired(group, now_ms), None) for group in self.members.groups()
        )
        return [decision for decision in decisions if decision.records]

    def _expired(self, group: Group, now_ms: int) -> tuple[GroupRecord, ...]:
        offsets = self.offsets.of_group(group.name)
        expired = [
            partition
            for partition, stored in offsets.items()
            if not group.is_subscribed(partition[0])
            and self._is_expired(group, stored.committed, now_ms)
            # KIP-211: not while a transaction is about to replace it.
            and not self.offsets.is_pending(group.name, partition)
        ]
        tombstones = _tombstones(group.name, expired, now_ms)
        is_bare = len(expired) == len(offsets) and not self.offsets.pending_of_group(group.name)
        if is_bare and group.is_removable:
            return (*tombstones, *group.end(now_ms))
        return tombstones

    def _is_expired(self, group: Group, committed: CommittedOffset, now_ms: int) -> bool:
        start_ms = group.retention_start_ms(committed.commit_ms)
        if start_ms is None:
            return False
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - start_ms >= self.retention_ms


def _tombstones(group: str, partitions: Iterable[TopicPartition], now_ms: int) -> tuple[OffsetRecord, ...]:
    return tuple(OffsetRecord(group, topic, partition, None, now_ms) for topic, partition in partitions)

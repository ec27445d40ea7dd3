"""The coordinator of committed offsets: who may commit for a group, and what a reader is told.

A decision returns records and changes nothing; the broker appends them, in one batch, to the partition of
`__consumer_offsets` that owns the group, and replays them with the offsets they got. The records of a transactional
commit go into a transactional batch of its producer, and the marker of that producer is replayed too.

Groups here have no members: a commit that names a generation is one of a group that does not exist any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from oncelog.coordination import Decision
from oncelog.coordination.placement import partition_for
from oncelog.groups.offsets import Offsets, StoredOffset, TopicPartition
from oncelog.groups.records import NO_EXPIRY, NO_LEADER_EPOCH, NO_OFFSET, CommittedOffset, OffsetRecord
from oncelog.wire import ErrorCode

PARTITION_COUNT = 50
METADATA_MAX_UNITS = 4096
RETENTION_MS = 604_800_000
NO_GENERATION = -1
NO_RETENTION = -1

_NONE = ErrorCode.none


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """What a request asks to commit for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Who the request says it comes from. `generation` is the member epoch of newer groups."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """The answer for one partition; -1, -1 and "" where nothing is committed or there is an error."""

    topic: str
    partition: int
    error: ErrorCode = _NONE
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


CommitDecision = Decision[OffsetRecord, tuple[ErrorCode, ...]]
DeleteDecision = Decision[OffsetRecord, ErrorCode]
Tombstones = Decision[OffsetRecord, None]
ANYONE = MemberFacts()


class OffsetCoordinator:
    """Every group of this node."""

    __slots__ = ("metadata_max_units", "offsets", "partition_count", "retention_ms")

    def __init__(
        self,
        partition_count: int = PARTITION_COUNT,
        *,
        metadata_max_units: int = METADATA_MAX_UNITS,
        retention_ms: int = RETENTION_MS,
    ) -> None:
        self.partition_count = partition_count
        self.metadata_max_units = metadata_max_units
        self.retention_ms = retention_ms
        self.offsets = Offsets()

    def partition_for(self, group: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates this group."""
        return partition_for(group, self.partition_count)

    # What changes state.

    def replay(
        self, partition: int, record: OffsetRecord, producer_id: int, is_transactional: bool, offset: int
    ) -> None:
        """Apply one record of partition `partition`, with the producer id of its batch and its own offset."""
        assert partition == self.partition_for(record.group), (partition, record)
        if record.committed is None:
            self.offsets.forget(partition, record.group, (record.topic, record.partition))
        elif is_transactional:
            self.offsets.commit_pending(partition, record, producer_id, offset)
        else:
            self.offsets.commit(record, offset)

    def replay_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction on partition `partition`."""
        self.offsets.end_transaction(partition, producer_id, committed=committed)

    # Commits

    def commit_offsets(
        self,
        group: str,
        member: MemberFacts,
        offsets: Sequence[OffsetToCommit],
        now_ms: int,
        retention_ms: int = NO_RETENTION,
    ) -> CommitDecision:
        """OffsetCommit. The answer is one error for each of `offsets`, in their order.

        Errors: group_id_not_found (a generation, and no such group), unknown_member_id, offset_metadata_too_large.
        """
        error = self._check_member(group, member)
        expire_ms = NO_EXPIRY if retention_ms == NO_RETENTION else now_ms + retention_ms
        return self._commit(group, offsets, error, now_ms, expire_ms)

    def transactional_commit(
        self, group: str, member: MemberFacts, offsets: Sequence[OffsetToCommit], now_ms: int
    ) -> CommitDecision:
        """TxnOffsetCommit, once the transaction coordinator has said that the group belongs to the transaction.

        The answer is one error for each of `offsets`. Errors: those of commit_offsets, and invalid_group_id.
        """
        error = self._check_member(group, member) if group else ErrorCode.invalid_group_id
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
            committed = CommittedOffset(wanted.offset, wanted.leader_epoch, metadata, now_ms, expire_ms)
            records.append(OffsetRecord(group, wanted.topic, wanted.partition, committed, now_ms))
            errors.append(_NONE)
        return Decision(tuple(records), tuple(errors))

    def _check_member(self, group: str, member: MemberFacts) -> ErrorCode:
        if member.generation < 0:
            return _NONE
        return ErrorCode.unknown_member_id if self.offsets.has_group(group) else ErrorCode.group_id_not_found

    def _is_too_long(self, metadata: str) -> bool:
        # The limit counts UTF-16 units, of which a character has one or two.
        if 2 * len(metadata) <= self.metadata_max_units:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > self.metadata_max_units

    # Reads

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
    ) -> tuple[FetchedOffset, ...]:
        """OffsetFetch: the partitions asked for in their order, or with None every partition with a committed offset.

        Errors: unstable_offset_commit, where `require_stable` meets an open transaction (KIP-447).
        """
        offsets = self.offsets.of_group(group)
        wanted = sorted(offsets) if partitions is None else partitions
        return tuple(
            FetchedOffset(*partition, ErrorCode.unstable_offset_commit)
            if require_stable and self.offsets.is_pending(group, partition)
            else _fetched(partition, offsets.get(partition))
            for partition in wanted
        )

    # What ends offsets

    def delete_offsets(self, group: str, partitions: Iterable[TopicPartition], now_ms: int) -> DeleteDecision:
        """OffsetDelete. Errors: group_id_not_found."""
        if not self.offsets.has_group(group):
            return Decision((), ErrorCode.group_id_not_found)
        known = self._partitions_of(group)
        return Decision(
            _tombstones(group, [partition for partition in partitions if partition in known], now_ms), _NONE
        )

    def delete_group(self, group: str, now_ms: int) -> DeleteDecision:
        """DeleteGroups: everything the group committed, pending or not. Errors: group_id_not_found."""
        if not self.offsets.has_group(group):
            return Decision((), ErrorCode.group_id_not_found)
        return Decision(_tombstones(group, sorted(self._partitions_of(group)), now_ms), _NONE)

    def forget_partitions(self, deleted: Collection[TopicPartition], now_ms: int) -> list[Tombstones]:
        """One decision for each group that had offsets in partitions that are gone."""
        gone = frozenset(deleted)
        decisions = []
        for group in sorted(self.offsets.groups()):
            records = _tombstones(group, sorted(self._partitions_of(group) & gone), now_ms)
            if records:
                decisions.append(Decision(records, None))
        return decisions

    def expire_offsets(self, now_ms: int) -> list[Tombstones]:
        """One decision for each group with offsets that are older than the retention. Pending ones stay (KIP-211)."""
        expired: dict[str, list[TopicPartition]] = {}
        for group, partition, stored in self.offsets:
            if self._is_expired(stored.committed, now_ms) and not self.offsets.is_pending(group, partition):
                expired.setdefault(group, []).append(partition)
        return [Decision(_tombstones(group, partitions, now_ms), None) for group, partitions in expired.items()]

    def _is_expired(self, committed: CommittedOffset, now_ms: int) -> bool:
        if committed.expire_ms != NO_EXPIRY:
            return now_ms >= committed.expire_ms
        return now_ms - committed.commit_ms >= self.retention_ms

    def _partitions_of(self, group: str) -> frozenset[TopicPartition]:
        return frozenset(self.offsets.of_group(group)).union(self.offsets.pending_of_group(group))


def _fetched(partition: TopicPartition, stored: StoredOffset | None) -> FetchedOffset:
    if stored is None:
        return FetchedOffset(*partition)
    committed = stored.committed
    return FetchedOffset(*partition, _NONE, committed.offset, committed.leader_epoch, committed.metadata)


def _tombstones(group: str, partitions: Iterable[TopicPartition], now_ms: int) -> tuple[OffsetRecord, ...]:
    return tuple(OffsetRecord(group, topic, partition, None, now_ms) for topic, partition in partitions)

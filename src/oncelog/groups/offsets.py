"""Committed offsets, and offsets that are pending until their transaction ends. Only replayed records change them.

A transactional offset is *pending* under its producer id until the marker of that producer reaches the partition of
`__consumer_offsets`. A commit then replaces what is stored only where it is the later record of the two: the order of
the log decides, not the order in which transactions end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from oncelog.groups.records import NO_LEADER_EPOCH, NO_OFFSET, CommittedOffset, OffsetRecord
from oncelog.wire import ErrorCode

TopicPartition = tuple[str, int]

_NOTHING: Mapping[TopicPartition, StoredOffset] = MappingProxyType({})


class StoredOffset(NamedTuple):
    """A committed offset and the offset of its record in `__consumer_offsets`."""

    committed: CommittedOffset
    log_offset: int


class Offsets:
    """The offsets of every group of this node.

    Producer ids are known by partition of `__consumer_offsets`: one transaction may commit for groups on several of
    them, and each gets a marker of its own.
    """

    __slots__ = ("_by_group", "_pending", "_writers")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self._pending: dict[tuple[int, int], dict[tuple[str, TopicPartition], StoredOffset]] = {}
        self._writers: dict[str, dict[TopicPartition, set[int]]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offsets):
            return NotImplemented
        return (self._by_group, self._pending, self._writers) == (other._by_group, other._pending, other._writers)

    __hash__ = None  # type: ignore[assignment]

    def groups(self) -> frozenset[str]:
        """Every group that has an offset, committed or pending."""
        return frozenset(self._by_group.keys() | self._writers.keys())

    def of_group(self, group: str) -> Mapping[TopicPartition, StoredOffset]:
        return self._by_group.get(group, _NOTHING)

    def pending_of_group(self, group: str) -> Collection[TopicPartition]:
        """The partitions that an open transaction has committed for this group."""
        return self._writers.get(group, {}).keys()

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        writers = self._writers.get(group)
        return writers is not None and partition in writers

    def partitions_of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions with an offset of the group, committed or pending."""
        return frozenset(self.of_group(group)).union(self.pending_of_group(group))

    def topic_ids(self, home: int, group: str, partition: TopicPartition) -> set[UUID | None]:
        """The ids of the topic in the committed and the pending offsets for this partition; None stands for an unknown
        one.
        """
        writers = self._writers.get(group, {}).get(partition, ())
        found = [self._pending.get((home, one), {}).get((group, partition)) for one in writers]
        found.append(self.of_group(group).get(partition))
        return {one.committed.topic_id for one in found if one is not None}

    def __iter__(self) -> Iterator[tuple[str, TopicPartition, StoredOffset]]:
        for group, offsets in self._by_group.items():
            for partition, stored in offsets.items():
                yield group, partition, stored

    def commit(self, record: OffsetRecord, log_offset: int) -> None:
        assert record.committed is not None
        offsets = self._by_group.setdefault(record.group, {})
        offsets[record.topic, record.partition] = StoredOffset(record.committed, log_offset)

    def commit_pending(self, home: int, record: OffsetRecord, producer_id: int, log_offset: int) -> None:
        """`home` is the partition of `__consumer_offsets` that holds the record."""
        assert record.committed is not None
        partition = (record.topic, record.partition)
        pending = self._pending.setdefault((home, producer_id), {})
        pending[record.group, partition] = StoredOffset(record.committed, log_offset)
        self._writers.setdefault(record.group, {}).setdefault(partition, set()).add(producer_id)

    def forget(self, home: int, group: str, partition: TopicPartition) -> None:
        """Drop what is committed and what is pending for one partition of a group."""
        offsets = self._by_group.get(group)
        if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
            del self._by_group[group]
        for producer_id in sorted(self._writers.get(group, {}).get(partition, ())):
            pending = self._pending[home, producer_id]
            del pending[group, partition]
            if not pending:
                del self._pending[home, producer_id]
            self._release(group, partition, producer_id)

    def unload(self, home: int, groups: Iterable[str]) -> None:
        """Forget a partition of `__consumer_offsets`: all that is committed, or pending, for its groups."""
        for group in groups:
            self._by_group.pop(group, None)
            self._writers.pop(group, None)
        for key in [key for key in self._pending if key[0] == home]:
            del self._pending[key]

    def end_transaction(
        self, home: int, producer_id: int, *, committed: bool
    ) -> Collection[tuple[str, TopicPartition]]:
        """Return what it had offsets for: groups, and their partitions."""
        ended = self._pending.pop((home, producer_id), {})
        for (group, partition), stored in ended.items():
            self._release(group, partition, producer_id)
            if not committed:
                continue
            offsets = self._by_group.setdefault(group, {})
            current = offsets.get(partition)
            if current is None or stored.log_offset > current.log_offset:
                offsets[partition] = stored
        return ended.keys()

    def _release(self, group: str, partition: TopicPartition, producer_id: int) -> None:
        partitions = self._writers[group]
        partitions[partition].remove(producer_id)
        if not partitions[partition]:
            del partitions[partition]
        if not partitions:
            del self._writers[group]


class FetchedOffset(NamedTuple):
    """The answer for one partition; -1, -1 and "" where nothing is committed or there is an error."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.none
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class GroupOffsets(NamedTuple):
    """The offsets of a group. A copy does not change with later commits.

    Partitions are `unstable` while an open transaction has committed offsets for them. A reader of stable offsets
    waits for its end (KIP-447).
    """

    committed: Mapping[TopicPartition, StoredOffset]
    unstable: Collection[TopicPartition]

    def copy(self) -> GroupOffsets:
        return GroupOffsets(dict(self.committed), frozenset(self.unstable))

    def fetched(self, partition: TopicPartition) -> FetchedOffset:
        """Errors: unstable_offset_commit."""
        if partition in self.unstable:
            return FetchedOffset(*partition, ErrorCode.unstable_offset_commit)
        stored = self.committed.get(partition)
        if stored is None:
            return FetchedOffset(*partition)
        committed = stored.committed
        return FetchedOffset(*partition, ErrorCode.none, committed.offset, committed.leader_epoch, committed.metadata)


GROUP_NOT_FOUND_VERSION = 9


def offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.group_id_not_found and version < GROUP_NOT_FOUND_VERSION:
        return ErrorCode.illegal_generation
    return error

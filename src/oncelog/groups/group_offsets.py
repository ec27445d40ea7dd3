"""What a reader is told of the committed offsets of one group (OffsetFetch)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from oncelog.groups.offset_records import NO_LEADER_EPOCH, NO_OFFSET
from oncelog.groups.offsets import StoredOffset, TopicPartition
from oncelog.wire import ErrorCode


class FetchedOffset(NamedTuple):
    """The answer for one partition; -1, -1 and "" where nothing is committed or there is an error."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.none
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class GroupOffsets(NamedTuple):
    """It follows what is committed next; a copy is of one moment.

    An open transaction has committed for the partitions that are `unstable`: whoever asks for stable offsets waits for its end
    (KIP-447).
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

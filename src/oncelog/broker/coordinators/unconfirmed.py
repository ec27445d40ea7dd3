"""What is recorded of groups and may not be below the high watermark yet: the next coordinator may not have it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from enum import Enum

from oncelog.groups import GroupRecord, OffsetRecord


class Recorded(Enum):
    """What a record of a group is about. Whoever is told of the one need not wait for the other."""

    MEMBERS = "members"
    OFFSETS = "offsets"

    @staticmethod
    def by(record: GroupRecord) -> Recorded:
        return Recorded.OFFSETS if isinstance(record, OffsetRecord) else Recorded.MEMBERS


class UnconfirmedRecords:
    """Where the last records of groups end, by partition of `__consumer_offsets`, in the order of the log."""

    def __init__(self) -> None:
        self._ends: defaultdict[int, OrderedDict[tuple[str, Recorded], int]] = defaultdict(OrderedDict)

    def note(self, partition: int, group: str, kind: Recorded, end_offset: int) -> None:
        ends = self._ends[partition]
        ends[group, kind] = end_offset
        ends.move_to_end((group, kind))

    def end(self, partition: int, group: str, kind: Recorded) -> int | None:
        """None if all that is recorded is confirmed."""
        return self._ends[partition].get((group, kind))

    def confirm(self, partition: int, end_offset: int) -> None:
        """All before this offset is below the high watermark."""
        ends = self._ends[partition]
        while ends and next(iter(ends.values())) <= end_offset:
            ends.popitem(last=False)

    def forget(self, partition: int) -> None:
        self._ends.pop(partition, None)

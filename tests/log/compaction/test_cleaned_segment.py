"""Which segments become one: their offsets have to fit into the 32 bits that an index has for each."""

from __future__ import annotations

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.log import LogConfig
from oncelog.log.compaction.cleaned_segment import groups_of
from oncelog.log.segment import Segment

FAR = 2**31
DIRECTORY = "/data/t-0"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    return disk


def grouped(disk: MemoryDisk, *ends: int, config: LogConfig | None = None) -> list[int]:
    """How many segments each group has, of segments that end at these offsets and begin where the one before ends."""
    config = config or LogConfig()
    bases = [0, *ends[:-1]]
    segments = [(Segment(disk, DIRECTORY, base, config, 0), end) for base, end in zip(bases, ends, strict=True)]
    return [len(group.segments) for group in groups_of(segments, config)]


@pytest.mark.parametrize(("end", "groups"), [(FAR - 1, [2]), (FAR, [2]), (FAR + 1, [1, 1])])
def test_last_offset_is_at_most_the_largest_int_behind_the_first(disk: MemoryDisk, end: int, groups: list[int]) -> None:
    """Cleaner.groupSegmentsBySize: lastOffset - baseOffset <= Integer.MAX_VALUE."""
    assert grouped(disk, 5, end) == groups


def test_group_begins_anew_where_the_offsets_no_longer_fit(disk: MemoryDisk) -> None:
    assert grouped(disk, 5, FAR, FAR + 5, FAR + 10) == [2, 2]


def test_groups_are_in_the_order_of_the_log_and_leave_out_nothing(disk: MemoryDisk) -> None:
    assert grouped(disk, 1, 2, 3) == [3]
    assert grouped(disk, 1) == [1]
    assert list(groups_of([], LogConfig())) == []

"""The file that says from when on a segment has a timestamp."""

from __future__ import annotations

from struct import pack

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.log.index_files import NO_TIMESTAMP, TimeIndex

PATH = "/data/00000000000000000100.timeindex"
ENTRIES = [(1000, 104), (2000, 109), (3000, 114)]


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    return disk


@pytest.fixture
def index(disk: MemoryDisk) -> TimeIndex:
    index = TimeIndex(disk, PATH, 100, 120, exists=False)
    for entry in ENTRIES:
        index.append_if_later(*entry)
    return index


@pytest.mark.parametrize(("offset", "kept"), [(100, 0), (104, 0), (105, 1), (109, 1), (110, 2), (114, 2), (115, 3)])
def test_cut_log_keeps_the_entries_of_batches_that_end_before_the_cut(index: TimeIndex, offset: int, kept: int) -> None:
    index.truncate(offset)
    assert index.last == ([(NO_TIMESTAMP, 100), *ENTRIES][kept])
    assert index.file.count == kept


@pytest.mark.parametrize(
    ("timestamp_ms", "found"),
    [(999, None), (1000, None), (1001, ENTRIES[0]), (2000, ENTRIES[0]), (2001, ENTRIES[1]), (9999, ENTRIES[2])],
)
def test_search_begins_at_the_last_entry_before_the_timestamp(
    index: TimeIndex, timestamp_ms: int, found: tuple[int, int] | None
) -> None:
    assert index.floor(timestamp_ms) == found


def test_only_a_later_timestamp_makes_an_entry(index: TimeIndex) -> None:
    index.append_if_later(3000, 120)
    index.append_if_later(2999, 121)
    assert index.last == ENTRIES[-1]


def test_index_is_full_with_one_entry_kept_for_the_end_of_the_segment(index: TimeIndex) -> None:
    """120 bytes have room for ten entries of twelve bytes."""
    for slot in range(5):
        index.append_if_later(4000 + slot, 120 + slot)
    assert (index.is_full, index.entries_left) == (False, 1)
    index.append_if_later(5000, 130)
    assert (index.is_full, index.entries_left) == (True, 0)


def test_index_that_was_cleared_begins_again(index: TimeIndex) -> None:
    index.clear()
    assert index.last == (NO_TIMESTAMP, 100)
    index.append_if_later(0, 100)
    assert index.last == (0, 100)


@pytest.mark.parametrize(
    ("entries", "is_sane"),
    [
        ([], True),
        ([(0, 0)], True),
        ([(0, 0), (1, 0)], True),
        ([(1, 0), (1, 1)], False),
        ([(2, 0), (1, 1)], False),
        ([(1, 1), (2, 0)], False),
        ([(-1, 0)], False),
        ([(1, -1)], False),
        ([(1, -2)], False),
    ],
)
def test_index_whose_entries_do_not_grow_is_damaged(
    disk: MemoryDisk, entries: list[tuple[int, int]], *, is_sane: bool
) -> None:
    """Two batches that a cleaning made one may share an offset; a timestamp is never there twice."""
    disk.replace_file(PATH, b"".join(pack(">qi", *entry) for entry in entries))
    assert TimeIndex(disk, PATH, 100, 120, exists=True).is_sane() is is_sane

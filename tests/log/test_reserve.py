"""Room that is kept back in a log directory: taken as a whole, given up in two halves."""

from __future__ import annotations

import pytest

from harness.memory_disk import MemoryDisk
from oncelog.environment import Share
from oncelog.log.log_directories import RESERVE, Reserve

SIZE_BYTES = 8192
PATH = f"/data/{RESERVE}"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    return disk


@pytest.fixture
def reserve(disk: MemoryDisk) -> Reserve:
    reserve = Reserve(disk, "/data", SIZE_BYTES)
    assert (reserve.held_bytes, reserve.missing_bytes) == (0, SIZE_BYTES)
    reserve.take()
    return reserve


def in_file(disk: MemoryDisk) -> int:
    return len(disk.read_file(PATH)) if disk.exists(PATH) else 0


def test_reserve_is_a_file_of_its_size_and_nothing_is_missing(disk: MemoryDisk, reserve: Reserve) -> None:
    assert in_file(disk) == reserve.held_bytes == SIZE_BYTES
    assert reserve.missing_bytes == 0


def test_write_that_may_take_half_gets_half_once(disk: MemoryDisk, reserve: Reserve) -> None:
    assert reserve.give_up(Share.HALF)
    assert in_file(disk) == reserve.held_bytes == SIZE_BYTES // 2
    assert not reserve.give_up(Share.HALF)
    assert in_file(disk) == SIZE_BYTES // 2


def test_write_that_may_take_all_gets_one_half_and_then_the_other(disk: MemoryDisk, reserve: Reserve) -> None:
    assert reserve.give_up(Share.ALL)
    assert reserve.held_bytes == SIZE_BYTES // 2
    assert reserve.give_up(Share.ALL)
    assert in_file(disk) == reserve.held_bytes == 0
    assert not reserve.give_up(Share.ALL)


def test_write_that_may_take_nothing_gets_nothing(disk: MemoryDisk, reserve: Reserve) -> None:
    assert not reserve.give_up(Share.NONE)
    assert in_file(disk) == SIZE_BYTES


def test_what_was_given_up_is_taken_again_as_a_whole(disk: MemoryDisk, reserve: Reserve) -> None:
    reserve.give_up(Share.HALF)
    assert reserve.missing_bytes == SIZE_BYTES // 2
    reserve.take()
    assert in_file(disk) == reserve.held_bytes == SIZE_BYTES


def test_reserve_of_an_earlier_process_counts(disk: MemoryDisk, reserve: Reserve) -> None:
    reserve.give_up(Share.HALF)
    assert Reserve(disk, "/data", SIZE_BYTES).held_bytes == SIZE_BYTES // 2

from __future__ import annotations

from uuid import UUID

from harness.manual_clock import ManualClock
from oncelog.log import delete_partition
from oncelog.simulation.memory_disk import MemoryDisk

DELAY_MS = 60_000


def test_partition_that_is_deleted_again_before_the_first_is_gone_has_another_name() -> None:
    """A replica that leaves its broker, comes back and leaves again: a directory is not renamed over one with files."""
    disk, clock = MemoryDisk(), ManualClock()
    disk.make_directory("/data")
    for _ in range(3):
        disk.make_directory("/data/t-0")
        disk.open("/data/t-0/00000000000000000000.log", create=True)
        delete_partition(disk, clock, "/data/t-0", "t", 0, UUID(int=2**128 - 1), DELAY_MS)
    assert len(disk.list_directory("/data")) == 3
    assert not disk.exists("/data/t-0")
    clock.advance(DELAY_MS)
    assert disk.list_directory("/data") == []

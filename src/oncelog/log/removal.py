"""Removing files once they have had another name for a while: readers may still have them open."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from oncelog.environment import Clock, Disk, DiskError
from oncelog.log.names import deleted_directory


def remove_later(disk: Disk, clock: Clock, paths: Sequence[str], delay_ms: int) -> None:
    """Remove files or directories in the background, once `delay_ms` is over."""

    def remove() -> None:
        for path in paths:
            disk.remove(path)

    def removed(error: DiskError | None) -> None:
        if error is not None:
            raise error

    def begin() -> None:
        disk.in_background(remove, removed)

    if delay_ms > 0:
        clock.call_later(delay_ms, begin)
    else:
        begin()


def delete_partition(
    disk: Disk, clock: Clock, directory: str, topic: str, partition: int, unique_id: UUID, delay_ms: int
) -> None:
    """Give a partition's directory the name of a deleted one at once, and remove it once `delay_ms` is over.

    A replica may have left, come back and leave again within that time: then the name is taken.
    """
    parent, _, _ = directory.rpartition("/")
    while disk.exists(deleted := f"{parent}/{deleted_directory(topic, partition, unique_id)}"):
        unique_id = UUID(int=(unique_id.int + 1) % 2**128)
    disk.rename(directory, deleted)
    remove_later(disk, clock, [deleted], delay_ms)

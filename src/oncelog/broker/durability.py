"""Making logs durable: one call to the disk serves everybody who waits for the same file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.coordination import Parked
from oncelog.environment import Disk, DiskError, File
from oncelog.log import PartitionLog


class Durability:
    """`on_failure` is told of a disk that cannot keep what was written; the broker then stops."""

    def __init__(self, disk: Disk, on_failure: Callable[[DiskError], None]) -> None:
        self._disk = disk
        self._on_failure = on_failure

    def make_durable(self, logs: Iterable[PartitionLog]) -> Parked[None]:
        """Release when everything that is in the logs now would survive a power cut."""
        durable: Parked[None] = Parked()
        ends = [(log, log.log_end_offset) for log in logs]
        files: list[File] = []
        for log, _ in ends:
            files.extend(log.unsynced_files())

        def synced(error: DiskError | None) -> None:
            if error is not None:
                # Whoever waits stays parked: no answer is better than one that a power cut makes false.
                self._on_failure(error)
                return
            for log, end in ends:
                log.synced_up_to(end)
            durable.release(None)

        self._disk.sync(files, synced)
        return durable

"""A data directory: who owns it, how it was left, and what is known of its partitions before they are opened."""

from __future__ import annotations

from oncelog.environment import Disk, Lock
from oncelog.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    NodeIdentity,
    PartitionOffsets,
    read_identity,
    read_partition_offsets,
    write_identity,
    write_partition_offsets,
)
from oncelog.log.names import DELETED_DIRECTORY, partition_directory, partition_of

LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class DataDirectory:
    """Owned from construction to `release`. Raises DirectoryInUseError if another process has it."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        disk.make_directory(path)
        self._lock: Lock = disk.lock(self._file(LOCK))

    def release(self) -> None:
        self._lock.release()

    def partition_path(self, topic: str, partition: int) -> str:
        return self._file(partition_directory(topic, partition))

    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that have a directory."""
        found = (partition_of(name) for name in self._disk.list_directory(self.path))
        return sorted(partition for partition in found if partition is not None)

    def remove_deleted(self) -> None:
        """Remove what deleted partitions left behind when the broker stopped before their files were gone."""
        for name in self._disk.list_directory(self.path):
            if name.endswith(DELETED_DIRECTORY):
                self._disk.remove(self._file(name))

    def take_clean_shutdown(self) -> bool:
        """Whether the last owner closed every log. Asked once: from now on a stop is unclean until it is marked."""
        path = self._file(CLEAN_SHUTDOWN)
        was_clean = self._disk.exists(path)
        if was_clean:
            self._disk.remove(path)
        return was_clean

    def mark_clean_shutdown(self) -> None:
        """Say that every log is closed and all checkpoints are written; the last thing a broker does."""
        self._disk.replace_file(self._file(CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')

    def identity(self) -> NodeIdentity | None:
        path = self._file(META_PROPERTIES)
        return read_identity(self._disk, path) if self._disk.exists(path) else None

    def write_identity(self, identity: NodeIdentity) -> None:
        write_identity(self._disk, self._file(META_PROPERTIES), identity)

    def recovery_points(self) -> dict[tuple[str, int], int]:
        """Below these offsets everything is durable."""
        return read_partition_offsets(self._disk, self._file(RECOVERY_POINTS))

    def write_recovery_points(self, offsets: PartitionOffsets) -> None:
        """Durable on return. Write it without a partition before a partition of the same name is made anew: a recovery
        point beyond the end of a log is taken for a disk that lost what it had promised to keep.
        """
        write_partition_offsets(self._disk, self._file(RECOVERY_POINTS), offsets)

    def log_start_offsets(self) -> dict[tuple[str, int], int]:
        return read_partition_offsets(self._disk, self._file(LOG_START_OFFSETS))

    def write_log_start_offsets(self, offsets: PartitionOffsets) -> None:
        write_partition_offsets(self._disk, self._file(LOG_START_OFFSETS), offsets)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return read_partition_offsets(self._disk, self._file(HIGH_WATERMARKS))

    def write_high_watermarks(self, offsets: PartitionOffsets) -> None:
        write_partition_offsets(self._disk, self._file(HIGH_WATERMARKS), offsets)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

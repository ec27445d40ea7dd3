"""One log directory: its lock and its checkpoints, the partitions that a start finds in it, and removal with a delay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from oncelog.environment import Clock, Disk, DiskError, Lock
from oncelog.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    NodeIdentity,
    PartitionOffsets,
    read_cleaned_offsets,
    read_identity,
    read_partition_offsets,
    read_topic_id,
    write_identity,
    write_partition_offsets,
)
from oncelog.log.names import (
    DELETED_DIRECTORY,
    deleted_directory,
    future_partition_of,
    moves_in,
    partition_directory,
    partition_of,
)


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


LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class DirectoryState(Enum):
    """The use of a log directory's partitions: full, without writes of producers, or none until the next start."""

    ONLINE = "online"
    FULL = "full"
    OFFLINE = "offline"


_FULL, _OFFLINE = DirectoryState.FULL, DirectoryState.OFFLINE
"""Python 3.11 takes ten times as long to find a member in its class, and each batch asks several times."""
TRANSITIONS = {
    DirectoryState.ONLINE: {DirectoryState.FULL, DirectoryState.OFFLINE},
    DirectoryState.FULL: {DirectoryState.ONLINE, DirectoryState.OFFLINE},
    DirectoryState.OFFLINE: set[DirectoryState](),
}


class LogPoints(NamedTuple):
    """How far a log is durable, where it begins, its high watermark, and how far it was cleaned; None if it never was."""

    recovery_point: int
    log_start_offset: int
    high_watermark: int
    cleaned_offset: int | None = None


class DataDirectory:
    """Owned from construction to `release`.

    Raises DirectoryInUseError if another process has it, and DiskError if it cannot be made or written.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.directory_id = ""
        """Known once it is claimed for a node."""
        self._state = DirectoryState.ONLINE
        self.failure: str | None = None
        """The failure that took it offline."""
        try:
            disk.make_directory(path)
            self._lock: Lock = disk.lock(self._file(LOCK))
        except DiskError as error:
            raise DiskError(
                f"{error}: let the broker make and write the log directory {path}, or name another one"
            ) from error

    def release(self) -> None:
        self._lock.release()

    @property
    def state(self) -> DirectoryState:
        return self._state

    @state.setter
    def state(self, state: DirectoryState) -> None:
        assert state in TRANSITIONS[self._state], (self.path, self._state, state)
        self._state = state

    @property
    def is_offline(self) -> bool:
        return self._state is _OFFLINE

    @property
    def is_full(self) -> bool:
        return self._state is _FULL

    def go_offline(self, failure: str) -> None:
        """Use it no more: the disk has failed. What it has is what the next start finds."""
        self.state = DirectoryState.OFFLINE
        self.failure = failure

    def partition_path(self, topic: str, partition: int) -> str:
        return self._file(partition_directory(topic, partition))

    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that have a directory."""
        found = (partition_of(name) for name in self._disk.list_directory(self.path))
        return sorted(partition for partition in found if partition is not None)

    def futures(self) -> list[str]:
        """The paths of the future logs that a start finds here."""
        return [
            self._file(name) for name in self._disk.list_directory(self.path) if future_partition_of(name) is not None
        ]

    def moves_of(self, topic: str, partition: int) -> int:
        """How often a partition that is here was moved."""
        return moves_in(self._disk.list_directory(self.partition_path(topic, partition)))

    def keep_names(self) -> None:
        """Make durable which names are in the directory."""
        self.write_recovery_points(self.recovery_points())

    def has(self, name: str) -> bool:
        """True if there is a file of this name."""
        return self._disk.exists(self._file(name))

    def has_partitions(self) -> bool:
        """True if a broker made one of the directories that look like a partition's."""
        return any(
            self._disk.exists(f"{self.partition_path(*partition)}/{PARTITION_METADATA}")
            for partition in self.partitions()
        )

    def remove_deleted(self) -> None:
        """Remove what deleted partitions left behind when the broker stopped before their files were gone."""
        for name in self._disk.list_directory(self.path):
            if name.endswith(DELETED_DIRECTORY):
                self._disk.remove(self._file(name))

    @property
    def was_closed(self) -> bool:
        """True if the last owner closed every log."""
        return self.has(CLEAN_SHUTDOWN)

    def take_clean_shutdown(self) -> bool:
        """The same, asked once: from now on a stop is unclean until it is marked."""
        was_clean = self.was_closed
        if was_clean:
            self._disk.remove(self._file(CLEAN_SHUTDOWN))
        return was_clean

    def mark_clean_shutdown(self) -> None:
        """Say that every log is closed and all checkpoints are written; the last thing a broker does."""
        self._disk.replace_file(self._file(CLEAN_SHUTDOWN), b'{"version":0,"brokerEpoch":-1}')

    def identity(self) -> NodeIdentity | None:
        return read_identity(self._disk, self._file(META_PROPERTIES)) if self.has(META_PROPERTIES) else None

    def write_identity(self, identity: NodeIdentity) -> None:
        write_identity(self._disk, self._file(META_PROPERTIES), identity)

    def watch_identity(self) -> None:
        """Have the disk watch `meta.properties` while the directory is owned."""
        self._disk.watch(self._file(META_PROPERTIES), "the next start needs it, so put it back from a copy")

    def write_checkpoint(self, points: Mapping[tuple[str, int], LogPoints]) -> None:
        """Durable on return."""
        self.write_recovery_points({key: one.recovery_point for key, one in points.items()})
        self.write_log_start_offsets({key: one.log_start_offset for key, one in points.items()})
        self.write_high_watermarks({key: one.high_watermark for key, one in points.items()})
        cleaned = {key: one.cleaned_offset for key, one in points.items()}
        self.write_cleaned_offsets({key: offset for key, offset in cleaned.items() if offset is not None})

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

    def has_high_watermarks(self) -> bool:
        """True if the checkpoint of high watermarks is whole. A log without followers does not need it."""
        try:
            self.high_watermarks()
        except DiskError:
            return False
        return self.has(HIGH_WATERMARKS)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return read_partition_offsets(self._disk, self._file(HIGH_WATERMARKS))

    def write_high_watermarks(self, offsets: PartitionOffsets) -> None:
        write_partition_offsets(self._disk, self._file(HIGH_WATERMARKS), offsets)

    def cleaned_offsets(self) -> dict[tuple[str, int], int]:
        """Below these offsets logs were cleaned."""
        return read_cleaned_offsets(self._disk, self._file(CLEANED_OFFSETS))

    def write_cleaned_offsets(self, offsets: PartitionOffsets) -> None:
        """A directory in which no log was ever cleaned gets no such file."""
        if offsets or self.has(CLEANED_OFFSETS):
            write_partition_offsets(self._disk, self._file(CLEANED_OFFSETS), offsets)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"


PartitionKey = tuple[str, int]


class Standing(Enum):
    """The standing of a partition that a start finds in a log directory."""

    CURRENT = "as far as is known, the partition"
    DOUBTFUL = (
        "the partition was made while the directory was absent: it is another one's, unless it was moved there since"
    )
    LEFT_OVER = "of a topic that was deleted, or of a replica that was left"


class KnownPartitions(Protocol):
    """The partitions that a node knows."""

    def standing(self, key: PartitionKey, directory_id: str) -> Standing: ...

    def has(self, key: PartitionKey, topic_id: UUID | None) -> bool:
        """True if the node has a partition of this topic under this name."""
        ...


class FoundPartitions:
    """`places` has the log directory of each. What is left over is removed, and a move that the stop has cut short is finished."""

    __slots__ = ("_disk", "places", "sources")

    def __init__(self, disk: Disk, directories: Sequence[DataDirectory], known: KnownPartitions) -> None:
        """Raises DiskError if one is in two places."""
        self._disk = disk
        self.places: dict[PartitionKey, DataDirectory] = {}
        self.sources: dict[PartitionKey, DataDirectory] = {}
        """The old directories of partitions whose move this start has finished."""
        found: dict[PartitionKey, dict[DataDirectory, Standing]] = {}
        for directory in directories:
            directory.remove_deleted()
            directory_id = _id_of(directory)
            for key in directory.partitions():
                found.setdefault(key, {})[directory] = known.standing(key, directory_id)
        for key, standings in found.items():
            for directory, standing in standings.items():
                if self._is_left_over(key, directory, standing, standings.values(), known):
                    disk.remove(directory.partition_path(*key))
                elif key in self.places:
                    self._finish_move(key, self.places[key], directory)
                else:
                    self.places[key] = directory

    def _is_left_over(
        self,
        key: PartitionKey,
        directory: DataDirectory,
        standing: Standing,
        every: Collection[Standing],
        known: KnownPartitions,
    ) -> bool:
        if standing is not Standing.DOUBTFUL:
            return standing is Standing.LEFT_OVER
        if Standing.CURRENT in every:
            return True
        return not known.has(key, self._topic_id(directory.partition_path(*key)))

    def _topic_id(self, partition_path: str) -> UUID | None:
        """None where a power cut has left nothing of the file, or a torn one."""
        path = f"{partition_path}/{PARTITION_METADATA}"
        if not self._disk.exists(path):
            return None
        # For the error of a disk that fails, which must not be taken for a torn file.
        self._disk.read_file(path)
        with suppress(DiskError):
            return read_topic_id(self._disk, path)
        return None

    def _finish_move(self, key: PartitionKey, one: DataDirectory, other: DataDirectory) -> None:
        """A partition that is in two directories was moved, and the stop came before the old one was gone.

        The new one has everything, since before it got its name. Raises DiskError where no move has left two.
        """
        source, target = sorted((one, other), key=lambda directory: directory.moves_of(*key))
        if source.moves_of(*key) == target.moves_of(*key):
            raise DiskError(
                f"partition {partition_directory(*key)} is in two log directories, {one.path} and "
                f"{other.path}: move the one that is not wanted to somewhere else"
            )
        # Nothing says in what order two disks keep their names.
        target.keep_names()
        self._disk.remove(source.partition_path(*key))
        self.places[key] = target
        self.sources[key] = source


def _id_of(directory: DataDirectory) -> str:
    identity = directory.identity()
    return "" if identity is None else identity.directory_id

"""Which of the partitions that a start finds in the log directories are the node's, and which are left over."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from enum import Enum
from typing import Protocol
from uuid import UUID

from oncelog.environment import Disk, DiskError
from oncelog.log.checkpoints import PARTITION_METADATA, read_topic_id
from oncelog.log.data_directory import DataDirectory
from oncelog.log.names import partition_directory

PartitionKey = tuple[str, int]


class Standing(Enum):
    """What a partition is that a start finds in a log directory."""

    CURRENT = "as far as is known, the partition"
    DOUBTFUL = (
        "the partition was made while the directory was absent: it is another one's, unless it was moved there since"
    )
    LEFT_OVER = "of a topic that was deleted, or of a replica that was left"


class KnownPartitions(Protocol):
    """What the node knows of its partitions."""

    def standing(self, key: PartitionKey, directory_id: str) -> Standing: ...

    def has(self, key: PartitionKey, topic_id: UUID | None) -> bool:
        """Whether the node has a partition of this topic under this name."""
        ...


class FoundPartitions:
    """`places` has the log directory of each. What is left over is removed, and a move that the stop has cut short is finished."""

    __slots__ = ("_disk", "places", "sources")

    def __init__(self, disk: Disk, directories: Sequence[DataDirectory], known: KnownPartitions) -> None:
        """Raises DiskError if one is in two places."""
        self._disk = disk
        self.places: dict[PartitionKey, DataDirectory] = {}
        self.sources: dict[PartitionKey, DataDirectory] = {}
        """Where those were whose move is finished now."""
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

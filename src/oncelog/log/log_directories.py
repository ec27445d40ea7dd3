"""The log directories of a node: which of them is its home, in which of them each partition is, and the room kept back in them.

Each has its own lock, `meta.properties`, checkpoints and mark of a clean stop. What a node keeps once is at home.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from oncelog.environment import Disk, DiskError, Share
from oncelog.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OWN_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    NodeIdentity,
)
from oncelog.log.data_directory import DataDirectory, FoundPartitions, KnownPartitions, LogPoints, PartitionKey
from oncelog.log.names import partition_directory

RESERVE = "oncelog-reserve"


class Reserve:
    """It is given up in two halves, and taken again as a whole. Giving it up may be asked for on any thread."""

    def __init__(self, disk: Disk, directory: str, size_bytes: int) -> None:
        """Raises DiskError. What is there of an earlier process counts."""
        self._disk = disk
        self._path = f"{directory}/{RESERVE}"
        self.size_bytes = size_bytes
        self.held_bytes = 0
        if disk.exists(self._path):
            file = disk.open(self._path)
            self.held_bytes = file.size_bytes
            file.close()

    @property
    def missing_bytes(self) -> int:
        return self.size_bytes - self.held_bytes

    def take(self) -> None:
        """Raises DiskFullError, and DiskError."""
        if self.missing_bytes:
            self._disk.allocate(self._path, self.size_bytes)
            self.held_bytes = self.size_bytes

    def give_up(self, share: Share) -> bool:
        """Make room for a write that may take so much; say whether there is more now. Raises DiskError."""
        half = self.size_bytes // 2
        if share is Share.NONE or not self.held_bytes or (share is Share.HALF and self.held_bytes <= half):
            return False
        left = half if self.held_bytes > half else 0
        self._disk.allocate(self._path, left)
        self.held_bytes = left
        return True


PREFERRED_MAX = 10_000
"""For so many partitions that are not there yet the directory is remembered."""


class LogDirectories:
    """Owned from construction to `release`.

    A partition stays where it was made; a new one goes to the directory that has the fewest (Kafka's LogManager).
    """

    def __init__(self, disk: Disk, paths: Sequence[str], home_file: str) -> None:
        """Home is the directory that has `home_file`, in a new node the first.

        Raises DirectoryInUseError, and DiskError for a directory that cannot be made or written, and for a home that is
        missing or there twice.
        """
        self._disk = disk
        self._directories: list[DataDirectory] = []
        self.offline: list[DataDirectory] = []
        self._places: dict[PartitionKey, DataDirectory] = {}
        self._counts: Counter[DataDirectory] = Counter()
        self._sources: dict[PartitionKey, DataDirectory] = {}
        """The old directories of partitions whose move the start has finished."""
        self._preferred: dict[PartitionKey, DataDirectory] = {}
        self.begun_anew: frozenset[PartitionKey] = frozenset()
        """Replicas whose disk was replaced: what is known of their logs is true no more."""
        try:
            for path in paths:
                self._directories.append(DataDirectory(disk, path))
            self._home = self._find_home(home_file)
        except BaseException:
            self.release()
            raise

    def _find_home(self, home_file: str) -> DataDirectory:
        homes = [directory for directory in self._directories if directory.has(home_file)]
        if len(homes) > 1:
            raise DiskError(
                f"{homes[0].path} and {homes[1].path} are the homes of two nodes, for {home_file} is in both: "
                "name the directories of one node in log.dirs"
            )
        if homes:
            return homes[0]
        self._check_whose()
        for directory in self._directories:
            if directory.has_partitions() or directory.has(OWN_CHECKPOINT):
                raise DiskError(
                    f"{directory.path} has partitions or had, and {home_file}, which says of what topics, is in none of the log "
                    "directories: name the directory that has it in log.dirs too, or begin with empty ones"
                )
        return self._directories[0]

    def release(self) -> None:
        for directory in self._directories:
            directory.release()

    def __len__(self) -> int:
        return len(self._directories)

    def __iter__(self) -> Iterator[DataDirectory]:
        return iter(self._directories)

    @property
    def paths(self) -> list[str]:
        return [directory.path for directory in self._directories]

    @property
    def home(self) -> str:
        """The path of the directory with what the node keeps once."""
        return self._home.path

    def identity(self) -> NodeIdentity | None:
        """The node that owns the directories; None for new ones. Raises DiskError if they are not all of one node."""
        self._check_whose()
        found = self._identities()
        if not found:
            return None
        (first, expected), *rest = found.items()
        for directory, identity in rest:
            if (identity.cluster_id, identity.node_id) != (expected.cluster_id, expected.node_id):
                raise DiskError(
                    f"{first.path} is of node {expected.node_id} of cluster {expected.cluster_id}, and {directory.path} "
                    f"of node {identity.node_id} of cluster {identity.cluster_id}: name the directories of one node in "
                    "log.dirs"
                )
        return expected

    def _check_whose(self) -> None:
        for directory, identity in self._identities().items():
            if identity.is_kafkas:
                raise DiskError(
                    f"{directory.path} is that of broker {identity.node_id} of Apache Kafka: let `oncelog cluster convert --from "
                    "kafka` make it one of oncelog, when the broker has stopped"
                )

    def claim(self, cluster_id: str, node_id: int, new_id: Callable[[], str]) -> dict[str, str]:
        """Write whose they are where nothing says it. Return the path of each directory by its id."""
        found = self._identities()
        paths: dict[str, str] = {}
        for directory in self._directories:
            identity = found.get(directory)
            if identity is None or not identity.directory_id:
                identity = NodeIdentity(cluster_id, node_id, new_id())
                directory.write_identity(identity)
            directory.directory_id = identity.directory_id
            directory.watch_identity()
            paths[identity.directory_id] = directory.path
        return paths

    def _identities(self) -> dict[DataDirectory, NodeIdentity]:
        found = {directory: directory.identity() for directory in self._directories}
        return {directory: identity for directory, identity in found.items() if identity is not None}

    def find_partitions(self, known: KnownPartitions) -> None:
        """Learn where each partition is, and remove what is left over. Raises DiskError if one is in two places."""
        found = FoundPartitions(self._disk, self._directories, known)
        self._sources = found.sources
        for key, directory in found.places.items():
            self._put(key, directory)

    def check_complete(
        self, partitions: Iterable[PartitionKey], before: Mapping[str, str], *, are_replicas: bool = False
    ) -> None:
        """Raise DiskError if a partition is nowhere, and of the directories that there were `before` one is missing.

        `before` is what `claim` returned then. A partition that is nowhere although all directories are there lost its
        name to a power cut before anything of it was durable, and begins anew. So do replicas where a directory that is missing
        has an empty one in its place: other brokers have what was lost.
        """
        present = {identity.directory_id for identity in self._identities().values()}
        gone = [path for directory_id, path in before.items() if directory_id not in present]
        nowhere = [key for key in partitions if key not in self._places]
        if not gone or not nowhere:
            return
        if are_replicas and set(gone) <= set(self.paths):
            self.begun_anew = frozenset(nowhere)
            return
        more = f" and {len(nowhere) - 1} more partitions are" if len(nowhere) > 1 else " is"
        raise DiskError(
            f"{partition_directory(*nowhere[0])}{more} in none of the log directories, and what was the log directory {gone[0]} "
            "is not among them: name it in log.dirs again; if it is lost, make an empty directory of the partition's name in "
            "another"
        )

    def made_besides(self, partitions: Iterable[PartitionKey]) -> str | None:
        """A directory that a broker made, of a partition that is none of these."""
        known = set(partitions)
        for key, directory in self._places.items():
            path = directory.partition_path(*key)
            if key not in known and self._disk.exists(f"{path}/{PARTITION_METADATA}"):
                return path
        return None

    def were_in_use(self) -> bool:
        """True if a broker has begun in them: the first thing it writes but for the journal is a checkpoint."""
        return any(directory.has(RECOVERY_POINTS) or directory.has_partitions() for directory in self._directories)

    def missing_checkpoints(self) -> list[str]:
        """The checkpoints that are not there in directories that were used, or that are damaged and not needed."""
        missing = []
        for directory in self._directories:
            if directory.has_partitions():
                names = [name for name in (RECOVERY_POINTS, LOG_START_OFFSETS) if not directory.has(name)]
                if not directory.has_high_watermarks():
                    names.append(HIGH_WATERMARKS)
                missing += [f"{directory.path}/{name}" for name in names]
        return missing

    def partition_path(self, topic: str, partition: int) -> str | None:
        """The path of a partition; None if there is no such partition."""
        directory = self._places.get((topic, partition))
        return None if directory is None else directory.partition_path(topic, partition)

    def directory_of(self, topic: str, partition: int) -> str:
        """The path of the log directory that has a partition."""
        return self._places[topic, partition].path

    def holder(self, topic: str, partition: int) -> DataDirectory:
        """The log directory that has a partition."""
        return self._places[topic, partition]

    def of_path(self, path: str) -> DataDirectory | None:
        """The log directory that a file or directory is in, or is; None for another place."""
        for directory in self._directories:
            if path == directory.path or path.startswith(f"{directory.path}/"):
                return directory
        return None

    def take_offline(self, directory: DataDirectory, failure: str) -> None:
        """Use a directory no more until the next start. Home cannot be done without."""
        assert directory is not self._home, "what a node keeps once is there"
        directory.go_offline(failure)
        self.offline.append(directory)

    @property
    def online(self) -> list[DataDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    def is_home(self, directory: DataDirectory) -> bool:
        return directory is self._home

    def place(self, topic: str, partition: int) -> str:
        """Choose the directory of a new partition; return the path the partition has there."""
        directory = self._preferred.pop((topic, partition), None)
        if directory is None or directory.is_offline:
            directory = min(self.online, key=lambda one: (one.is_full, self._counts[one]))
        self._put((topic, partition), directory)
        return directory.partition_path(topic, partition)

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Make a partition that is not there yet in this directory. It is forgotten with the process, as in Kafka."""
        if len(self._preferred) == PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic, partition] = self._directory_at(path)

    def moved(self, key: PartitionKey, path: str) -> None:
        """A partition has gone to another directory."""
        self._counts[self._places[key]] -= 1
        self._put(key, self._directory_at(path))

    def moves_of(self, topic: str, partition: int) -> int:
        """How often a partition was moved."""
        return self._places[topic, partition].moves_of(topic, partition)

    def futures(self) -> list[tuple[str, str]]:
        """The future logs that a start finds: the paths of their log directories and their own."""
        return [(directory.path, path) for directory in self._directories for path in directory.futures()]

    def _directory_at(self, path: str) -> DataDirectory:
        return next(directory for directory in self._directories if directory.path == path)

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        """These partitions are deleted."""
        self._counts.subtract([self._places.pop(key) for key in partitions])

    def _put(self, key: PartitionKey, directory: DataDirectory) -> None:
        self._places[key] = directory
        self._counts[directory] += 1

    def were_closed(self) -> bool:
        """True if the last owner closed every log. It leaves the mark for the next start."""
        return all(one.was_closed or not (self.is_home(one) or self._counts[one]) for one in self._directories)

    def keep_names(self) -> None:
        """Make durable which partitions are in the directories."""
        for directory in self._directories:
            directory.keep_names()

    def take_clean_shutdown(self) -> bool:
        """True if the last owner closed every log. It removes the mark: from now on a stop is unclean until it is marked.

        The mark of home alone is not enough: a directory may be of another time. A directory that nothing was ever put into is as
        a clean stop leaves it.
        """
        were_closed = [
            directory.take_clean_shutdown() or not (directory is self._home or self._counts[directory])
            for directory in self._directories
        ]
        return all(were_closed)

    def recovery_points(self) -> dict[PartitionKey, int]:
        """Below these offsets everything is durable."""
        return self._offsets(DataDirectory.recovery_points)

    def log_start_offsets(self) -> dict[PartitionKey, int]:
        return self._offsets(DataDirectory.log_start_offsets)

    def high_watermarks(self) -> dict[PartitionKey, int]:
        return self._offsets(DataDirectory.high_watermarks)

    def cleaned_offsets(self) -> dict[PartitionKey, int]:
        """Below these offsets logs were cleaned."""
        return self._offsets(DataDirectory.cleaned_offsets)

    def _offsets(self, read: Callable[[DataDirectory], dict[PartitionKey, int]]) -> dict[PartitionKey, int]:
        """The offsets that each directory has for its own partitions, or for partitions that are nowhere.

        The directory that a partition was moved to may not have its offset yet: then that of the old directory is true.
        """
        said = {directory: read(directory) for directory in self._directories}
        found = {
            key: offset
            for directory, offsets in said.items()
            for key, offset in offsets.items()
            if self._places.get(key, directory) is directory
        }
        moved = {key: said[source][key] for key, source in self._sources.items() if key in said[source]}
        return moved | found

    def checkpoint(self, points: Mapping[PartitionKey, LogPoints]) -> Callable[[], None]:
        """Write it, each directory's part to that; a partition that is gone by now is left out."""
        by_directory: dict[DataDirectory, dict[PartitionKey, LogPoints]] = {one: {} for one in self._directories}
        for key, one in points.items():
            directory = self._places.get(key)
            if directory is not None:
                by_directory[directory][key] = one

        def write() -> None:
            for directory, own in by_directory.items():
                if not directory.is_offline:
                    directory.write_checkpoint(own)

        return write

"""The log directories of a broker that does not run: their lock, their checkpoints, their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from oncelog.broker.identity import is_of_member
from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.log.stored import JournalContent, read_journal_content
from oncelog.environment import DirectoryInUseError, Disk, DiskError
from oncelog.log import LONG_MAX, PARTITION_METADATA, LogDigest, OwnCheckpoint, read_own_checkpoint, read_topic_id
from oncelog.log.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    read_cleaned_offsets,
    read_partition_offsets,
)
from oncelog.log.data_directory import CLEAN_SHUTDOWN, LOCK
from oncelog.log.inspection.findings import KnownOfPartition
from oncelog.log.names import LOG, SNAPSHOT, moves_in, offset_of, partition_directory, partition_of

PartitionKey = tuple[str, int]
CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
MARKS = (JOURNAL, META_PROPERTIES, *CHECKPOINTS)
"""One of these is in every log directory."""


@dataclass(slots=True)
class LogDirectory:
    """One log directory. A checkpoint that cannot be read, or is not there, is None."""

    path: str
    was_clean: bool
    partitions: list[PartitionKey] = field(default_factory=list)
    checkpoints: dict[str, dict[PartitionKey, int] | None] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    cleaned: set[PartitionKey] = field(default_factory=set)
    """The partitions that were compacted once."""
    left: list[PartitionKey] = field(default_factory=list)
    """The partitions that were moved to another directory, and not removed here yet."""

    def offset(self, checkpoint: str, key: PartitionKey) -> int | None:
        return (self.checkpoints.get(checkpoint) or {}).get(key)

    def partition_path(self, key: PartitionKey) -> str:
        return f"{self.path}/{partition_directory(*key)}"


@dataclass(slots=True)
class NodeFiles:
    """The log directories of one node that were named. `home` has the journal; None if none of them does."""

    directories: list[LogDirectory]
    home: str | None
    journal: JournalContent
    own: OwnCheckpoint | None

    @property
    def was_clean(self) -> bool:
        return all(directory.was_clean or not directory.partitions for directory in self.directories)

    @property
    def journal_bytes_missing(self) -> int:
        """The bytes of whole lines that are missing at the end of the journal."""
        durable = 0 if self.own is None or self.journal.broken else self.own.journal_bytes
        return max(0, durable - self.journal.size_bytes)

    def lost_power(self, disk: Disk) -> bool:
        """True if the machine was started again since the broker ended without a clean stop."""
        return not self.was_clean and disk.boot_id() != self.journal.state.boot_id

    def known_of(self, disk: Disk, directory: LogDirectory, key: PartitionKey) -> KnownOfPartition:
        """The facts about a partition that other files than its own have."""
        topic = self.journal.state.topics.get(key[0])
        topic_id = "" if topic is None else topic.topic_id
        was_clean = self.was_clean
        end = directory.offset(RECOVERY_POINTS, key)
        if was_clean:
            end = self.closed_end(disk, directory, key)
        vouched = 0 if self.own is None or topic is None else self.own.durable_ends.get((topic.uuid, key[1]), 0)
        return KnownOfPartition(
            name=partition_directory(*key),
            was_clean=was_clean and end is not None,
            lost_power=self.lost_power(disk),
            recovery_point=max(end or 0, vouched),
            log_start_offset=self.log_start_offset(directory, key),
            gaps_below=self._gaps_below(directory, key),
            index_interval_bytes=self.journal.index_interval_bytes(topic_id),
            leader_epoch_max=None if self.home is None else self.journal.state.last_leader_epoch,
            has_own_checkpoint=self.own is not None,
        )

    def _gaps_below(self, directory: LogDirectory, key: PartitionKey) -> int:
        """As a start takes it."""
        topic = self.journal.state.topics.get(key[0])
        if not self.journal.is_compacted("" if topic is None else topic.topic_id) and key not in directory.cleaned:
            return 0
        if self.own is None or self.own.gaps_below is None or topic is None:
            return LONG_MAX
        return self.own.gaps_below.get((topic.uuid, key[1]), 0)

    def log_start_offset(self, directory: LogDirectory, key: PartitionKey) -> int:
        """The log start offset that a start uses."""
        topic = self.journal.state.topics.get(key[0])
        if self.own is None or topic is None:
            return directory.offset(LOG_START_OFFSETS, key) or 0
        return self.own.aborted.get((topic.uuid, key[1]), LogDigest(0)).log_start_offset

    def closed_end(self, disk: Disk, directory: LogDirectory, key: PartitionKey) -> int | None:
        """The end of a log that was closed, on which two checkpoints and the newest snapshot agree."""
        said = [directory.offset(name, key) for name in (RECOVERY_POINTS, HIGH_WATERMARKS)]
        snapshots = [offset_of(name, SNAPSHOT) for name in disk.list_directory(directory.partition_path(key))]
        newest = max((offset for offset in snapshots if offset is not None), default=0)
        present = [offset for offset in said if offset is not None]
        if not present:
            return newest or None
        return next((offset for offset in present if offset == newest), max(present))


def read_node(disk: Disk, paths: Sequence[str]) -> NodeFiles:
    """Read the metadata of the directories.

    Raises CommandError for a path that is no log directory, and for that of a member of a cluster: what it should have is in
    ZooKeeper, and a repair would make it that of a broker that is alone.
    """
    directories = [_read_directory(disk, path) for path in paths]
    _tell_moved_apart(disk, directories)
    homes = [path for path in paths if disk.exists(f"{path}/{JOURNAL}")]
    if len(homes) > 1:
        raise CommandError(f"{homes[0]} and {homes[1]} are of two nodes: name those of one", ExitStatus.USAGE)
    home = homes[0] if homes else None
    journal = JournalContent() if home is None else read_journal_content(disk, f"{home}/{JOURNAL}")
    if is_of_member(journal.state):
        raise CommandError(
            f"{home} is that of a member of a cluster, which has its topics in ZooKeeper: only that of a broker that is alone is "
            "verified and repaired",
            ExitStatus.USAGE,
        )
    own = None if home is None else read_own_checkpoint(disk, home)
    return NodeFiles(directories, home, journal, own)


def _tell_moved_apart(disk: Disk, directories: Sequence[LogDirectory]) -> None:
    """Where two directories have a partition, the one that it was moved to counts, as at a start."""
    places: dict[PartitionKey, list[tuple[int, LogDirectory]]] = {}
    for directory in directories:
        for key in directory.partitions:
            moves = moves_in(disk.list_directory(directory.partition_path(key)))
            places.setdefault(key, []).append((moves, directory))
    for key, found in places.items():
        if len(found) == 2 and found[0][0] != found[1][0]:
            _, directory = min(found, key=lambda one: one[0])
            directory.partitions.remove(key)
            directory.left.append(key)


def _read_directory(disk: Disk, path: str) -> LogDirectory:
    names = disk.list_directory(path)
    found = LogDirectory(path, CLEAN_SHUTDOWN in names)
    for name in names:
        key = partition_of(name)
        if key is not None and is_partition(disk, f"{path}/{name}"):
            found.partitions.append(key)
    for name in CHECKPOINTS:
        try:
            found.checkpoints[name] = read_partition_offsets(disk, f"{path}/{name}") if name in names else None
        except DiskError as error:
            found.checkpoints[name] = None
            found.problems.append((name, str(error)))
    with suppress(DiskError):
        found.cleaned.update(read_cleaned_offsets(disk, f"{path}/{CLEANED_OFFSETS}"))
    return found


def is_partition(disk: Disk, path: str) -> bool:
    """True if a directory has the files of a partition; another program may use such a name too."""
    try:
        names = disk.list_directory(path)
    except DiskError:
        return False
    return not names or any(
        name == PARTITION_METADATA or offset_of(name, LOG) is not None or name.endswith(SNAPSHOT) for name in names
    )


def topic_id_of(disk: Disk, directory: str) -> UUID | None:
    """The topic id in the partition.metadata of a directory; None if it cannot be read."""
    try:
        return read_topic_id(disk, f"{directory}/{PARTITION_METADATA}")
    except DiskError:
        return None


def is_log_directory(disk: Disk, path: str) -> bool:
    return any(disk.exists(f"{path}/{name}") for name in MARKS)


@contextmanager
def locked(disk: Disk, paths: Sequence[str], *, must_be_written: bool) -> Iterator[None]:
    """Lock the directories. Raises CommandError if a broker runs on them.

    Where the lock file cannot be created, reading is safe: a broker could not create it either.
    """
    with ExitStack() as held:
        for path in paths:
            try:
                held.callback(disk.lock(f"{path}/{LOCK}").release)
            except DirectoryInUseError as error:
                raise CommandError(f"a broker runs on {path}: stop it first", ExitStatus.USAGE) from error
            except DiskError as error:
                if must_be_written:
                    raise CommandError(str(error), ExitStatus.FAILED) from error
        yield

"""Opens the logs of partitions, at a start with what the last stop left and later as new ones, and closes them at a stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.storage.journal import FILE_NAME as JOURNAL
from oncelog.broker.storage.partition import UnopenedLog
from oncelog.broker.storage.topics import Topic, Topics
from oncelog.environment import Clock, Disk, DiskError
from oncelog.log import (
    EPOCH_MAX,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    LONG_MAX,
    OWN_CHECKPOINT,
    PARTITION_METADATA,
    DamagedLogError,
    DataDirectory,
    LoadedLog,
    LogConfig,
    LogDigest,
    LogDirectories,
    LogPoints,
    OwnCheckpoint,
    PartitionLog,
    PartitionOffsets,
    Replayed,
    UnknownEpochError,
    open_log,
    read_epoch_starts,
    read_topic_id,
    sync_segments,
    uuid_text,
    write_topic_id,
)

logger = logging.getLogger("oncelog.broker")

SYNCED_AT_ONCE = 64
"""The files of so many logs are open until they are durable."""


@dataclass(frozen=True, slots=True)
class LeftByLastStop:
    """The facts about the logs before any of them is read. The defaults are those of a broker that has started."""

    was_clean: bool = True
    recovery_points: PartitionOffsets = field(default_factory=dict)
    log_start_offsets: PartitionOffsets = field(default_factory=dict)
    cleaned_offsets: PartitionOffsets = field(default_factory=dict)
    durable_ends: Mapping[tuple[UUID, int], int] = field(default_factory=dict)
    """Up to which offset the write-ahead files vouch for a log, or did when a start found it damaged."""
    digests: Mapping[tuple[UUID, int], LogDigest] | None = None
    """The digest of each log in the checkpoint; None without a checkpoint."""
    gaps_below: Mapping[tuple[UUID, int], int] | None = field(default_factory=dict)
    """Below which offset a compacted log may have gaps; one that is not named has none. None if no checkpoint says it."""
    high_watermarks: PartitionOffsets = field(default_factory=dict)
    """The high watermarks that a member of a cluster knew; alone it is the log end offset."""


def say_what_is_missing(
    directories: LogDirectories, own: OwnCheckpoint | None, replayed: Replayed, *, was_clean: bool
) -> None:
    """Log the files that are missing although the broker has run before."""
    for path in directories.missing_checkpoints():
        logger.warning("%s is missing or damaged, and made anew", path)
    if own is None:
        path = f"{directories.home}/{OWN_CHECKPOINT}"
        logger.warning("%s is missing or damaged, and made anew: transaction indexes are believed", path)
    if not was_clean and not replayed.files:
        logger.warning("%s has no write-ahead log, and one is made anew: what it alone had is lost", directories.home)
    for path, size_bytes in replayed.unread:
        logger.warning("%s: its last %d bytes are no entries, as after a power cut, and not used", path, size_bytes)


class _KnownOfLog(NamedTuple):
    """The facts about one log from the last stop. `digest` is None without a checkpoint."""

    recovery_point: int
    log_start_offset: int
    cleaned_offset: int | None
    durable_end: int
    gaps_below: int
    digest: LogDigest | None
    high_watermark: int | None


class LogOpening:
    """Opens logs. A log that is damaged does not open, and its partition is offline."""

    __slots__ = (
        "_are_replicas",
        "_clock",
        "_compacted",
        "_directories",
        "_disk",
        "_leader_epoch",
        "_leader_epoch_max",
        "_survives",
        "_written",
        "left",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directories: LogDirectories,
        leader_epoch: int,
        compacted: Set[UUID],
        left: LeftByLastStop,
        survives: Callable[[DiskError], bool],
        *,
        are_replicas: bool = False,
    ) -> None:
        """`are_replicas`: the logs may follow those of other brokers, and `leader_epoch` is none of theirs. `compacted` are topics
        that were compacted once: their logs have gaps, whatever their settings say now.

        `survives` is told of a disk that fails, and says whether the broker goes on without the directory it is about.
        """
        self._disk = disk
        self._clock = clock
        self._directories = directories
        self._leader_epoch = leader_epoch
        self._compacted = compacted
        self._survives = survives
        self._are_replicas = are_replicas
        # Under which epochs others led, nobody can tell here.
        self._leader_epoch_max = EPOCH_MAX if are_replicas else leader_epoch - 1
        self._written: list[LoadedLog] | None = []
        self.left = left

    def make_durable(self) -> None:
        """Make durable what opening logs has left to be. From now on each log sees to that itself."""
        self._sync_written()
        self._written = None

    def _sync_written(self) -> None:
        """Side by side: a file alone keeps the disk from nothing else."""
        written = self._written or []
        self._disk.sync_all([file for log in written for file in log.written])
        for log in written:
            log.close()
        written.clear()

    def forget(self) -> None:
        """Every log that was there is open: those that come now are new."""
        self.left = LeftByLastStop()

    def open(self, topic: Topic, index: int, config: LogConfig) -> tuple[PartitionLog | UnopenedLog, DataDirectory]:
        """The log, and the log directory that it is in. One whose disk fails meanwhile has it nevertheless, and is offline."""
        found = self._directories.partition_path(topic.name, index)
        path = found or self._directories.place(topic.name, index)
        directory = self._directories.holder(topic.name, index)
        known = self._known_of(topic, index, config)
        try:
            return self._open(topic, index, config, path, known, is_new=found is None), directory
        except DiskError as error:
            if not self._survives(error) or not directory.is_offline:
                raise
            return _unopened(path, topic, known, None), directory

    def _known_of(self, topic: Topic, index: int, config: LogConfig) -> _KnownOfLog:
        key = (topic.name, index)
        left = LeftByLastStop() if key in self._directories.begun_anew else self.left
        recovery_point, log_start_offset = left.recovery_points.get(key, 0), left.log_start_offsets.get(key, 0)
        digest = None
        if left.digests is not None:
            digest = left.digests.get((topic.topic_id, index), LogDigest(recovery_point))
            if log_start_offset > digest.log_start_offset:
                _say_which_start_counts(f"{topic.name}-{index}", log_start_offset, digest.log_start_offset)
            # It is written first, and has a checksum.
            log_start_offset = digest.log_start_offset
        cleaned_offset, durable_end = left.cleaned_offsets.get(key), left.durable_ends.get((topic.topic_id, index), 0)
        may_have_gaps = config.is_compacted or topic.topic_id in self._compacted or cleaned_offset is not None
        gaps_below = 0
        if may_have_gaps:
            gaps_below = LONG_MAX if left.gaps_below is None else left.gaps_below.get((topic.topic_id, index), 0)
        high_watermark = max(left.high_watermarks.get(key, 0), log_start_offset) if self._are_replicas else None
        return _KnownOfLog(
            recovery_point, log_start_offset, cleaned_offset, durable_end, gaps_below, digest, high_watermark
        )

    def _open(
        self, topic: Topic, index: int, config: LogConfig, path: str, known: _KnownOfLog, *, is_new: bool
    ) -> PartitionLog | UnopenedLog:
        left = self.left
        try:
            names_topic = not is_new and self._names_topic(f"{path}/{PARTITION_METADATA}", topic.topic_id)
            log = open_log(
                self._disk,
                self._clock,
                path,
                topic.name,
                index,
                config,
                was_clean=left.was_clean,
                recovery_point=known.recovery_point,
                log_start_offset=known.log_start_offset,
                leader_epoch=self._leader_epoch,
                topic_id=topic.topic_id,
                aborted=known.digest,
                durable_end=known.durable_end,
                gaps_below=known.gaps_below,
                high_watermark=known.high_watermark,
                is_replica=self._are_replicas,
                leader_epoch_max=self._leader_epoch_max,
                written=self._written,
            )
        except DamagedLogError as damage:
            self._check_journal(topic, index, path, damage)
            logger.error("%s-%d is offline: %s", topic.name, index, damage)
            sync_segments(self._disk, path, known.recovery_point)
            return _unopened(path, topic, known, str(damage))
        _say_what_was_found(log, was_clean=left.was_clean)
        if known.cleaned_offset is not None:
            log.compaction.cleaned_offset = known.cleaned_offset
        if self._written is not None and len(self._written) >= SYNCED_AT_ONCE:
            self._sync_written()
        if not names_topic:
            write_topic_id(self._disk, f"{path}/{PARTITION_METADATA}", topic.topic_id)
        return log

    def _check_journal(self, topic: Topic, index: int, path: str, damage: DamagedLogError) -> None:
        """Raise DiskError if it is the journal that is damaged, and does not know of a start: numbers would be given out twice.

        One batch that says so may itself be damaged. That the partition's checkpoint has the same epoch no disk does by chance.
        """
        if not isinstance(damage, UnknownEpochError):
            return
        try:
            starts = read_epoch_starts(self._disk, f"{path}/{LEADER_EPOCHS}")
        except DiskError:
            return
        if any(one.epoch == damage.epoch for one in starts):
            raise DiskError(
                f"{self._directories.home}/{JOURNAL} is damaged: it knows of {self._leader_epoch} starts, and "
                f"{topic.name}-{index} has records of start {damage.epoch + 1}: restore it from a copy"
            )

    def _names_topic(self, path: str, topic_id: UUID) -> bool:
        """True if a directory names its topic. Raises DamagedLogError if it names another one."""
        try:
            said = read_topic_id(self._disk, path) if self._disk.exists(path) else None
        except DiskError:
            said = None
        if said is None:
            # A crash may leave it so, for it is not made durable.
            if self.left.was_clean:
                logger.warning("%s is made anew, for it is missing or damaged", path)
            return False
        if said != topic_id:
            known = uuid_text(topic_id)
            raise DamagedLogError(
                f"{path} is damaged at offset 0: it is of topic {uuid_text(said)}, and the journal has {known}"
            )
        return True


def _unopened(path: str, topic: Topic, known: _KnownOfLog, damage: str | None) -> UnopenedLog:
    recovery_point, start = known.recovery_point, known.log_start_offset
    high_watermark = recovery_point if known.high_watermark is None else known.high_watermark
    points = LogPoints(recovery_point, start, max(high_watermark, start), known.cleaned_offset)
    digest = known.digest or LogDigest(recovery_point, start)
    return UnopenedLog(path, topic.topic_id, points, digest, known.durable_end, known.gaps_below, damage)


def _say_which_start_counts(name: str, offset: int, own_offset: int) -> None:
    logger.warning(
        "%s begins at offset %d: %s has %d, and %s, which is never behind it, counts",
        name,
        own_offset,
        LOG_START_OFFSETS,
        offset,
        OWN_CHECKPOINT,
    )


def _say_what_was_found(log: PartitionLog, *, was_clean: bool) -> None:
    found = log.recovery
    if was_clean and not found.was_clean:
        logger.warning("%s is read again, for it is not as a clean stop leaves it", log.name)
    elif was_clean and found.bytes_read and found.is_snapshot_undecided:
        logger.info(
            "%s: %d bytes are read again, for it was closed above its high watermark", log.name, found.bytes_read
        )
    elif was_clean and found.bytes_read:
        logger.warning("%s: %d bytes are read again, for a producer snapshot is missing", log.name, found.bytes_read)
    if found.snapshots_damaged:
        logger.warning(
            "%s: %d producer snapshots are not used, for they are damaged", log.name, found.snapshots_damaged
        )
    if found.epochs_rebuilt:
        logger.warning("%s: %s is made anew, for it is missing or damaged", log.name, LEADER_EPOCHS)
    if found.indexes_rebuilt:
        logger.warning(
            "%s: %d transaction indexes are made again, for they are damaged", log.name, found.indexes_rebuilt
        )
    if found.fault is not None:
        logger.warning(
            "%s: %d bytes are cut off, which were not said to be durable: %s at offset %d, byte %d: %s",
            log.name,
            found.bytes_cut,
            found.fault_path,
            found.fault.offset,
            found.fault.position,
            found.fault.reason,
        )


CLOSED_AT_ONCE = 64
"""So many logs are made durable side by side."""


def close_logs(disk: Disk, directories: LogDirectories, topics: Topics, survives: Callable[[DiskError], bool]) -> None:
    """Blocks on the disk. Raises DiskError if the disk fails that the broker cannot do without."""
    for directory in directories:
        try:
            if not directory.is_offline:
                _close_logs_in(directory, disk, topics)
        except DiskError as error:
            if not survives(error):
                raise
    for partition in topics.every_partition():
        if partition.unopened is None and partition.directory.is_offline:
            partition.log.abandon()


def _close_logs_in(directory: DataDirectory, disk: Disk, topics: Topics) -> None:
    here = (partition for partition in topics.every_partition() if partition.directory is directory)
    logs = (partition.log for partition in here if partition.unopened is None)
    while some := list(islice(logs, CLOSED_AT_ONCE)):
        disk.sync_all([file for log in some for file in log.seal()])
        for log in some:
            log.close()


def mark_clean_shutdown(directories: LogDirectories) -> None:
    """A directory that is offline is not closed: without its mark the stop was not a clean one."""
    for directory in directories.online:
        try:
            directory.mark_clean_shutdown()
        except DiskError as error:
            if directories.is_home(directory):
                raise
            logger.error("log directory %s is not marked as stopped cleanly: %s", directory.path, error)

"""How the logs of partitions are opened: at a start with what the last stop left behind, later as new ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from uuid import UUID

from oncelog.broker.storage.partition import UnopenedLog
from oncelog.broker.storage.topics import Topic
from oncelog.environment import Clock, Disk
from oncelog.log import (
    PARTITION_METADATA,
    DamagedLogError,
    LogConfig,
    LogDigest,
    LogDirectories,
    LogPoints,
    PartitionLog,
    PartitionOffsets,
    write_topic_id,
)

logger = logging.getLogger("oncelog.broker")


@dataclass(frozen=True, slots=True)
class LeftByLastStop:
    """What is known of the logs before any of them is read. The defaults are those of a broker that has started."""

    was_clean: bool = True
    recovery_points: PartitionOffsets = field(default_factory=dict)
    log_start_offsets: PartitionOffsets = field(default_factory=dict)
    cleaned_offsets: PartitionOffsets = field(default_factory=dict)
    durable_ends: Mapping[tuple[UUID, int], int] = field(default_factory=dict)
    """Up to which offset the write-ahead files vouch for a log."""
    digests: Mapping[tuple[UUID, int], LogDigest] | None = None
    """What the checkpoint says of each log; None without a checkpoint."""


class LogOpening:
    """Opens logs. A log that is damaged does not open, and its partition is offline."""

    __slots__ = ("_clock", "_compacted", "_directories", "_disk", "_leader_epoch", "left")

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directories: LogDirectories,
        leader_epoch: int,
        compacted: Set[UUID],
        left: LeftByLastStop,
    ) -> None:
        """`compacted` are the topics that were compacted once: their logs have gaps, whatever their settings say now."""
        self._disk = disk
        self._clock = clock
        self._directories = directories
        self._leader_epoch = leader_epoch
        self._compacted = compacted
        self.left = left

    def forget(self) -> None:
        """Every log that was there is open: those that come now are new."""
        self.left = LeftByLastStop()

    def open(self, topic: Topic, index: int, config: LogConfig) -> PartitionLog | UnopenedLog:
        key, left = (topic.name, index), self.left
        found = self._directories.partition_path(topic.name, index)
        path = found or self._directories.place(topic.name, index)
        recovery_point, log_start_offset = left.recovery_points.get(key, 0), left.log_start_offsets.get(key, 0)
        digest = None
        if left.digests is not None:
            digest = left.digests.get((topic.topic_id, index), LogDigest(recovery_point))
            # It is written first, and a log never begins earlier again.
            log_start_offset = max(log_start_offset, digest.log_start_offset)
        cleaned_offset = left.cleaned_offsets.get(key)
        if topic.topic_id in self._compacted or cleaned_offset is not None:
            config = replace(config, has_gaps=True)
        try:
            log = PartitionLog.open(
                self._disk,
                self._clock,
                path,
                topic.name,
                index,
                config,
                was_clean=left.was_clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                leader_epoch=self._leader_epoch,
                topic_id=topic.topic_id,
                aborted=digest,
                durable_end=left.durable_ends.get((topic.topic_id, index), 0),
            )
        except DamagedLogError as damage:
            logger.error("%s-%d is offline: %s", topic.name, index, damage)
            points = LogPoints(recovery_point, log_start_offset, max(recovery_point, log_start_offset), cleaned_offset)
            return UnopenedLog(path, topic.topic_id, points, digest, str(damage))
        _say_what_is_cut(log)
        if cleaned_offset is not None:
            log.cleaned_offset = cleaned_offset
        if found is None:
            write_topic_id(self._disk, f"{path}/{PARTITION_METADATA}", topic.topic_id)
        return log


def _say_what_is_cut(log: PartitionLog) -> None:
    found = log.recovery
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

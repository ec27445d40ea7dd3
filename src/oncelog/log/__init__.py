"""The log of a partition on disk: Kafka's files, byte for byte."""

from oncelog.log.checkpoints import (
    LOG_START_OFFSETS,
    OWN_CHECKPOINT,
    PARTITION_METADATA,
    LogDigest,
    NodeIdentity,
    OwnCheckpoint,
    PartitionOffsets,
    read_epoch_starts,
    read_own_checkpoint,
    read_topic_id,
    uuid_of,
    uuid_text,
    write_own_checkpoint,
    write_topic_id,
)
from oncelog.log.config import EPOCH_MAX, LONG_MAX, LogConfig
from oncelog.log.data_directory import (
    DataDirectory,
    DirectoryState,
    LogPoints,
    PartitionKey,
    Standing,
    delete_partition,
)
from oncelog.log.durability import SyncPoint
from oncelog.log.following import Followed
from oncelog.log.future_log import FutureLog
from oncelog.log.leader_epochs import NO_LEADER_EPOCH
from oncelog.log.log_directories import LogDirectories, Reserve
from oncelog.log.names import LEADER_EPOCHS, has_room_for
from oncelog.log.opening import open_log
from oncelog.log.outcome import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    DamagedLogError,
    OpenTransaction,
    Origin,
    Refused,
    TimestampOffset,
    UnknownEpochError,
)
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import LoadedLog, sync_segments
from oncelog.log.scan import ScannedBatch
from oncelog.log.write_ahead import Entry, Replayed, Tail, WriteAheadLog, keep_entries_of, replay, taking_back

__all__ = [
    "EPOCH_MAX",
    "LEADER_EPOCHS",
    "LOG_START_OFFSETS",
    "LONG_MAX",
    "NO_LEADER_EPOCH",
    "OWN_CHECKPOINT",
    "PARTITION_METADATA",
    "AbortedTransaction",
    "ActiveProducer",
    "Appended",
    "DamagedLogError",
    "DataDirectory",
    "DirectoryState",
    "Entry",
    "Followed",
    "FutureLog",
    "LoadedLog",
    "LogConfig",
    "LogDigest",
    "LogDirectories",
    "LogPoints",
    "NodeIdentity",
    "OpenTransaction",
    "Origin",
    "OwnCheckpoint",
    "PartitionKey",
    "PartitionLog",
    "PartitionOffsets",
    "Refused",
    "Replayed",
    "Reserve",
    "ScannedBatch",
    "Standing",
    "SyncPoint",
    "Tail",
    "TimestampOffset",
    "UnknownEpochError",
    "WriteAheadLog",
    "delete_partition",
    "has_room_for",
    "keep_entries_of",
    "open_log",
    "read_epoch_starts",
    "read_own_checkpoint",
    "read_topic_id",
    "replay",
    "sync_segments",
    "taking_back",
    "uuid_of",
    "uuid_text",
    "write_own_checkpoint",
    "write_topic_id",
]

"""The log of a partition on disk: Kafka's files, byte for byte."""

from oncelog.log.checkpoints import NodeIdentity, read_topic_id, uuid_of, uuid_text, write_topic_id
from oncelog.log.config import LogConfig
from oncelog.log.data_directory import DataDirectory
from oncelog.log.outcome import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    LogSlice,
    OpenTransaction,
    Origin,
    Refused,
    TimestampOffset,
)
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import RecoveryReport

__all__ = [
    "AbortedTransaction",
    "ActiveProducer",
    "Appended",
    "DataDirectory",
    "LogConfig",
    "LogSlice",
    "NodeIdentity",
    "OpenTransaction",
    "Origin",
    "PartitionLog",
    "RecoveryReport",
    "Refused",
    "TimestampOffset",
    "read_topic_id",
    "uuid_of",
    "uuid_text",
    "write_topic_id",
]

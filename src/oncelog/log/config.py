"""The settings of one log, and the batches that they refuse. Names, units and defaults are those of Kafka's topic settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog.log.outcome import Origin, Refused
from oncelog.records import NO_TIMESTAMP, BatchHeader, TimestampType
from oncelog.wire import ErrorCode

LONG_MAX = 2**63 - 1
EPOCH_MIN, EPOCH_MAX = -1, 2**31 - 1
"""The range of leader epochs; the least is that of a batch without one."""
DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A limit of LONG_MAX, and a retention of -1, mean that there is none."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024**2 + 12
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    producer_id_expiration_ms: int = DAY_MS
    is_compacted: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = DAY_MS
    clean_from_bytes: int = LONG_MAX
    """An active segment of so many bytes is sealed so that it can be cleaned, once it is more than what was cleaned before."""

    roll_ms: int = field(init=False)
    """How old a segment becomes. Records can be compacted only once theirs is sealed (KIP-354)."""
    stamps_append_time: bool = field(init=False)

    def __post_init__(self) -> None:
        """Compute once the values that every batch asks for."""
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        object.__setattr__(self, "stamps_append_time", self.message_timestamp_type == "LogAppendTime")


_COORDINATOR, _OBLIGED = Origin.COORDINATOR, Origin.OBLIGED


def refusal(
    name: str, config: LogConfig, size_bytes: int, header: BatchHeader, origin: Origin, now_ms: int
) -> Refused | None:
    """Why the batch may not be appended, or None."""
    if origin is _OBLIGED:
        return None
    if size_bytes > config.max_message_bytes:
        message = f"{name}: a batch of {size_bytes} bytes is larger than {config.max_message_bytes}"
        return Refused(ErrorCode.message_too_large, message)
    if size_bytes > config.segment_bytes:
        message = f"{name}: a batch of {size_bytes} bytes does not fit into a segment of {config.segment_bytes}"
        return Refused(ErrorCode.record_list_too_large, message)
    if config.stamps_append_time or origin is _COORDINATOR:
        return None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return Refused(ErrorCode.invalid_timestamp, f"{name}: only the broker sets the log append time")
    base_ms, max_ms = header.base_timestamp_ms, header.max_timestamp_ms
    is_early = base_ms != NO_TIMESTAMP and now_ms - base_ms > config.message_timestamp_before_max_ms
    if is_early or max_ms - now_ms > config.message_timestamp_after_max_ms:
        message = f"{name}: timestamps from {base_ms} to {max_ms} are too far from the broker's time, {now_ms}"
        return Refused(ErrorCode.invalid_timestamp, message)
    return None

"""What the settings of a log say about a single batch."""

from __future__ import annotations

from oncelog.log.config import LogConfig
from oncelog.log.outcome import Origin, Refused
from oncelog.records import NO_TIMESTAMP, BatchHeader, TimestampType
from oncelog.wire import ErrorCode

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

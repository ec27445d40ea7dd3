"""The settings of a partition's log, from those of its topic."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.setting import Value, items_of
from oncelog.log import LONG_MAX, LogConfig

COORDINATOR_LOG_BYTES = 256 * 1024
COORDINATOR_DELETE_RETENTION_MS = 60_000


def log_config(settings: Settings, values: Mapping[str, Value], *, is_internal: bool) -> LogConfig:
    """The settings of a topic's logs, from those of the topic."""
    values = dict(values)
    if is_internal or "delete" not in items_of(str(values["cleanup.policy"])):
        # The coordinators need the last record of every key, however old it is.
        values |= {"retention.ms": -1, "retention.bytes": -1}
    is_compacted = "compact" in items_of(str(values["cleanup.policy"]))
    clean_from_bytes = LONG_MAX
    if is_internal and is_compacted:
        # Each start reads all that is in them, and nobody else needs what is void.
        clean_from_bytes = COORDINATOR_LOG_BYTES
        values["delete.retention.ms"] = min(int(values["delete.retention.ms"]), COORDINATOR_DELETE_RETENTION_MS)

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int)
        return value

    return LogConfig(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_jitter_ms=number("segment.jitter.ms"),
        segment_index_bytes=number("segment.index.bytes"),
        index_interval_bytes=number("index.interval.bytes"),
        max_message_bytes=number("max.message.bytes"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        message_timestamp_type=str(values["message.timestamp.type"]),
        message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        producer_id_expiration_ms=settings.number("producer.id.expiration.ms"),
        is_compacted=is_compacted,
        min_cleanable_dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        delete_retention_ms=number("delete.retention.ms"),
        clean_from_bytes=clean_from_bytes,
    )

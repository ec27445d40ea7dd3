"""The settings of log compaction."""

from __future__ import annotations

from oncelog.broker.config.setting import LONG, Setting

CLEANER_SETTINGS = (
    Setting(
        name="log.cleaner.enable",
        default=True,
        help="Whether topics with the cleanup policy `compact` are compacted; the coordinators' own topics are among them.",
    ),
    Setting(
        name="log.cleaner.backoff.ms",
        default=15_000,
        minimum=0,
        maximum=LONG,
        is_dynamic=True,
        help="How long the cleaner waits when no log needs it.",
    ),
    Setting(
        name="log.cleaner.dedupe.buffer.size",
        default=134_217_728,
        maximum=LONG,
        is_dynamic=True,
        help="The most memory for the last offsets of keys while a log is cleaned: 24 bytes for each key. A log with more keys is "
        "cleaned in several passes.",
    ),
    Setting(
        name="log.cleaner.io.buffer.load.factor",
        default=0.9,
        is_dynamic=True,
        help="How full that memory may become, 1 being full: the fuller, the slower.",
    ),
    Setting(
        name="log.cleaner.min.cleanable.ratio",
        default=0.5,
        minimum=0,
        maximum=1,
        topic_name="min.cleanable.dirty.ratio",
        is_dynamic=True,
        help="A log is cleaned when more than this share of it was not cleaned before. The active segment counts for neither.",
    ),
    Setting(
        name="log.cleaner.delete.retention.ms",
        default=86_400_000,
        minimum=0,
        maximum=LONG,
        topic_name="delete.retention.ms",
        is_dynamic=True,
        help="For so long after it was first cleaned, a tombstone is kept for consumers that have to learn that its key is gone. "
        "So are the markers of transactions of which nothing else is left.",
    ),
    Setting(
        name="log.cleaner.min.compaction.lag.ms",
        default=0,
        minimum=0,
        maximum=LONG,
        topic_name="min.compaction.lag.ms",
        is_dynamic=True,
        help="Records that are younger are not compacted.",
    ),
    Setting(
        name="log.cleaner.max.compaction.lag.ms",
        default=LONG,
        minimum=1,
        maximum=LONG,
        topic_name="max.compaction.lag.ms",
        is_dynamic=True,
        help="Records that are older are compacted whatever share of the log they are; no segment of a compacted topic is appended "
        "to for longer.",
    ),
)

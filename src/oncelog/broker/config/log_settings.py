"""Settings of topics and of the logs of their partitions."""

from __future__ import annotations

from oncelog.broker.config.setting import INT, LONG, Setting, Value

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
POLICIES = ("compact", "delete")


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or 1 <= int(value) <= 9 else "Value must be between 1 and 9 or equal to -1"


def lasting(value: Value) -> str | None:
    return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1" if value == 0 else None


LOG_SETTINGS = (
    Setting(name="auto.create.topics.enable", default=True, help="Make a topic when a client first asks for it."),
    Setting(name="delete.topic.enable", default=True, help="Whether topics can be deleted."),
    Setting(
        name="default.replication.factor",
        default=1,
        type="int",
        minimum=1,
        maximum=INT,
        help="Replicas of a topic made without a number. A broker that is alone has room for one.",
    ),
    Setting(
        name="num.partitions", default=1, minimum=1, maximum=INT, help="Partitions of a topic made without a number."
    ),
    Setting(
        name="message.max.bytes",
        default=1_048_588,
        minimum=0,
        maximum=INT,
        topic_name="max.message.bytes",
        is_dynamic=True,
        help="The largest record batch that is taken.",
    ),
    Setting(
        name="log.segment.bytes",
        default=2**30,
        minimum=2**20,
        maximum=INT,
        topic_name="segment.bytes",
        is_dynamic=True,
        help="A segment is closed before it grows past this size.",
    ),
    Setting(
        name="log.roll.ms",
        default=None,
        type="long",
        minimum=1,
        maximum=LONG,
        topic_name="segment.ms",
        is_dynamic=True,
        help="A segment is closed when its records span more time than this. Without a value: log.roll.hours.",
    ),
    Setting(name="log.roll.hours", default=168, minimum=1, maximum=INT, help="As log.roll.ms, which has precedence."),
    Setting(
        name="log.roll.jitter.ms",
        default=None,
        type="long",
        minimum=0,
        maximum=LONG,
        topic_name="segment.jitter.ms",
        is_dynamic=True,
        help="Up to this much is subtracted from the time that a segment may span. Without a value: log.roll.jitter.hours.",
    ),
    Setting(
        name="log.roll.jitter.hours",
        default=0,
        minimum=0,
        maximum=INT,
        help="As log.roll.jitter.ms, which has precedence.",
    ),
    Setting(
        name="log.index.size.max.bytes",
        default=10 * 2**20,
        minimum=4,
        maximum=INT,
        topic_name="segment.index.bytes",
        is_dynamic=True,
        help="A segment is closed when one of its indexes would grow past this size.",
    ),
    Setting(
        name="log.index.interval.bytes",
        default=4096,
        minimum=0,
        maximum=INT,
        topic_name="index.interval.bytes",
        is_dynamic=True,
        help="Bytes of log between two entries of an index.",
    ),
    Setting(
        name="log.flush.interval.messages",
        default=LONG,
        minimum=1,
        maximum=LONG,
        topic_name="flush.messages",
        is_dynamic=True,
        help="Records that may be in a partition before it is made durable; 1 makes every acknowledged record durable.",
    ),
    Setting(
        name="log.flush.interval.ms",
        default=None,
        type="long",
        minimum=0,
        maximum=LONG,
        topic_name="flush.ms",
        is_dynamic=True,
        help="Time that may pass before the records of a partition are made durable. Without a value: "
        "log.flush.scheduler.interval.ms.",
    ),
    Setting(
        name="log.flush.scheduler.interval.ms",
        default=LONG,
        maximum=LONG,
        minimum=0,
        help="As log.flush.interval.ms, which has precedence. It is looked at every second.",
    ),
    Setting(
        name="log.flush.offset.checkpoint.interval.ms",
        default=60_000,
        minimum=1,
        maximum=INT,
        help="Time between two checkpoints of how far each log is known to be durable and where it begins.",
    ),
    Setting(
        name="log.message.timestamp.type",
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        topic_name="message.timestamp.type",
        is_dynamic=True,
        help="Whether a record carries its producer's time or the broker's.",
    ),
    Setting(
        name="log.message.timestamp.before.max.ms",
        default=LONG,
        minimum=0,
        maximum=LONG,
        topic_name="message.timestamp.before.max.ms",
        is_dynamic=True,
        help="How far behind the broker's clock a record's time may be.",
    ),
    Setting(
        name="log.message.timestamp.after.max.ms",
        default=3_600_000,
        minimum=0,
        maximum=LONG,
        topic_name="message.timestamp.after.max.ms",
        is_dynamic=True,
        help="How far ahead of the broker's clock a record's time may be.",
    ),
    Setting(
        name="log.retention.ms",
        default=None,
        type="long",
        minimum=-1,
        maximum=LONG,
        topic_name="retention.ms",
        is_dynamic=True,
        checks=lasting,
        help="Closed segments whose newest record is older are deleted; -1 keeps them. Without a value: log.retention.minutes.",
    ),
    Setting(
        name="log.retention.minutes",
        default=None,
        type="int",
        maximum=INT,
        minimum=-1,
        checks=lasting,
        help="As log.retention.ms, which has precedence. Without a value: log.retention.hours.",
    ),
    Setting(
        name="log.retention.hours",
        default=168,
        minimum=-1,
        maximum=INT,
        checks=lasting,
        help="As log.retention.ms and log.retention.minutes, which have precedence.",
    ),
    Setting(
        name="log.retention.bytes",
        default=-1,
        maximum=LONG,
        topic_name="retention.bytes",
        is_dynamic=True,
        help="The oldest segments of a partition larger than this are deleted; -1 keeps them, and so does what is less.",
    ),
    Setting(
        name="log.cleanup.policy",
        default="delete",
        type="list",
        choices=POLICIES,
        topic_name="cleanup.policy",
        is_dynamic=True,
        help="What becomes of old records. `delete`: retention deletes old segments. `compact`: records need a key, and of each "
        "key the last one stays. Empty: every record stays.",
    ),
    Setting(
        name="compression.type",
        default="producer",
        choices=CODECS,
        topic_name="compression.type",
        is_dynamic=True,
        help="The codec of stored batches. `producer` keeps the producer's; under another, the broker compresses again the batches "
        "that have not that codec.",
    ),
    Setting(
        name="compression.gzip.level",
        default=-1,
        maximum=INT,
        checks=_gzip_level,
        topic_name="compression.gzip.level",
        is_dynamic=True,
        help="The level at which the broker compresses with gzip: 1 to 9, or -1 for the codec's own.",
    ),
    Setting(
        name="compression.lz4.level",
        default=9,
        minimum=1,
        maximum=17,
        topic_name="compression.lz4.level",
        is_dynamic=True,
        help="The level at which the broker compresses with lz4.",
    ),
    Setting(
        name="compression.zstd.level",
        default=3,
        minimum=-131_072,
        maximum=22,
        topic_name="compression.zstd.level",
        is_dynamic=True,
        help="The level at which the broker compresses with zstd.",
    ),
    Setting(
        name="log.segment.delete.delay.ms",
        default=60_000,
        minimum=0,
        maximum=LONG,
        topic_name="file.delete.delay.ms",
        is_dynamic=True,
        help="Time between taking a segment out of the log and removing its files.",
    ),
    Setting(
        name="log.retention.check.interval.ms",
        default=300_000,
        minimum=1,
        maximum=LONG,
        help="Time between two looks for segments to delete.",
    ),
)

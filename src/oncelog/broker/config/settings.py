"""The settings of a broker and of a topic, under Kafka's names: the one table that parsing, DescribeConfigs and the page in
the documentation read. What a running broker makes of it is in `configuration.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from oncelog.broker.config.cleaner_settings import CLEANER_SETTINGS
from oncelog.broker.config.cluster_settings import CLUSTER_SETTINGS
from oncelog.broker.config.consumer_group_settings import CONSUMER_GROUP_SETTINGS
from oncelog.broker.config.inert_settings import INERT_BROKER_SETTINGS, INERT_TOPIC_SETTINGS
from oncelog.broker.config.security_settings import SECURITY_SETTINGS
from oncelog.broker.config.setting import INT, LONG, Effect, Setting, Value

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
POLICIES = ("compact", "delete")


def _settings(*settings: Setting) -> Mapping[str, Setting]:
    return MappingProxyType({setting.name: setting for setting in settings})


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 or 1 <= int(value) <= 9 else "Value must be between 1 and 9 or equal to -1"


def _lasting(value: Value) -> str | None:
    return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1" if value == 0 else None


def _not_tiered(value: Value) -> str | None:
    without = (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )
    return without if value else None


BROKER_SETTINGS = _settings(
    Setting(name="node.id", default=1, minimum=0, maximum=INT, help="The id of this broker."),
    Setting(
        name="broker.id",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="Another name of node.id; if both are given they are the same.",
    ),
    Setting(
        name="broker.rack", default=None, type="string", help="Where the broker stands: Metadata tells it to clients."
    ),
    Setting(
        name="listeners",
        default="PLAINTEXT://:9092",
        type="list",
        help="Where to listen: NAME://HOST:PORT, one or several, beside those of controller.listener.names, which are left out. "
        "Without a host it is every address of the machine. `--listen HOST:PORT` says the same of one PLAINTEXT listener.",
    ),
    Setting(
        name="advertised.listeners",
        default=None,
        type="list",
        help="The addresses that clients and other brokers are told, where they are not those of listeners. A listener that is "
        "left out is told to nobody.",
    ),
    Setting(
        name="listener.security.protocol.map",
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        type="string",
        help="Which protocol each listener name stands for: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    Setting(
        name="controller.listener.names",
        default=None,
        type="list",
        help="Listeners of these names are left out: the broker is its own controller.",
    ),
    Setting(
        name="log.dir",
        default=None,
        type="list",
        help="Where the log is kept, if log.dirs has no value. Without either: `--data-dir`, or a temporary directory.",
    ),
    Setting(
        name="log.dirs",
        default=None,
        type="list",
        help="Where the log is kept: one directory or several. A new partition goes to the one that has the fewest, and stays "
        "there. What is kept once for the node is in the first, and stays there however the list is changed: without that one "
        "the broker stops. Another one whose disk fails is offline until the next start, with its partitions. Every directory "
        "must be there when the broker starts. `--data-dir` has precedence.",
    ),
    Setting(
        name="log.dir.reserve.bytes",
        default=8_388_608,
        minimum=0,
        maximum=LONG,
        help="How much room is kept back in each log directory, as the file `oncelog-reserve`, for what ends transactions when "
        "the disk is full. Without any the broker stops, or goes on without the directory, where producers are refused. Kafka "
        "has no such setting.",
        is_own=True,
    ),
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
        checks=_lasting,
        help="Closed segments whose newest record is older are deleted; -1 keeps them. Without a value: log.retention.minutes.",
    ),
    Setting(
        name="log.retention.minutes",
        default=None,
        type="int",
        maximum=INT,
        minimum=-1,
        checks=_lasting,
        help="As log.retention.ms, which has precedence. Without a value: log.retention.hours.",
    ),
    Setting(
        name="log.retention.hours",
        default=168,
        minimum=-1,
        maximum=INT,
        checks=_lasting,
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
    Setting(
        name="offsets.topic.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __consumer_offsets when it is made.",
    ),
    Setting(
        name="offsets.topic.segment.bytes",
        default=104_857_600,
        minimum=2**20,
        maximum=INT,
        help="segment.bytes of __consumer_offsets when it is made.",
    ),
    Setting(
        name="offsets.retention.minutes",
        default=10_080,
        minimum=1,
        maximum=INT,
        help="How long the offsets of a group are kept after its last member left, or after the commit where it had none.",
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        default=600_000,
        minimum=1,
        maximum=LONG,
        help="Time between two looks for offsets to forget.",
    ),
    Setting(
        name="offset.metadata.max.bytes",
        default=4096,
        minimum=0,
        maximum=INT,
        help="The longest text that may be stored with a committed offset.",
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        default=0,
        minimum=0,
        maximum=INT,
        help="How long the first members of an empty group are waited for.",
    ),
    Setting(
        name="group.min.session.timeout.ms",
        default=6000,
        minimum=0,
        maximum=INT,
        help="The shortest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.session.timeout.ms",
        default=1_800_000,
        minimum=0,
        maximum=INT,
        help="The longest session timeout that a member of a group may ask for.",
    ),
    Setting(
        name="group.max.size",
        default=INT,
        minimum=1,
        maximum=INT,
        help="The most members that a group of the classic protocol may have.",
    ),
    *CONSUMER_GROUP_SETTINGS,
    Setting(
        name="transaction.state.log.num.partitions",
        default=50,
        minimum=1,
        maximum=INT,
        help="Partitions of __transaction_state when it is made.",
    ),
    Setting(
        name="transaction.state.log.segment.bytes",
        default=104_857_600,
        minimum=2**20,
        maximum=INT,
        help="segment.bytes of __transaction_state when it is made.",
    ),
    Setting(
        name="transaction.max.timeout.ms",
        default=900_000,
        minimum=1,
        maximum=INT,
        help="The longest timeout that a producer may ask for its transactions.",
    ),
    Setting(
        name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=10_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactions that have run out of time.",
    ),
    Setting(
        name="transaction.session.guard.enable",
        default=True,
        is_dynamic=True,
        is_own=True,
        help="Whether requests of the first transaction protocol are refused that come late: on a connection that their producer "
        "has left. Kafka has no such setting, and takes them for requests of the next transaction.",
    ),
    Setting(
        name="transactional.id.expiration.ms",
        default=604_800_000,
        minimum=1,
        maximum=INT,
        help="An unused transactional id is forgotten after this time.",
    ),
    Setting(
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        default=3_600_000,
        minimum=1,
        maximum=INT,
        help="Time between two looks for transactional ids to forget.",
    ),
    Setting(
        name="producer.id.expiration.ms",
        default=86_400_000,
        minimum=1,
        maximum=INT,
        is_dynamic=True,
        help="A partition forgets an idle producer after this time.",
    ),
    Setting(
        name="socket.request.max.bytes",
        default=104_857_600,
        minimum=1,
        maximum=INT,
        help="The largest request that is read; the connection of a larger one is closed.",
    ),
    Setting(
        name="queued.max.request.bytes",
        default=268_435_456,
        minimum=-1,
        maximum=LONG,
        help="Memory for requests of more than 64 KiB that are being read or answered, and for answers that their clients do not "
        "take, over all connections. When it is used up, such requests are not read further, and connections that keep much of "
        "it for long are closed; -1 is no limit, which is Kafka's default.",
    ),
    Setting(
        name="socket.send.buffer.bytes",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="The send buffer of a connection; -1 leaves it to the operating system.",
    ),
    Setting(
        name="socket.receive.buffer.bytes",
        default=-1,
        minimum=-1,
        maximum=INT,
        help="The receive buffer of a connection; -1 leaves it to the operating system.",
    ),
    Setting(
        name="socket.listen.backlog.size",
        default=511,
        minimum=1,
        maximum=INT,
        help="Connections that may wait to be accepted.",
    ),
    Setting(
        name="max.connections",
        default=INT,
        minimum=0,
        maximum=INT,
        is_dynamic=True,
        help="Connections that are served at a time; a further one waits until another is closed.",
    ),
    Setting(
        name="max.connections.per.ip",
        default=INT,
        minimum=1,
        maximum=INT,
        is_dynamic=True,
        help="Connections from one address; a further one is closed.",
    ),
    Setting(
        name="connections.max.idle.ms",
        default=600_000,
        minimum=-1,
        maximum=LONG,
        help="A connection on which nothing happens for this time is closed; -1 keeps it.",
    ),
    Setting(
        name="fetch.max.bytes",
        default=57_671_680,
        minimum=1024,
        maximum=INT,
        help="The most bytes that one Fetch answers with.",
    ),
    Setting(
        name="max.incremental.fetch.session.cache.slots",
        default=1000,
        minimum=0,
        maximum=INT,
        help="Fetch sessions that the broker remembers at a time.",
    ),
    Setting(
        name="max.request.partition.size.limit",
        default=2000,
        minimum=1,
        maximum=INT,
        help="The most partitions that one DescribeTopicPartitions answers with.",
    ),
    *SECURITY_SETTINGS,
    *CLEANER_SETTINGS,
    *CLUSTER_SETTINGS,
    *INERT_BROKER_SETTINGS,
)

_TOPIC_ONLY = _settings(
    Setting(
        name="remote.storage.enable",
        default=False,
        checks=_not_tiered,
        effect=Effect.NONE,
        is_dynamic=True,
        help="There is no tiered storage.",
    ),
    *INERT_TOPIC_SETTINGS,
)

_DEFAULT_IN_OTHER_UNITS = {
    "retention.ms": 604_800_000,
    "segment.ms": 604_800_000,
    "segment.jitter.ms": 0,
    "flush.ms": LONG,
}
"""What the broker has in hours by default, or under another name."""

TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.topic_name: replace(
            setting,
            name=setting.topic_name,
            default=_DEFAULT_IN_OTHER_UNITS.get(setting.topic_name, setting.default),
            topic_name=None,
            is_dynamic=True,
            # A topic may keep its records for no time at all, where a broker may not.
            checks=None if setting.checks is _lasting else setting.checks,
        )
        for setting in BROKER_SETTINGS.values()
        if setting.topic_name is not None
    }
    | dict(_TOPIC_ONLY)
)
BROKER_NAME_OF_TOPIC_SETTING: Mapping[str, str] = MappingProxyType(
    {setting.topic_name: setting.name for setting in BROKER_SETTINGS.values() if setting.topic_name is not None}
)

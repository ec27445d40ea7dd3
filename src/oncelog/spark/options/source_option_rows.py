"""The rows of the source's options, and of those that source and sink treat alike."""

from __future__ import annotations

from oncelog.spark.options.security_options import security_rows
from oncelog.spark.options.table import Option, Scope, Treatment


def _supported(name: str, default: str | None, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, default, scope, Treatment.SUPPORTED, meaning)


def _refused(name: str, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, None, scope, Treatment.REFUSED, meaning)


def _inert(name: str, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, None, scope, Treatment.INERT, meaning)


NO_MEMBER = "the source is no member of a group: the driver assigns partitions"
ONE_CONNECTION = "a task holds one connection to each broker for as long as its Python worker lives"
SYSTEM_FITS = "the operating system fits the buffers of a connection to it"
OWN_PAUSES = "the pauses between two tries grow from 20 to 500 ms"
NO_JAVA_METRICS = "there is no Java client whose metrics could be reported"
NO_POOL = "there is no pool of consumers in the executors; a Python worker keeps its connections"

SOURCE_ROWS: tuple[Option, ...] = (
    _supported(
        "kafka.bootstrap.servers",
        None,
        "Needed. Where the cluster is found: host:port, or several of them with commas. The protocol may be in front, as in "
        "SASL_SSL://host:port.",
        Scope.BOTH,
    ),
    _supported("assign", None, 'Partitions to read, as JSON: {"topic": [0, 1]}. One of the first three is needed.'),
    _supported("subscribe", None, "Topics to read, with commas in between."),
    _supported(
        "subscribePattern",
        None,
        "Topics to read, as a regular expression that Java and Python read alike; what they read differently, such as "
        "\\p{Lower} or [a-z&&[^b]], is refused with what to write instead. As in Spark, it is looked for anywhere in a name; "
        "^ and $ stand for its ends.",
    ),
    _supported(
        "startingTimestamp", None, "Where a new query starts, in ms since 1970. Before the two options that follow."
    ),
    _supported(
        "startingOffsetsByTimestamp",
        None,
        'Where a new query starts, in ms since 1970 for every partition: {"topic": {"0": 1000}}.',
    ),
    _supported(
        "startingOffsets",
        "latest in a stream, earliest in a batch read",
        'Where a new query starts: earliest, latest, or offsets of every partition as JSON: {"topic": {"0": 23}}, with -2 '
        'for the earliest and -1 for the latest; {"topic": "earliest"} is for a whole topic, and may stand beside offsets of '
        "others. New partitions are read from their beginning. A batch read cannot start "
        "at the latest.",
    ),
    _supported(
        "startingOffsetsByTimestampStrategy",
        "error",
        "What to do where no record is as late as the starting time: error, or latest to start there at the end.",
    ),
    _supported("endingTimestamp", None, "Batch reads only. Where to end, in ms since 1970."),
    _supported(
        "endingOffsetsByTimestamp", None, "Batch reads only. Where to end, in ms since 1970 for every partition."
    ),
    _supported(
        "endingOffsets",
        "latest",
        "Batch reads only. Where to end: latest, or offsets as JSON with -1 for the latest; "
        '{"topic": "latest"} is for a whole topic.',
    ),
    _supported(
        "failOnDataLoss",
        "true",
        "Whether to fail when records that are to be read are gone: deleted, or with their topic. With false the read goes "
        "on with what is there, and says in a warning what it left out. A topic that was deleted and made anew is told by its "
        "id, which the checkpoint has as topic@id beside the offsets; with false the new one is read from its beginning.",
    ),
    _supported("includeHeaders", "false", "Whether there is a column `headers`."),
    _supported(
        "maxOffsetsPerTrigger",
        None,
        "Streams only. How many offsets a micro-batch reads at most, in proportion to what each partition has.",
    ),
    _supported(
        "minOffsetsPerTrigger", None, "Streams only. How many offsets a micro-batch waits for, up to maxTriggerDelay."
    ),
    _supported("maxTriggerDelay", "15m", "Streams only. How long minOffsetsPerTrigger waits: 15m, 30s, 500ms."),
    _supported(
        "minPartitions",
        None,
        "About how many tasks a micro-batch or a batch read is divided into at least: partitions with much to read are cut.",
    ),
    _supported(
        "maxPartitions",
        "2 for each core, where partitions are small",
        "How many tasks a micro-batch or a batch read is divided into at most. With fewer than there are partitions, a task reads "
        "several, one after the other, and all tasks about as much. The default is one task for 20,000 offsets, where that is "
        "more. Cores are those of a local session that build_session has started, and else those of the driver's machine. "
        "maxRecordsPerPartition may make more tasks. Spark's own source has no such option, and makes a task of each partition; "
        "so does this one with a number that is as large.",
    ),
    _supported("maxRecordsPerPartition", None, "How many offsets one task reads at most."),
    _supported(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "How long a task waits for records that should be there. Where no broker answers, kafka.default.api.timeout.ms is "
        "the limit.",
    ),
    _supported("fetchOffset.numRetries", "3", "How often the driver asks again when a broker refuses to say offsets."),
    _supported("fetchOffset.retryIntervalMs", "10", "The pause before it asks again."),
    _supported(
        "kafka.isolation.level",
        "read_committed",
        "read_committed or read_uncommitted. Spark's own source reads uncommitted records if it is not told otherwise.",
    ),
    _supported("kafka.client.id", "oncelog-spark", "The name by which brokers see driver and tasks."),
    _supported(
        "kafka.group.id",
        None,
        "Names the client where kafka.client.id does not: brokers see consumer-<group id>, as of a Java consumer. No group "
        "is joined, and nothing is committed in its name; the right to read the group is not needed.",
    ),
    _supported(
        "groupIdPrefix",
        None,
        "As kafka.group.id, which has precedence: brokers see consumer-<prefix>. Group ids are not made from it.",
    ),
    _supported(
        "kafka.default.api.timeout.ms",
        "60000",
        "How long the driver and a task go on asking when no broker answers. A line in the log says so meanwhile.",
    ),
    _supported("kafka.request.timeout.ms", "30000", "How long one request may take before it is made again."),
    _supported(
        "kafka.socket.connection.setup.timeout.ms",
        "10000",
        "How long a connection may take to be made before the next address is tried.",
    ),
    _supported(
        "kafka.metadata.max.age.ms",
        "1000",
        "How old the driver's list of topics and partitions may be: new ones are found this much later. Kafka's consumer "
        "waits 5 minutes.",
    ),
    _supported(
        "kafka.max.partition.fetch.bytes",
        "4194304",
        "About how much a broker puts into one answer of one partition; one batch may be larger. Kafka's consumer asks for "
        "1 MiB.",
    ),
    _supported("kafka.fetch.max.bytes", "52428800", "About how much a broker puts into one answer."),
    _supported("kafka.fetch.min.bytes", "1", "How much there has to be before a broker answers at once."),
    _supported(
        "kafka.fetch.max.wait.ms",
        "100",
        "How long a broker waits for kafka.fetch.min.bytes. Kafka's consumer lets it wait for 500 ms.",
    ),
    _supported(
        "kafka.exclude.internal.topics",
        "true",
        "Whether subscribePattern leaves out topics such as __consumer_offsets.",
    ),
    *security_rows(),
    _refused(
        "kafka.auto.offset.reset",
        "say where to start with startingOffsets, and what lost data means with failOnDataLoss",
    ),
    _refused("kafka.key.deserializer", "keys come as binary; convert them with DataFrame functions"),
    _refused("kafka.value.deserializer", "values come as binary; convert them with DataFrame functions"),
    _refused("kafka.key.serializer", "this is a source; it writes nothing"),
    _refused("kafka.value.serializer", "this is a source; it writes nothing"),
    _refused(
        "kafka.enable.auto.commit",
        "progress is in the checkpoint or in the sink's transaction; nothing is committed here",
    ),
    _refused("kafka.interceptor.classes", "records are read as whole batches; nothing can be put in between"),
    _refused("kafka.client.rack", "records are read from the leader of a partition, wherever it stands"),
    _refused(
        "kafka.config.providers", "values are taken as they are; look secrets up before you set the option", Scope.BOTH
    ),
    _refused(
        "kafka.config.providers.*",
        "values are taken as they are; look secrets up before you set the option",
        Scope.BOTH,
    ),
    _refused("kafka.bootstrap.controllers", "brokers are asked; name them in kafka.bootstrap.servers", Scope.BOTH),
    _refused("kafka.share.*", "records are read from offsets, not through a share group"),
    _refused(
        "spark.kafka.clusters.*",
        "delegation tokens are not asked for; it is a setting of the session, which this source does not read",
        Scope.BOTH,
    ),
    _inert("kafka.allow.auto.create.topics", "reading makes no topic"),
    _inert("kafka.auto.commit.interval.ms", "nothing is committed"),
    _inert("kafka.check.crcs", "checksums are always checked"),
    _inert("kafka.client.dns.lookup", "every address of a name is tried", Scope.BOTH),
    _inert("kafka.connections.max.idle.ms", ONE_CONNECTION, Scope.BOTH),
    _inert("kafka.enable.metrics.push", NO_JAVA_METRICS, Scope.BOTH),
    _inert("kafka.group.instance.id", NO_MEMBER),
    _inert("kafka.group.protocol", NO_MEMBER),
    _inert("kafka.group.remote.assignor", NO_MEMBER),
    _inert("kafka.heartbeat.interval.ms", NO_MEMBER),
    _inert("kafka.internal.throw.on.fetch.stable.offset.unsupported", "committed offsets of a group are not asked for"),
    _inert("kafka.max.poll.interval.ms", NO_MEMBER),
    _inert("kafka.max.poll.records", "records are read as whole batches"),
    _inert(
        "kafka.metadata.recovery.strategy", "the bootstrap servers are asked when no known broker answers", Scope.BOTH
    ),
    _inert(
        "kafka.metadata.recovery.rebootstrap.trigger.ms",
        "the bootstrap servers are asked as soon as no known broker answers",
        Scope.BOTH,
    ),
    _inert("kafka.metric.reporters", NO_JAVA_METRICS, Scope.BOTH),
    _inert("kafka.metrics.num.samples", NO_JAVA_METRICS, Scope.BOTH),
    _inert("kafka.metrics.recording.level", NO_JAVA_METRICS, Scope.BOTH),
    _inert("kafka.metrics.sample.window.ms", NO_JAVA_METRICS, Scope.BOTH),
    _inert("kafka.partition.assignment.strategy", NO_MEMBER),
    _inert("kafka.receive.buffer.bytes", SYSTEM_FITS, Scope.BOTH),
    _inert("kafka.reconnect.backoff.max.ms", OWN_PAUSES, Scope.BOTH),
    _inert("kafka.reconnect.backoff.ms", OWN_PAUSES, Scope.BOTH),
    _inert("kafka.retries", "a call is made again until its time is over"),
    _inert("kafka.retry.backoff.max.ms", OWN_PAUSES, Scope.BOTH),
    _inert("kafka.retry.backoff.ms", OWN_PAUSES, Scope.BOTH),
    _inert("kafka.send.buffer.bytes", SYSTEM_FITS, Scope.BOTH),
    _inert("kafka.session.timeout.ms", NO_MEMBER),
    _inert(
        "kafka.socket.connection.setup.timeout.max.ms",
        "the time that a connection may take does not grow",
        Scope.BOTH,
    ),
    _inert("spark.kafka.consumer.cache.*", NO_POOL),
    _inert("spark.kafka.consumer.fetchedData.cache.*", NO_POOL),
    _inert("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "the driver asks for offsets as an administrator"),
)

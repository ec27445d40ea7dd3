"""The rows of the options: the source's with those that source and sink treat alike, then the sink's own."""

from __future__ import annotations

from functools import partial

from oncelog.spark.options.security_options import security_rows
from oncelog.spark.options.table import Option, Scope, Treatment


def _supported(name: str, default: str | None, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, default, scope, Treatment.SUPPORTED, meaning)


def _refused(name: str, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, None, scope, Treatment.REFUSED, meaning)


def _inert(name: str, meaning: str, scope: Scope = Scope.SOURCE) -> Option:
    return Option(name, None, scope, Treatment.INERT, meaning)


_sink_supported = partial(_supported, scope=Scope.SINK)
_sink_refused = partial(_refused, scope=Scope.SINK)
_sink_inert = partial(_inert, scope=Scope.SINK)

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

AT_HAND = "all rows are at hand when they are encoded; batches are as full as they can be, and nothing is waited for"
OWN_PLACEMENT = "rows go where `partition` says, else where the Java client puts their key, else to one after another"
BYTES_AS_THEY_ARE = "columns are written as bytes or text as they are; convert them with DataFrame functions"

SINK_ROWS: tuple[Option, ...] = (
    _sink_supported(
        "topic", None, "Where all rows go. It comes before a column of that name, which is needed without it."
    ),
    _sink_supported(
        "kafka.transactional.id",
        None,
        'Who writes: one for each pipeline, the same after every restart. With writeStream.format("oncelog") {query} stands '
        'for the name of the query. Without this option format("oncelog") names a stream by its query\'s id and a batch write '
        "by its writeId, or makes one up.",
    ),
    _sink_supported(
        "kafka.group.id",
        "the transactional id",
        "Streams only. Under which group the offsets of the input are committed, in the transaction. It may have {query} in "
        "it, too.",
    ),
    _sink_supported(
        "kafka.transaction.timeout.ms",
        "60000 for streams, 900000 for batch writes",
        "How long a transaction may be open. It opens when all rows are computed and encoded. The broker's limit is its "
        "transaction.max.timeout.ms.",
    ),
    _sink_supported("kafka.max.block.ms", "60000", "How long to go on asking a coordinator that does not answer."),
    _sink_supported("kafka.request.timeout.ms", "30000", "How long one request may take before it is made again."),
    _sink_supported(
        "kafka.delivery.timeout.ms", "120000", "How long a partition may take no batch before the attempt fails."
    ),
    _sink_supported("kafka.compression.type", "none", "none, gzip, snappy, lz4 or zstd."),
    _sink_supported(
        "kafka.batch.size",
        "1000000",
        "The size of a record batch in bytes before compression. It is made smaller where the topic's max.message.bytes is.",
    ),
    _sink_supported(
        "kafka.max.request.size",
        None,
        "How large a record may be, counted without compression as the Java producer counts it. Without it only the topic's "
        "max.message.bytes counts.",
    ),
    _sink_supported("kafka.client.id", "oncelog-spark", "What brokers see as the name of these connections."),
    _sink_supported("kafka.acks", "all", "all or -1: a transaction needs every acknowledgement."),
    _sink_supported("kafka.enable.idempotence", "true", "true: a transaction needs it."),
    _sink_supported("attempts", "3", "How many transactions to try when tasks or brokers fail."),
    _sink_supported(
        "unwritable",
        "fail",
        "What becomes of records that cannot be written, for they are too large or name a topic or partition that is not "
        "there or not allowed: fail, skip with a count, or dead-letter. It happens in the same transaction.",
    ),
    _sink_supported("deadLetterTopic", None, "Where such records go with unwritable=dead-letter."),
    _sink_supported(
        "trustCheckpoint",
        "false",
        "Streams only. Run a query whose history the log does not know, as after a full refresh; say so once, after you have "
        "made sure.",
    ),
    _sink_supported(
        "writeToInput",
        "false",
        "Streams only. Write to topics that the query reads. Without it such a query is refused, for it would read what it "
        "writes, without end.",
    ),
    _sink_supported(
        "writeId",
        None,
        'Batch writes with format("oncelog") only. What is written: a repetition under the same transactional id adds nothing.',
    ),
    _sink_supported(
        "stagingLocation",
        "a temporary directory",
        'format("oncelog") only. A directory that all nodes and the driver see, where tasks put rows that are too many for '
        "their messages.",
    ),
    _sink_supported(
        "checkpointLocation",
        None,
        'writeStream.format("oncelog") only, and needed there: a directory that the driver sees. What was read is taken from '
        "it.",
    ),
    _sink_supported(
        "queryName",
        None,
        'writeStream.format("oncelog") only, and set with writeStream.queryName(...). What {query} stands for; pipelines of '
        "`pyspark.pipelines` name each flow's query.",
    ),
    _sink_refused(
        "asyncProgressTrackingEnabled", "the offsets of a micro-batch may then change when it is repeated; leave it out"
    ),
    _sink_refused("asyncProgressTrackingCheckpointIntervalMs", "progress is not tracked asynchronously; leave it out"),
    _sink_refused("includeHeaders", "it is the source's; the sink writes the column `headers` where there is one"),
    _sink_refused("path", "topics have no path; set option topic"),
    _sink_refused("kafka.key.serializer", BYTES_AS_THEY_ARE),
    _sink_refused("kafka.value.serializer", BYTES_AS_THEY_ARE),
    _sink_refused("kafka.interceptor.classes", "records are written as whole batches; nothing can be put in between"),
    _sink_refused("kafka.partitioner.class", OWN_PLACEMENT),
    _sink_refused("kafka.partitioner.ignore.keys", OWN_PLACEMENT),
    _sink_refused("kafka.transaction.two.phase.commit.enable", "the transaction ends when all rows are acknowledged"),
    _sink_inert("kafka.buffer.memory", "what waits to be sent is bounded at 32 MB"),
    _sink_inert("kafka.compression.gzip.level", "each codec has its default level"),
    _sink_inert("kafka.compression.lz4.level", "each codec has its default level"),
    _sink_inert("kafka.compression.zstd.level", "each codec has its default level"),
    _sink_inert("kafka.linger.ms", AT_HAND),
    _sink_inert("kafka.max.in.flight.requests.per.connection", "five, as many as keep the order"),
    _sink_inert("kafka.metadata.max.age.ms", "partitions and leaders are asked for in every micro-batch"),
    _sink_inert("kafka.metadata.max.idle.ms", "partitions and leaders are asked for in every micro-batch"),
    _sink_inert("kafka.partitioner.adaptive.partitioning.enable", OWN_PLACEMENT),
    _sink_inert("kafka.partitioner.availability.timeout.ms", OWN_PLACEMENT),
    _sink_inert("kafka.retries", "a batch is sent again until kafka.delivery.timeout.ms is over"),
    _sink_inert("kafka.socket.connection.setup.timeout.ms", "a connection may take 10 s to be made"),
    _sink_inert("spark.kafka.producer.cache.timeout", "there is no pool of producers"),
    _sink_inert("spark.kafka.producer.cache.evictorThreadRunInterval", "there is no pool of producers"),
)

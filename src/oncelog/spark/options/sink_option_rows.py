"""The rows of the sink's own options. Those that source and sink treat alike are among the source's rows."""

from __future__ import annotations

from oncelog.spark.options.table import Option, Scope, Treatment


def _supported(name: str, default: str | None, meaning: str) -> Option:
    return Option(name, default, Scope.SINK, Treatment.SUPPORTED, meaning)


def _refused(name: str, meaning: str) -> Option:
    return Option(name, None, Scope.SINK, Treatment.REFUSED, meaning)


def _inert(name: str, meaning: str) -> Option:
    return Option(name, None, Scope.SINK, Treatment.INERT, meaning)


AT_HAND = "all rows are at hand when they are encoded; batches are as full as they can be, and nothing is waited for"
OWN_PLACEMENT = "rows go where `partition` says, else where the Java client puts their key, else to one after another"
BYTES_AS_THEY_ARE = "columns are written as bytes or text as they are; convert them with DataFrame functions"

SINK_ROWS: tuple[Option, ...] = (
    _supported("topic", None, "Where all rows go. It comes before a column of that name, which is needed without it."),
    _supported(
        "kafka.transactional.id",
        None,
        'Who writes: one for each pipeline, the same after every restart. With writeStream.format("oncelog") {query} stands '
        'for the name of the query. Without this option format("oncelog") names a stream by its query\'s id and a batch write '
        "by its writeId, or makes one up.",
    ),
    _supported(
        "kafka.group.id",
        "the transactional id",
        "Streams only. Under which group the offsets of the input are committed, in the transaction. It may have {query} in "
        "it, too.",
    ),
    _supported(
        "kafka.transaction.timeout.ms",
        "60000 for streams, 900000 for batch writes",
        "How long a transaction may be open. It opens when all rows are computed and encoded. The broker's limit is its "
        "transaction.max.timeout.ms.",
    ),
    _supported("kafka.max.block.ms", "60000", "How long to go on asking a coordinator that does not answer."),
    _supported("kafka.request.timeout.ms", "30000", "How long one request may take before it is made again."),
    _supported(
        "kafka.delivery.timeout.ms", "120000", "How long a partition may take no batch before the attempt fails."
    ),
    _supported("kafka.compression.type", "none", "none, gzip, snappy, lz4 or zstd."),
    _supported(
        "kafka.batch.size",
        "1000000",
        "The size of a record batch in bytes before compression. It is made smaller where the topic's max.message.bytes is.",
    ),
    _supported(
        "kafka.max.request.size",
        None,
        "How large a record may be, counted without compression as the Java producer counts it. Without it only the topic's "
        "max.message.bytes counts.",
    ),
    _supported("kafka.client.id", "oncelog-spark", "What brokers see as the name of these connections."),
    _supported("kafka.acks", "all", "all or -1: a transaction needs every acknowledgement."),
    _supported("kafka.enable.idempotence", "true", "true: a transaction needs it."),
    _supported("attempts", "3", "How many transactions to try when tasks or brokers fail."),
    _supported(
        "unwritable",
        "fail",
        "What becomes of records that cannot be written, for they are too large or name a topic or partition that is not "
        "there or not allowed: fail, skip with a count, or dead-letter. It happens in the same transaction.",
    ),
    _supported("deadLetterTopic", None, "Where such records go with unwritable=dead-letter."),
    _supported(
        "trustCheckpoint",
        "false",
        "Streams only. Run a query whose history the log does not know, as after a full refresh; say so once, after you have "
        "made sure.",
    ),
    _supported(
        "writeToInput",
        "false",
        "Streams only. Write to topics that the query reads. Without it such a query is refused, for it would read what it "
        "writes, without end.",
    ),
    _supported(
        "writeId",
        None,
        'Batch writes with format("oncelog") only. What is written: a repetition under the same transactional id adds nothing.',
    ),
    _supported(
        "stagingLocation",
        "a temporary directory",
        'format("oncelog") only. A directory that all nodes and the driver see, where tasks put rows that are too many for '
        "their messages.",
    ),
    _supported(
        "checkpointLocation",
        None,
        'writeStream.format("oncelog") only, and needed there: a directory that the driver sees. What was read is taken from '
        "it.",
    ),
    _supported(
        "queryName",
        None,
        'writeStream.format("oncelog") only, and set with writeStream.queryName(...). What {query} stands for; pipelines of '
        "`pyspark.pipelines` name each flow's query.",
    ),
    _refused(
        "asyncProgressTrackingEnabled", "the offsets of a micro-batch may then change when it is repeated; leave it out"
    ),
    _refused("asyncProgressTrackingCheckpointIntervalMs", "progress is not tracked asynchronously; leave it out"),
    _refused("includeHeaders", "it is the source's; the sink writes the column `headers` where there is one"),
    _refused("path", "topics have no path; set option topic"),
    _refused("kafka.key.serializer", BYTES_AS_THEY_ARE),
    _refused("kafka.value.serializer", BYTES_AS_THEY_ARE),
    _refused("kafka.interceptor.classes", "records are written as whole batches; nothing can be put in between"),
    _refused("kafka.partitioner.class", OWN_PLACEMENT),
    _refused("kafka.partitioner.ignore.keys", OWN_PLACEMENT),
    _refused("kafka.transaction.two.phase.commit.enable", "the transaction ends when all rows are acknowledged"),
    _inert("kafka.buffer.memory", "what waits to be sent is bounded at 32 MB"),
    _inert("kafka.compression.gzip.level", "each codec has its default level"),
    _inert("kafka.compression.lz4.level", "each codec has its default level"),
    _inert("kafka.compression.zstd.level", "each codec has its default level"),
    _inert("kafka.linger.ms", AT_HAND),
    _inert("kafka.max.in.flight.requests.per.connection", "five, as many as keep the order"),
    _inert("kafka.metadata.max.age.ms", "partitions and leaders are asked for in every micro-batch"),
    _inert("kafka.metadata.max.idle.ms", "partitions and leaders are asked for in every micro-batch"),
    _inert("kafka.partitioner.adaptive.partitioning.enable", OWN_PLACEMENT),
    _inert("kafka.partitioner.availability.timeout.ms", OWN_PLACEMENT),
    _inert("kafka.retries", "a batch is sent again until kafka.delivery.timeout.ms is over"),
    _inert("kafka.socket.connection.setup.timeout.ms", "a connection may take 10 s to be made"),
    _inert("spark.kafka.producer.cache.timeout", "there is no pool of producers"),
    _inert("spark.kafka.producer.cache.evictorThreadRunInterval", "there is no pool of producers"),
)

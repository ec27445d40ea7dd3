"""The source's options, checked: the names, scopes and defaults of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from oncelog.client.net.settings import parse_addresses
from oncelog.client.security import Security
from oncelog.client.values import IsolationLevel
from oncelog.spark.options import boundaries
from oncelog.spark.options.boundaries import Boundary
from oncelog.spark.options.rows import SOURCE_ROWS
from oncelog.spark.options.security_options import security_of
from oncelog.spark.options.subscription import TopicSelection, subscription
from oncelog.spark.options.table import (
    OptionError,
    OptionValues,
    Scope,
    boolean,
    duration_ms,
    natural,
    natural_int32,
    positive,
    positive_int32,
    warn_of_inert,
)

T = TypeVar("T")

ANY_INPUT = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "any"}
"""In the place of what a pipeline names by itself, where options are checked before it is known."""
TOPICS = "the topics to read are named by themselves"
COMMITTED = (
    "without a checkpoint a pipeline goes on from its committed offsets, and only its first start is earliest or latest"
)
TRIGGER = "without a checkpoint there is no trigger that could wait"
SET_BY_PIPELINE = {
    "kafka.bootstrap.servers": "input and output are on one cluster, which is named by itself",
    "assign": TOPICS,
    "subscribe": TOPICS,
    "subscribepattern": TOPICS,
    "startingoffsets": COMMITTED,
    "startingtimestamp": COMMITTED,
    "startingoffsetsbytimestamp": COMMITTED,
    "startingoffsetsbytimestampstrategy": COMMITTED,
    "endingoffsets": COMMITTED,
    "endingtimestamp": COMMITTED,
    "endingoffsetsbytimestamp": COMMITTED,
    "maxoffsetspertrigger": "max_offsets_per_batch is the limit of a pipeline without a checkpoint",
    "minoffsetspertrigger": TRIGGER,
    "maxtriggerdelay": TRIGGER,
    "includeheaders": "include_headers says it in a pipeline without a checkpoint",
}
"""Options in lower case that the pipeline itself sets for each micro-batch, and why the user does not."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The cluster's address, the client's name and its timeouts, for driver and tasks."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    connect_timeout_ms: int
    api_timeout_ms: int
    security: Security


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The settings of Fetch requests."""

    isolation_level: IsolationLevel
    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    partition_bytes: int
    poll_timeout_ms: int


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The most offsets that a micro-batch reads, and the least that it waits for; None is no limit."""

    offsets_max: int | None
    offsets_min: int | None
    delay_ms_max: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    connection: ConnectionOptions
    fetch: FetchOptions
    subscription: TopicSelection
    starting: Boundary
    ending: Boundary
    missing_timestamp_is_latest: bool
    fail_on_data_loss: bool
    include_headers: bool
    limits: TriggerLimits
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    offset_retries: int
    offset_retry_interval_ms: int
    metadata_age_ms_max: int
    exclude_internal_topics: bool


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a batch or a streaming read; names are case-insensitive. Raises OptionError."""
    given = OptionValues(SOURCE_ROWS, options, Scope.SOURCE)
    connection, fetch = _connection(given, options), _fetch(given)
    if fetch.max_wait_ms >= connection.api_timeout_ms:
        raise OptionError(
            "kafka.fetch.max.wait.ms has to be less than kafka.default.api.timeout.ms, the limit for answers"
        )
    min_partitions, max_partitions = _task_bounds(given)
    return SourceOptions(
        connection=connection,
        fetch=fetch,
        subscription=subscription(given),
        starting=boundaries.starting(given, streaming=streaming),
        ending=boundaries.ending(given, streaming=streaming),
        missing_timestamp_is_latest=given.value("startingOffsetsByTimestampStrategy", _strategy) == "latest",
        fail_on_data_loss=given.value("failOnDataLoss", boolean),
        include_headers=given.value("includeHeaders", boolean),
        limits=_trigger_limits(given, streaming=streaming),
        min_partitions=min_partitions,
        max_partitions=max_partitions,
        max_records_per_partition=given.optional("maxRecordsPerPartition", positive),
        offset_retries=given.value("fetchOffset.numRetries", natural),
        offset_retry_interval_ms=given.value("fetchOffset.retryIntervalMs", natural),
        metadata_age_ms_max=given.value("kafka.metadata.max.age.ms", natural),
        exclude_internal_topics=given.value("kafka.exclude.internal.topics", boolean),
    )


def check_options(options: Mapping[str, str]) -> None:
    """Check options before it is known whether a stream or a batch is read, and warn of those without effect.

    Raises OptionError where neither could be read.
    """
    wrong = [error for streaming in (True, False) if (error := _error(options, streaming)) is not None]
    if len(wrong) == 2:
        stream, batch = map(str, wrong)
        raise OptionError(stream if stream == batch else f"as a stream: {stream}; as a batch read: {batch}")
    warn_of_inert(SOURCE_ROWS, options, Scope.SOURCE)


def check_source_options(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option that is not known, is wrong, or is not for the user to set."""
    for name in options:
        said = SET_BY_PIPELINE.get(name.lower())
        if said is not None:
            raise OptionError(f"option {name}: {said}")
    parse_options({**ANY_INPUT, **options}, streaming=False)


def _error(options: Mapping[str, str], streaming: bool) -> OptionError | None:
    try:
        parse_options(options, streaming=streaming)
    except OptionError as error:
        return error
    return None


def _connection(given: OptionValues, options: Mapping[str, str]) -> ConnectionOptions:
    security = security_of(options)
    return ConnectionOptions(
        bootstrap_servers=_bootstrap_servers(given, security),
        client_id=_client_id(given),
        request_timeout_ms=given.value("kafka.request.timeout.ms", positive_int32),
        connect_timeout_ms=given.value("kafka.socket.connection.setup.timeout.ms", positive_int32),
        api_timeout_ms=given.value("kafka.default.api.timeout.ms", positive_int32),
        security=security,
    )


def _bootstrap_servers(given: OptionValues, security: Security) -> str:
    servers = given.optional("kafka.bootstrap.servers", str)
    if not servers:
        raise OptionError("option kafka.bootstrap.servers is needed: host:port, or several of them with commas")
    try:
        parse_addresses(servers, security)
    except ValueError as error:
        raise OptionError(f"option kafka.bootstrap.servers: {error}") from None
    return servers


def _client_id(given: OptionValues) -> str:
    """Brokers see a Java consumer without a client id as consumer-<group id>-<number>."""
    group = given.optional("kafka.group.id", str) or given.optional("groupIdPrefix", str)
    if group and not given.is_given("kafka.client.id"):
        return f"consumer-{group}"
    return given.value("kafka.client.id", str)


def _fetch(given: OptionValues) -> FetchOptions:
    return FetchOptions(
        isolation_level=given.value("kafka.isolation.level", _isolation_level),
        min_bytes=given.value("kafka.fetch.min.bytes", natural_int32),
        max_wait_ms=given.value("kafka.fetch.max.wait.ms", natural_int32),
        max_bytes=given.value("kafka.fetch.max.bytes", positive_int32),
        partition_bytes=given.value("kafka.max.partition.fetch.bytes", positive_int32),
        poll_timeout_ms=given.value("kafkaConsumer.pollTimeoutMs", positive),
    )


def _trigger_limits(given: OptionValues, *, streaming: bool) -> TriggerLimits:
    offsets_min = _streaming_only(given, streaming, "minOffsetsPerTrigger", positive)
    offsets_max = _streaming_only(given, streaming, "maxOffsetsPerTrigger", positive)
    if offsets_min is not None and offsets_max is not None and offsets_min > offsets_max:
        raise OptionError("minOffsetsPerTrigger is greater than maxOffsetsPerTrigger")
    _streaming_only(given, streaming, "maxTriggerDelay", duration_ms)
    if given.is_given("maxTriggerDelay") and offsets_min is None:
        raise OptionError("maxTriggerDelay is a limit on the wait that minOffsetsPerTrigger asks for: set that too")
    return TriggerLimits(offsets_max, offsets_min, given.value("maxTriggerDelay", duration_ms))


def _task_bounds(given: OptionValues) -> tuple[int | None, int | None]:
    least, most = given.optional("minPartitions", positive), given.optional("maxPartitions", positive)
    if least is not None and most is not None and least > most:
        raise OptionError(f"minPartitions is {least}, and maxPartitions {most}: the least is more than the most")
    return least, most


def _streaming_only(given: OptionValues, streaming: bool, name: str, read: Callable[[str], T]) -> T | None:
    if not streaming and given.is_given(name):
        raise OptionError(f"option {name} limits micro-batches; a batch read has none")
    return given.optional(name, read)


def _strategy(text: str) -> str:
    if text.lower() not in ("error", "latest"):
        raise ValueError("error or latest")
    return text.lower()


def _isolation_level(text: str) -> IsolationLevel:
    if text.lower() not in ("read_committed", "read_uncommitted"):
        raise ValueError("read_committed or read_uncommitted")
    return IsolationLevel[text.upper()]

"""The options of the source: the names, scopes and defaults of Spark's own Kafka source.

An option that would change nothing is refused rather than ignored. No message holds the value of a `kafka.` option: it
may be a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from oncelog.client.settings import parse_addresses
from oncelog.client.values import IsolationLevel, OffsetSpec, TopicPartition
from oncelog.spark.offsets import SPECIFICATIONS, Offsets, from_json

T = TypeVar("T")

DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1000
DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionError(ValueError):
    """An option is missing, contradicts another, or means nothing here. The message says which and why."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"pattern {self.pattern!r}"
        return ", ".join(self.topics) or ", ".join(str(partition) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading starts or ends: one rule for all partitions, or one for each.

    `everywhere` is an OffsetSpec. `offsets` holds offsets or OffsetSpecs. A time is in milliseconds; `timestamp_ms` is
    for all partitions, `timestamps_ms` for each.
    """

    everywhere: OffsetSpec | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None


EARLIEST = Boundary(everywhere=OffsetSpec.EARLIEST)
LATEST = Boundary(everywhere=OffsetSpec.LATEST)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap_servers: str
    subscription: Subscription
    starting: Boundary
    ending: Boundary
    missing_timestamp_is_latest: bool
    fail_on_data_loss: bool
    include_headers: bool
    isolation_level: IsolationLevel
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_interval_ms: int
    client_id: str
    fetch_bytes_max: int | None
    fetch_wait_ms_max: int | None


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a batch or a streaming read; names are case-insensitive. Raises OptionError."""
    reader = _Reader({name.lower(): value for name, value in options.items()}, streaming)
    parsed = reader.read()
    reader.refuse_the_rest()
    return parsed


class _Reader:
    def __init__(self, options: dict[str, str], streaming: bool) -> None:
        self._options = options
        self._streaming = streaming

    def read(self) -> SourceOptions:
        min_offsets = self._streaming_only("minOffsetsPerTrigger", _positive)
        max_offsets = self._streaming_only("maxOffsetsPerTrigger", _positive)
        if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
            raise OptionError("minOffsetsPerTrigger is greater than maxOffsetsPerTrigger")
        delay = self._streaming_only("maxTriggerDelay", _duration_ms)
        if delay is not None and min_offsets is None:
            raise OptionError("maxTriggerDelay is a limit on the wait that minOffsetsPerTrigger asks for: set that too")
        self._check_security()
        return SourceOptions(
            bootstrap_servers=self._bootstrap_servers(),
            subscription=self._subscription(),
            starting=self._starting(),
            ending=self._ending(),
            missing_timestamp_is_latest=self._strategy(),
            fail_on_data_loss=self._take("failOnDataLoss", _boolean, True),
            include_headers=self._take("includeHeaders", _boolean, False),
            isolation_level=self._take("kafka.isolation.level", _isolation_level, IsolationLevel.READ_COMMITTED),
            max_offsets_per_trigger=max_offsets,
            min_offsets_per_trigger=min_offsets,
            max_trigger_delay_ms=DEFAULT_TRIGGER_DELAY_MS if delay is None else delay,
            min_partitions=self._optional("minPartitions", _positive),
            max_records_per_partition=self._optional("maxRecordsPerPartition", _positive),
            poll_timeout_ms=self._take("kafkaConsumer.pollTimeoutMs", _positive, DEFAULT_POLL_TIMEOUT_MS),
            offset_retries=self._take("fetchOffset.numRetries", _natural, 3),
            offset_retry_interval_ms=self._take("fetchOffset.retryIntervalMs", _natural, 10),
            client_id=self._take("kafka.client.id", str, "oncelog-spark"),
            fetch_bytes_max=self._optional("kafka.max.partition.fetch.bytes", _positive),
            fetch_wait_ms_max=self._optional("kafka.fetch.max.wait.ms", _natural),
        )

    def refuse_the_rest(self) -> None:
        for name in sorted(self._options):
            if name in REFUSED:
                raise OptionError(f"option {name}: {REFUSED[name]}")
            raise OptionError(f"option {name} is not known to this source, and would change nothing")

    def _optional(self, name: str, read: Callable[[str], T]) -> T | None:
        text = self._options.pop(name.lower(), None)
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            said = "" if name.startswith("kafka.") else f", not {text!r}"
            raise OptionError(f"option {name} has to be {error}{said}") from None

    def _take(self, name: str, read: Callable[[str], T], default: T) -> T:
        value = self._optional(name, read)
        return default if value is None else value

    def _streaming_only(self, name: str, read: Callable[[str], T]) -> T | None:
        if not self._streaming and name.lower() in self._options:
            raise OptionError(f"option {name} limits micro-batches; a batch read has none")
        return self._optional(name, read)

    def _bootstrap_servers(self) -> str:
        servers = self._optional("kafka.bootstrap.servers", str)
        if not servers:
            raise OptionError("option kafka.bootstrap.servers is needed: host:port, or several of them with commas")
        try:
            parse_addresses(servers)
        except ValueError as error:
            raise OptionError(f"option kafka.bootstrap.servers: {error}") from None
        return servers

    def _check_security(self) -> None:
        protocol = self._optional("kafka.security.protocol", str)
        if protocol is not None and protocol.upper() != "PLAINTEXT":
            raise OptionError("option kafka.security.protocol: only PLAINTEXT connections can be made")

    def _subscription(self) -> Subscription:
        subscribed = {
            name: text for name in ("assign", "subscribe", "subscribePattern") if (text := self._optional(name, str))
        }
        if len(subscribed) != 1:
            raise OptionError("exactly one of the options assign, subscribe and subscribePattern is needed")
        ((name, text),) = subscribed.items()
        if name == "assign":
            return Subscription(partitions=_assigned(text))
        if name == "subscribePattern":
            return Subscription(pattern=_pattern(text))
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic")
        return Subscription(topics=topics)

    def _starting(self) -> Boundary:
        default = LATEST if self._streaming else EARLIEST
        boundary = self._boundary("starting", default)
        if not self._streaming and _is_latest(boundary):
            raise OptionError("option startingOffsets: a batch read that starts at the latest offset reads nothing")
        return boundary

    def _ending(self) -> Boundary:
        names = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
        if self._streaming:
            given = next((name for name in names if name.lower() in self._options), None)
            if given is not None:
                raise OptionError(f"option {given} ends a batch read; a streaming read has no end")
            return LATEST
        boundary = self._boundary("ending", LATEST)
        if boundary.everywhere is OffsetSpec.EARLIEST or OffsetSpec.EARLIEST in (boundary.offsets or {}).values():
            raise OptionError("option endingOffsets: a read that ends at the earliest offset reads nothing")
        return boundary

    def _boundary(self, which: str, default: Boundary) -> Boundary:
        """The most exact of the three options wins, as in Spark: one timestamp, timestamps, offsets."""
        timestamp = self._optional(f"{which}Timestamp", _natural)
        timestamps = self._optional(f"{which}OffsetsByTimestamp", _per_partition)
        offsets = self._optional(f"{which}Offsets", _boundary_offsets)
        if timestamp is not None:
            return Boundary(timestamp_ms=timestamp)
        if timestamps is not None:
            return Boundary(timestamps_ms=timestamps)
        return default if offsets is None else offsets

    def _strategy(self) -> bool:
        strategy = self._take("startingOffsetsByTimestampStrategy", str.lower, "error")
        if strategy not in ("error", "latest"):
            raise OptionError("option startingOffsetsByTimestampStrategy has to be error or latest")
        return strategy == "latest"


REFUSED = {
    "kafka.auto.offset.reset": "say where to start with startingOffsets, and what lost data means with failOnDataLoss",
    "kafka.key.deserializer": "keys come as binary; convert them with DataFrame functions",
    "kafka.value.deserializer": "values come as binary; convert them with DataFrame functions",
    "kafka.key.serializer": "this is a source; it writes nothing",
    "kafka.value.serializer": "this is a source; it writes nothing",
    "kafka.enable.auto.commit": "progress is in the checkpoint or in the sink's transaction; nothing is committed here",
    "kafka.interceptor.classes": "records are read as whole batches; nothing can be put in between",
    "kafka.group.id": "partitions are assigned by the driver; no group id is ever sent",
    "groupidprefix": "partitions are assigned by the driver; no group id is ever sent",
    "kafka.max.poll.records": "records are read as whole batches, not polled one by one",
}


def _is_latest(boundary: Boundary) -> bool:
    return boundary.everywhere is OffsetSpec.LATEST or OffsetSpec.LATEST in (boundary.offsets or {}).values()


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _natural(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("a whole number, 0 or greater")
    return int(text)


def _positive(text: str) -> int:
    if not text.strip().isdigit() or int(text) == 0:
        raise ValueError("a whole number greater than 0")
    return int(text)


def _duration_ms(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] or "ms") not in DURATION_MS:
        raise ValueError("a time such as 15m, 30s or 500ms")
    return int(match[1]) * DURATION_MS[match[2] or "ms"]


def _isolation_level(text: str) -> IsolationLevel:
    if text.lower() not in ("read_committed", "read_uncommitted"):
        raise ValueError("read_committed or read_uncommitted")
    return IsolationLevel[text.upper()]


def _per_partition(text: str) -> Offsets:
    try:
        return from_json(text)
    except ValueError as error:
        raise ValueError('JSON such as {"topic": {"0": 23}} (' + str(error) + ")") from None


def _boundary_offsets(text: str) -> Boundary:
    if text.strip().lower() in SPECIFICATIONS:
        return Boundary(everywhere=SPECIFICATIONS[text.strip().lower()])
    offsets = _per_partition(text)
    if any(offset < OffsetSpec.EARLIEST for offset in offsets.values()):
        raise ValueError("offsets, or -1 for the latest and -2 for the earliest")
    return Boundary(offsets=offsets)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        tree = json.loads(text)
        assigned = tuple(TopicPartition(topic, int(number)) for topic, numbers in tree.items() for number in numbers)
    except (ValueError, AttributeError, TypeError):
        raise OptionError('option assign has to be JSON such as {"topic": [0, 1]}') from None
    if not assigned:
        raise OptionError("option assign names no partition")
    return assigned


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"option subscribePattern is not a regular expression: {error}") from None
    return text

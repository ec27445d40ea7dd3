"""The cluster that a command works on: its address, its topics and offsets, and the sentence for each error of the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.broker.config.properties import parse_properties
from oncelog.broker.config.setting import SettingError
from oncelog.cli.exits import CommandError, ExitStatus, read_text
from oncelog.cli.options import DEFAULT_BOOTSTRAP_SERVER
from oncelog.cli.tables import note
from oncelog.client import (
    AuthenticationFailed,
    BrokerRefused,
    Client,
    ClientError,
    ConsumedRecord,
    Consumer,
    IsolationLevel,
    OffsetSpec,
    OutcomeUnknown,
    TopicDescription,
    TopicPartition,
    TransactionError,
    TransactionFailed,
    UnsupportedVersion,
)
from oncelog.client.net.rights import topic_error
from oncelog.client.security import INERT, PLAINTEXT, Security, is_security_option, read_security
from oncelog.client.transports.files import inlined
from oncelog.wire import ErrorCode

CALL_TIMEOUT_MS, MILLISECONDS_MAX = 15_000, 2**31 - 1
CLIENT_ID = "oncelog-cli"

BOOTSTRAP_SERVERS, CLIENT_ID_NAME = "bootstrap.servers", "client.id"
REQUEST_TIMEOUT, CALL_TIMEOUT = "request.timeout.ms", "default.api.timeout.ms"


@dataclass(frozen=True, slots=True)
class Reach:
    """The options of every client that a command makes."""

    bootstrap_servers: str = DEFAULT_BOOTSTRAP_SERVER
    client_id: str = CLIENT_ID
    request_timeout_ms: float = CALL_TIMEOUT_MS
    call_timeout_ms: float = CALL_TIMEOUT_MS
    security: Security = PLAINTEXT
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The file's properties for TLS and SASL, under the names of Spark's options."""


def reach(bootstrap_server: str | None, config: Path | None) -> Reach:
    """Read the options of a command. Raises CommandError for a file that cannot be read or has a value that is wrong."""
    properties = {} if config is None else _properties(config)
    named = properties.get(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP_SERVER)
    try:
        security = inlined(read_security(properties))
        found = Reach(
            bootstrap_servers=named if bootstrap_server is None else bootstrap_server,
            client_id=properties.get(CLIENT_ID_NAME, CLIENT_ID),
            request_timeout_ms=_milliseconds(properties, REQUEST_TIMEOUT),
            call_timeout_ms=_milliseconds(properties, CALL_TIMEOUT),
            security=security,
            kafka_options=_kafka_options(properties),
        )
    except ValueError as error:
        raise CommandError(f"{config}: {error}", ExitStatus.USAGE) from error
    _remark(properties, config)
    return found


def _properties(path: Path) -> dict[str, str]:
    text = read_text(path)
    try:
        return parse_properties(text)
    except SettingError as error:
        raise CommandError(f"{path}: {error}", ExitStatus.USAGE) from error


def _kafka_options(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        f"kafka.{name}": value for name, value in properties.items() if is_security_option(name) and name not in INERT
    }


def _milliseconds(properties: dict[str, str], name: str) -> float:
    text = properties.get(name, str(CALL_TIMEOUT_MS)).strip()
    if not text.isdecimal() or not 0 < int(text) <= MILLISECONDS_MAX:
        raise ValueError(f"{name} is a number of milliseconds, not {text!r}")
    return float(text)


def _remark(properties: dict[str, str], config: Path | None) -> None:
    """Name the properties that have no effect on a command."""
    meant = {BOOTSTRAP_SERVERS, CLIENT_ID_NAME, REQUEST_TIMEOUT, CALL_TIMEOUT}
    others = sorted(name for name in properties if name in INERT or not (name in meant or is_security_option(name)))
    if others:
        note(f"{config}: no effect here: {', '.join(others)}")


def connect(chosen: Reach) -> Client:
    """A client whose timeouts suit a person who waits. Raises CommandError for an address that is none."""
    try:
        return Client(
            chosen.bootstrap_servers,
            client_id=chosen.client_id,
            request_timeout_ms=chosen.request_timeout_ms,
            call_timeout_ms=chosen.call_timeout_ms,
            security=chosen.security,
        )
    except ValueError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from error


def client_failure(error: ClientError) -> CommandError:
    """The sentence and the status for an error of the client."""
    first = error
    while isinstance(first, TransactionFailed) and isinstance(first.__cause__, ClientError):
        first = first.__cause__
    if first is not error:
        why = client_failure(first)
        return CommandError(f"{why.sentence}; nothing of the transaction is committed", why.status)
    if isinstance(error, AuthenticationFailed):
        return CommandError(str(error), ExitStatus.REFUSED)
    if isinstance(error, BrokerRefused):
        return CommandError(f"the broker refused: {error}", ExitStatus.REFUSED)
    if isinstance(error, OutcomeUnknown):
        return CommandError(f"the end of the transaction is unknown: {error}", ExitStatus.UNKNOWN)
    if isinstance(error, TransactionError):
        return CommandError(str(error), ExitStatus.FAILED)
    if isinstance(error, UnsupportedVersion):
        return CommandError(str(error), ExitStatus.REFUSED)
    return CommandError(f"no broker answered: {error}", ExitStatus.UNREACHABLE)


def existing_topics(client: Client, names: Sequence[str]) -> list[TopicDescription]:
    """Describe topics. Raises CommandError with the topics that do not exist."""
    described = list(client.metadata(list(names)).values())
    missing = [topic.name for topic in described if topic.error is ErrorCode.unknown_topic_or_partition]
    if missing:
        what = "is no topic" if len(missing) == 1 else "are no topics"
        raise CommandError(f"there {what} {', '.join(missing)}", ExitStatus.REFUSED)
    for topic in described:
        if topic.error is not ErrorCode.none:
            raise CommandError(f"topic {topic.name}: {topic_error(topic.name, topic.error)}", ExitStatus.REFUSED)
    return described


def partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, item.partition) for item in sorted(topic.partitions, key=lambda p: p.partition)]


def chosen_partitions(topic: TopicDescription, numbers: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions of a topic with these numbers, or all of them. Raises CommandError for one that is not there."""
    existing = partitions_of(topic)
    if not numbers:
        return existing
    chosen = [TopicPartition(topic.name, number) for number in sorted(set(numbers))]
    missing = [str(item.partition) for item in chosen if item not in existing]
    if missing:
        raise CommandError(f"topic {topic.name} has no partition {', '.join(missing)}", ExitStatus.REFUSED)
    return chosen


def led_partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    """The partitions that have a leader: nobody knows the offsets of the others."""
    led = {item.partition for item in topic.partitions if item.leader >= 0}
    return [item for item in partitions_of(topic) if item.partition in led]


def offsets_at(
    client: Client,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec | int,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """One offset of each partition: its start, its end or the first at a time."""
    if not partitions:
        return {}
    listed = client.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation_level)
    return {partition: found.offset for partition, found in listed.items()}


POLL_MS = 500.0


def polls(
    client: Client, consumer: Consumer, topic: TopicDescription, ends: Mapping[TopicPartition, int] | None
) -> Iterator[Sequence[ConsumedRecord]]:
    """Yield the records below the ends, a poll at a time, until the ends are reached; without ends for ever.

    Raises CommandError if the topic is deleted meanwhile, or deleted and created again.
    """
    if ends is None:
        while True:
            yield consumer.poll(POLL_MS)
    while any(consumer.position(item) < end for item, end in ends.items()):
        records = consumer.poll(POLL_MS)
        if not records:
            check_is_there(client, topic)
        yield [record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]]
    check_is_there(client, topic)


def check_is_there(client: Client, topic: TopicDescription) -> None:
    """Raises CommandError."""
    (now,) = existing_topics(client, [topic.name])
    if now.topic_id != topic.topic_id:
        raise CommandError(f"topic {topic.name} was deleted and made anew while it was read", ExitStatus.REFUSED)

"""How a command reaches a broker, and what it says when that does not work."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.cli.exits import CommandError, ExitStatus
from oncelog.cli.reach import Reach
from oncelog.client import (
    AuthenticationFailed,
    BrokerRefused,
    Client,
    ClientError,
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
from oncelog.wire import ErrorCode


def connect(chosen: Reach) -> Client:
    """A client that gives up soon enough for a person who waits. Raises CommandError for an address that is none."""
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
    """A sentence and a status for whatever the client raises."""
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
    """Describe topics that must be there. Raises CommandError with those that are not."""
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


def led_partitions_of(topic: TopicDescription) -> list[TopicPartition]:
    """Those that have a leader: nobody knows the offsets of another."""
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

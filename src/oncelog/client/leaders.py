"""Asking the leaders of many partitions at once, again for those that moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from oncelog.client.cluster import Cluster, locate
from oncelog.client.conversation import Conversation, Patience, Ticket, ask_all
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    RetriesExhausted,
)
from oncelog.client.requests import Request
from oncelog.client.values import Address, TopicPartition
from oncelog.wire import ErrorCode

T = TypeVar("T")
Answers = Iterable[tuple[TopicPartition, ErrorCode, T]]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(partitions):
        grouped[partition.topic].append(partition)
    return grouped


def by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[Address, list[TopicPartition]]:
    """Group partitions whose leader is known."""
    grouped: dict[Address, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        leader = cluster.leader(partition)
        if leader is not None:
            grouped[leader].append(partition)
    return grouped


def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request: Callable[[Sequence[TopicPartition]], Request],
    read: Callable[[Any], Answers[T]],
    what: str,
) -> Conversation[dict[TopicPartition, T]]:
    """Ask every leader for its partitions until all have answered. Raises BrokerRefused or RetriesExhausted."""
    patience = yield from Patience.lasting(cluster.settings.call_timeout_ms)
    missing = set(partitions)
    values: dict[TopicPartition, T] = {}
    while True:
        yield from locate(cluster, missing)
        asked = by_leader(cluster, missing)
        tickets = yield from ask_all((leader, request(group)) for leader, group in asked.items())
        cause: ClientError | None = None
        for ticket, group in zip(tickets, asked.values(), strict=True):
            answered, problem = _take(cluster, ticket, group, read, what)
            values.update(answered)
            cause = problem or cause
        missing -= values.keys()
        if not missing:
            return values
        if not (yield from patience.pause()):
            raise RetriesExhausted(f"{what}: {cause}") from cause


def _take(
    cluster: Cluster,
    ticket: Ticket,
    asked: Sequence[TopicPartition],
    read: Callable[[Any], Answers[T]],
    what: str,
) -> tuple[dict[TopicPartition, T], ClientError | None]:
    try:
        message = ticket.result()
    except ConnectionLost as lost:
        for partition in asked:
            cluster.forget_leader(partition)
        return {}, lost
    values: dict[TopicPartition, T] = {}
    problem: ClientError | None = None
    for partition, error, value in read(message):
        if error is ErrorCode.none:
            values[partition] = value
            continue
        problem = BrokerRefused(error, f"{what} of {partition}")
        if error not in RETRIABLE:
            raise problem
        if error in STALE_METADATA:
            cluster.forget_leader(partition)
    return values, problem

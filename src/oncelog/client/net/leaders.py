"""Asking the leaders of many partitions at once, again for those that moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from oncelog.client.errors import RETRIABLE, STALE_METADATA, ClientError, ConnectionLost, RetriesExhausted
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import PendingRequest, Send, Wait
from oncelog.client.net.metadata import refresh, will_have_no_leader
from oncelog.client.net.retry import Retries
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest
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


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    request: Callable[[Sequence[TopicPartition]], ApiRequest],
    read: Callable[[Any], Answers[T]],
    what: str,
    arrived: Callable[[Mapping[TopicPartition, T]], None] | None = None,
) -> dict[TopicPartition, T]:
    """Ask every leader for its partitions until all have answered. Raises BrokerRefused or RetriesExhausted.

    `arrived` gets what a leader says as soon as it does: also when another partition's error is raised later.
    """
    retries = await cluster.retries()
    asking = _Asking(cluster, set(partitions), read, what)
    while asking.missing:
        await asking.look_for_leaders(retries)
        timeout_ms = await cluster.answer_timeout_ms(retries)
        awaited: dict[PendingRequest, list[TopicPartition]] = {}
        for leader, group in by_leader(cluster, sorted(asking.missing)).items():
            pending = await Send(leader, request(group), timeout_ms)
            awaited[pending] = group
        while awaited:
            await Wait(tuple(awaited))
            for done in [pending for pending in awaited if pending.is_done]:
                answered = asking.take(done, awaited.pop(done))
                if arrived is not None:
                    arrived(answered)
        if asking.final is not None:
            raise asking.final
        if asking.missing and not await retries.pause():
            raise asking.exhausted()
    return asking.values


class _Asking(Generic[T]):
    """What is still to be asked, what was answered, and why the rest was not."""

    def __init__(
        self, cluster: Cluster, missing: set[TopicPartition], read: Callable[[Any], Answers[T]], what: str
    ) -> None:
        self.missing = missing
        self.values: dict[TopicPartition, T] = {}
        self.final: ClientError | None = None
        """The first error that asking again does not change."""
        self._cluster = cluster
        self._read = read
        self._what = what
        self._cause: ClientError | None = None

    async def look_for_leaders(self, retries: Retries) -> None:
        unknown = {partition for partition in self.missing if self._cluster.leader(partition) is None}
        if not unknown:
            return
        names = {partition.topic for partition in unknown}
        try:
            described = await refresh(self._cluster, names, wanted=unknown, retries=retries)
        except RetriesExhausted:
            if self._cause is None:
                raise
            # The end of the call has cut this short: what was known before says more.
            raise self.exhausted() from self._cause
        by_name = {topic.name: topic for topic in described}
        for partition in sorted(unknown):
            topic = by_name.get(partition.topic)
            if topic is not None:
                self.final = self.final or will_have_no_leader(topic, partition, create=False)
            if self._cluster.leader(partition) is None:
                self._cluster.forget_leader(partition)
        leaderless = [str(partition) for partition in sorted(unknown) if self._cluster.leader(partition) is None]
        if leaderless:
            self._cause = RetriesExhausted(f"no leader is known for {', '.join(leaderless)}")

    def take(self, pending: PendingRequest, asked: Sequence[TopicPartition]) -> dict[TopicPartition, T]:
        try:
            message = pending.result()
        except ConnectionLost as lost:
            for partition in asked:
                self._cluster.forget_leader(partition)
            self._cause = lost
            return {}
        except ClientError as error:
            self.final = self.final or error
            return {}
        answered: dict[TopicPartition, T] = {}
        for partition, code, value in self._read(message):
            if partition not in asked:
                continue
            if code is ErrorCode.none:
                answered[partition] = value
            else:
                self._take_error(pending, partition, code)
        self.missing -= answered.keys()
        self.values |= answered
        return answered

    def _take_error(self, pending: PendingRequest, partition: TopicPartition, error: ErrorCode) -> None:
        refusal = refused(pending.request, error, f"{self._what} of {partition}", topic=partition.topic)
        if error not in RETRIABLE:
            self.final = self.final or refusal
        elif error in STALE_METADATA:
            self._cluster.forget_leader(partition)
        self._cause = refusal

    def exhausted(self) -> RetriesExhausted:
        exhausted = RetriesExhausted(f"{self._what}: {self._cause or 'no answer in time'}")
        exhausted.__cause__ = self._cause
        return exhausted

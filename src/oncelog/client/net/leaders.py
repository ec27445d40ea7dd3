"""Leaders of partitions: requests to many of them at once, and the search for those that moved.

The search has one Metadata request under way, for all topics that are due. The next request goes to another node where one
does not answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from oncelog.client.descriptions import TopicDescription
from oncelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    RetriesExhausted,
)
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import PendingRequest, Send, Wait
from oncelog.client.net.metadata import ASKING, about_topics, metadata_error, refresh, will_have_no_leader
from oncelog.client.net.retry import Backoff, Retries
from oncelog.client.net.rights import TOPIC_REQUEST, refused
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
    """The partitions without an answer, the answers, and the errors."""

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


class LeaderSearch:
    """Looks for leaders, and has the reason for each partition that has none yet, or never will."""

    def __init__(self, cluster: Cluster, *, create: bool) -> None:
        """With `create` the search makes missing topics, and waits for them."""
        self._cluster = cluster
        self._create = create
        self._pending: PendingRequest | None = None
        self._partitions: tuple[TopicPartition, ...] = ()
        self._backoffs: dict[str, Backoff] = {}
        self._denials: Counter[TopicPartition] = Counter()
        self.causes: dict[TopicPartition, ClientError] = {}
        """The reasons of partitions without a leader, where the last answer gave one."""

    @property
    def awaited(self) -> tuple[PendingRequest, ...]:
        """The requests to wait for."""
        return () if self._pending is None else (self._pending,)

    async def look(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        """Ask for partitions without a leader, unless an answer is awaited."""
        if self._pending is not None:
            return
        due = tuple(sorted(tp for tp in partitions if self._backoff(tp.topic).retry_at_ms <= now_ms))
        if not due:
            return
        self._partitions = due
        topics = sorted({tp.topic for tp in due})
        self._cluster.asked_ms |= dict.fromkeys(topics, now_ms)
        request = about_topics(topics, self._create)
        # Nodes that are to deny something, each for itself, are asked in turn.
        order = self._cluster.addresses() if self._denials else await self._cluster.least_loaded()
        self._pending = await Send(order[0], request)

    def retry_at_ms(self, partition: TopicPartition) -> float:
        """The time of the next request for the partition; infinite while a request is in flight."""
        return float("inf") if self._pending is not None else self._backoff(partition.topic).retry_at_ms

    async def take(self) -> dict[TopicPartition, ClientError]:
        """Take in the answer, if it is there; return the partitions that will not have a leader, and why."""
        if self._pending is None or not self._pending.is_done:
            return {}
        pending, self._pending = self._pending, None
        try:
            message = _metadata(pending)
        except ClientError as error:
            self._cluster.ask_last(pending.address)
            for topic in sorted({tp.topic for tp in self._partitions}):
                await self._backoff(topic).fail(self._cluster.settings.retry)
            self.causes |= dict.fromkeys(self._partitions, error)
            return {}
        self._cluster.note_answer(pending.address)
        return await self._learn(message)

    async def _learn(self, message: Any) -> dict[TopicPartition, ClientError]:
        described = {topic.name: topic for topic in self._cluster.learn(message, asked_for_all=False)}
        never: dict[TopicPartition, ClientError] = {}
        waiting: set[str] = set()
        for partition in self._partitions:
            self.causes.pop(partition, None)
            topic = described.get(partition.topic)
            problem = None if topic is None else will_have_no_leader(topic, partition, create=self._create)
            if problem is None:
                self._denials.pop(partition, None)
            if problem is not None and self._is_believed(partition, problem):
                never[partition] = problem
            elif self._cluster.leader(partition) is None:
                self.causes[partition] = _no_leader(topic, partition)
                self._cluster.forget_leader(partition)
                waiting.add(partition.topic)
        for name in sorted({tp.topic for tp in self._partitions}):
            if name in waiting:
                await self._backoff(name).fail(self._cluster.settings.retry)
            else:
                self._backoffs.pop(name, None)
        return never

    def _is_believed(self, partition: TopicPartition, problem: BrokerRefused) -> bool:
        """Believe that a partition is not there once every node has said so: one may not know of it yet."""
        self._denials[partition] += 1
        is_denied = problem.error is ErrorCode.unknown_topic_or_partition
        if is_denied and self._denials[partition] < self._cluster.denials_needed:
            return False
        del self._denials[partition]
        return True

    def _backoff(self, topic: str) -> Backoff:
        return self._backoffs.setdefault(topic, Backoff())


def _metadata(pending: PendingRequest) -> Any:
    """The answer. Raises ClientError, also where it says nothing yet."""
    message = pending.result()
    error = metadata_error(message)
    if error is not ErrorCode.none:
        raise refused(pending.request, error, ASKING)
    return message


def _no_leader(topic: TopicDescription | None, partition: TopicPartition) -> ClientError:
    error = ErrorCode.leader_not_available if topic is None or topic.error is ErrorCode.none else topic.error
    return refused(TOPIC_REQUEST, error, f"finding the leader of {partition}", topic=partition.topic)

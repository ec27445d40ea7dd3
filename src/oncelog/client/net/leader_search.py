"""Finding the leaders of partitions while everything else goes on.

There is one Metadata request at a time, for every topic that is looked for and has not failed a moment ago. A node that
does not answer is followed by another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from oncelog.client.errors import BrokerRefused, ClientError
from oncelog.client.net.cluster import Cluster
from oncelog.client.net.flows import PendingRequest, Send
from oncelog.client.net.metadata import ASKING, about_topics, metadata_error, will_have_no_leader
from oncelog.client.net.retry import Backoff
from oncelog.client.net.rights import TOPIC_REQUEST, refused
from oncelog.client.topic_values import TopicDescription
from oncelog.client.values import TopicPartition
from oncelog.wire import ErrorCode


class LeaderSearch:
    """Asks, and says of each partition why it has no leader yet, or never will."""

    def __init__(self, cluster: Cluster, *, create: bool) -> None:
        """With `create` a topic that is not there is expected to come."""
        self._cluster = cluster
        self._create = create
        self._ticket: PendingRequest | None = None
        self._partitions: tuple[TopicPartition, ...] = ()
        self._backoffs: dict[str, Backoff] = {}
        self._denials: Counter[TopicPartition] = Counter()
        self.causes: dict[TopicPartition, ClientError] = {}
        """Why a leader is not known yet, where the last answer said so."""

    @property
    def awaited(self) -> tuple[PendingRequest, ...]:
        """What to wait for."""
        return () if self._ticket is None else (self._ticket,)

    async def look(self, partitions: Iterable[TopicPartition], now_ms: float) -> None:
        """Ask for partitions without a leader, unless an answer is awaited."""
        if self._ticket is not None:
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
        self._ticket = await Send(order[0], request)

    def retry_at_ms(self, partition: TopicPartition) -> float:
        """When the partition is asked for again: never, while an answer is awaited that will be waited for anyway."""
        return float("inf") if self._ticket is not None else self._backoff(partition.topic).retry_at_ms

    async def take(self) -> dict[TopicPartition, ClientError]:
        """Take in the answer, if it is there; return the partitions that will not have a leader, and why."""
        if self._ticket is None or not self._ticket.is_done:
            return {}
        pending, self._ticket = self._ticket, None
        try:
            message = _metadata(pending)
        except ClientError as error:
            self._cluster.doubt(pending.address)
            for topic in sorted({tp.topic for tp in self._partitions}):
                await self._backoff(topic).fail(self._cluster.settings.retry)
            self.causes |= dict.fromkeys(self._partitions, error)
            return {}
        self._cluster.believe(pending.address)
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
        """That it is not there is believed when every node has said so: one may not have heard of it yet."""
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

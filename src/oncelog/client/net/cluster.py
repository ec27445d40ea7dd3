"""The client's view of the cluster: nodes, leaders of partitions, coordinators of groups and transactions.

It also holds the two ways of asking that everything else is built from: ask any node, ask a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from oncelog.client import requests
from oncelog.client.descriptions import PartitionDescription, TopicDescription
from oncelog.client.errors import (
    RETRIABLE,
    STALE_COORDINATOR,
    ClientError,
    ConnectionLost,
    RetriesExhausted,
)
from oncelog.client.net.flows import Handshake, InFlight, ask
from oncelog.client.net.retry import Retries
from oncelog.client.net.rights import refused
from oncelog.client.net.settings import ClientSettings
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address, Node, TopicPartition, TransactionVersion
from oncelog.wire import ErrorCode
from oncelog.wire.offered_versions import OfferedVersions

TRANSACTION_FEATURE = "transaction.version"
ErrorOf = Callable[[Any], ErrorCode]


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class _Leader:
    """The leader of a partition and its epoch, as a node has said. Old brokers say neither epoch nor topic id."""

    node_id: int = -1
    epoch: int = -1
    topic_id: UUID | None = None


NO_LEADER = _Leader()


class Cluster:
    """The client's picture of the cluster. It is corrected by asking again, never by guessing."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicDescription] = {}
        self._leaders: dict[TopicPartition, _Leader] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], Address] = {}
        self._nodes_max = 0
        self.asked_ms: dict[str, float] = {}
        """The time of the last metadata request for each topic."""
        self.answered_by: Address | None = None
        """The node that gave the last metadata."""
        self._asked_last: Address | None = None

    async def retries(self, time_ms: float | None = None) -> Retries:
        """The deadline of a call: `call_timeout_ms`, unless it has a time of its own."""
        return await Retries.within(self.settings.call_timeout_ms if time_ms is None else time_ms, self.settings.retry)

    async def answer_timeout_ms(self, retries: Retries) -> float:
        """The timeout of the next request: never beyond the deadline of the call."""
        return min(await retries.left_ms(), self.settings.request_timeout_ms)

    def addresses(self) -> list[Address]:
        """The nodes for a request that any of them can answer: those known, then the bootstrap servers, in turn.

        The node that did not answer, or whose answer was stale, comes last: a node that is cut off from the others stays stale
        for as long as that lasts.
        """
        every = list(dict.fromkeys((*self.node_addresses(), *self.settings.bootstrap)))
        first = every.index(self._asked_last) + 1 if self._asked_last in every else 0
        return every[first:] + every[:first]

    async def least_loaded(self) -> list[Address]:
        """The same, first the nodes with the fewest unanswered requests. The node that failed last stays last.

        A search that asks all nodes, until each has denied something, asks them in turn instead.
        """
        load = await InFlight()
        nodes = set(self.node_addresses())
        return sorted(self.addresses(), key=lambda one: (one == self._asked_last, one not in nodes, load[one]))

    def node_addresses(self) -> Sequence[Address]:
        """The addresses that the nodes advertise."""
        return [Address(node.host, node.port) for node in self.nodes.values()]

    def note_answer(self, address: Address) -> None:
        """Note that the node at this address gave the last metadata."""
        self.answered_by = address

    def ask_last(self, address: Address | None) -> None:
        """Ask the others first next time."""
        self._asked_last = address

    @property
    def denials_needed(self) -> int:
        """The number of answers in a row that prove that something is not there.

        The first node of a cluster that starts again names itself alone, and may know of no topic yet.
        """
        return max(len(self.nodes), self._nodes_max, len(self.settings.bootstrap))

    @property
    def is_incomplete(self) -> bool:
        return len(self.nodes) < self.denials_needed

    def ask_another(self) -> None:
        """Ask other nodes than the one that gave the last metadata."""
        self.ask_last(self.answered_by)

    def leader(self, partition: TopicPartition) -> Address | None:
        node = self.nodes.get(self._known_leader(partition).node_id)
        return None if node is None else Address(node.host, node.port)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch known, to send with requests to the leader (KIP-320); -1 where none is."""
        return self._known_leader(partition).epoch

    def topic_id(self, partition: TopicPartition) -> UUID | None:
        """The id of the partition's topic; None where it is not known."""
        return self._known_leader(partition).topic_id

    def _known_leader(self, partition: TopicPartition) -> _Leader:
        return self._leaders.get(partition, NO_LEADER)

    def forget_leader(self, partition: TopicPartition) -> None:
        """Look for it again. Its epoch is kept: a node that names an older one does not know of the last election."""
        self._leaders[partition] = replace(self._known_leader(partition), node_id=-1)
        self.ask_another()

    def forget_topic(self, name: str) -> None:
        self.topics.pop(name, None)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)
        self.ask_another()

    def forget_controller(self) -> None:
        self.controller_id = -1
        self.ask_another()

    async def coordinator(self, kind: CoordinatorKind, key: str, retries: Retries) -> Address:
        """Find a coordinator, unless it is known already. Raises BrokerRefused or RetriesExhausted."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = ApiRequest(requests.FIND_COORDINATOR, {"key": key, "key_type": int(kind)}, version_min=1)
        what = f"finding the coordinator of {key!r}"
        answer = await ask_any(self, request, lambda message: message.error_code, what, retries, least_loaded=True)
        self._coordinators[kind, key] = found = Address(answer.host, answer.port)
        return found

    def known_coordinator(self, kind: CoordinatorKind, key: str) -> Address | None:
        return self._coordinators.get((kind, key))

    def learn(self, message: Any, asked_for_all: bool) -> list[TopicDescription]:
        """Take in a Metadata answer; return the topics it is about.

        An id that the node does not know is about none.
        """
        self.cluster_id = getattr(message, "cluster_id", None)
        self.controller_id = message.controller_id
        self.nodes = {int(b.node_id): Node(int(b.node_id), b.host, int(b.port), b.rack) for b in message.brokers}
        self._nodes_max = max(self._nodes_max, len(self.nodes))
        learned = [_topic_description(topic) for topic in message.topics if topic.name is not None]
        if asked_for_all:
            self.topics.clear()
            names = {topic.name for topic in learned}
            self._leaders = {place: leader for place, leader in self._leaders.items() if place.topic in names}
        for topic in learned:
            self._learn_topic(topic)
        return learned

    def _learn_topic(self, topic: TopicDescription) -> None:
        if topic.error is ErrorCode.none:
            self.topics[topic.name] = topic
        else:
            self.topics.pop(topic.name, None)
        for partition in topic.partitions:
            place = TopicPartition(topic.name, partition.partition)
            named, known = _Leader(partition.leader, partition.leader_epoch, topic.topic_id), self._known_leader(place)
            is_same_topic = known.topic_id is not None and known.topic_id == named.topic_id
            if not (is_same_topic and 0 <= named.epoch < known.epoch):
                self._leaders[place] = named


async def last_cause(retries: Retries, cause: ClientError | None, lost: ConnectionLost) -> ClientError:
    """The last try of a call may be cut short by its end: what was known before says more."""
    is_over = not await retries.left_ms()
    return cause if is_over and cause is not None else lost


async def ask_any(
    cluster: Cluster,
    request: ApiRequest,
    error_of: ErrorOf,
    what: str,
    retries: Retries | None = None,
    *,
    least_loaded: bool = False,
) -> Any:
    """Ask node after node until one answers without a retriable error. Raises BrokerRefused or RetriesExhausted."""
    if retries is None:
        retries = await cluster.retries()
    cause: ClientError | None = None
    while True:
        for address in await cluster.least_loaded() if least_loaded else cluster.addresses():
            left_ms = await retries.left_ms()
            if not left_ms and cause is not None:
                break
            try:
                answer = await ask(address, request, min(left_ms, cluster.settings.request_timeout_ms))
            except ConnectionLost as lost:
                cause = await last_cause(retries, cause, lost)
                cluster.ask_last(address)
                continue
            error = error_of(answer)
            if error is ErrorCode.none:
                cluster.note_answer(address)
                return answer
            cause = refused(request, error, what)
            if error not in RETRIABLE:
                raise cause
            cluster.ask_last(address)
            break
        if not await retries.pause():
            raise RetriesExhausted(f"{what}: {cause}") from cause


async def ask_coordinator(
    cluster: Cluster,
    kind: CoordinatorKind,
    key: str,
    request: ApiRequest,
    error_of: ErrorOf,
    what: str,
    retries: Retries | None = None,
) -> Any:
    """Ask a coordinator until it answers without a retriable error. Raises BrokerRefused, RetriesExhausted.

    For requests that may be carried out twice.
    """
    if retries is None:
        retries = await cluster.retries()
    cause: ClientError | None = None
    while True:
        address = await cluster.coordinator(kind, key, retries)
        try:
            answer = await ask(address, request, await cluster.answer_timeout_ms(retries))
        except ConnectionLost as lost:
            cause = await last_cause(retries, cause, lost)
            cluster.forget_coordinator(kind, key)
        else:
            error = error_of(answer)
            if error is ErrorCode.none:
                return answer
            cause = refused(request, error, what)
            if error not in RETRIABLE:
                raise cause
            if error in STALE_COORDINATOR:
                cluster.forget_coordinator(kind, key)
        if not await retries.pause():
            raise RetriesExhausted(f"{what}: {cause}") from cause


async def handshake(cluster: Cluster) -> OfferedVersions:
    """The versions and features that a node offers. Raises RetriesExhausted."""
    retries = await cluster.retries()
    cause: ClientError | None = None
    while True:
        for address in cluster.addresses():
            left_ms = await retries.left_ms()
            if cause is not None and not left_ms:
                break
            try:
                handshake = await Handshake(address, min(left_ms, cluster.settings.connect_timeout_ms))
            except ConnectionLost as lost:
                cause = await last_cause(retries, cause, lost)
                cluster.ask_last(address)
            else:
                return handshake
        if not await retries.pause():
            raise RetriesExhausted(str(cause)) from cause


async def transaction_version(cluster: Cluster) -> TransactionVersion:
    """TV2 only where the cluster has finalized transaction.version 2: a broker offers TV2's requests before that."""
    broker = await handshake(cluster)
    level = broker.features.get(TRANSACTION_FEATURE, 0)
    return TransactionVersion.TV2 if level >= TransactionVersion.TV2 else TransactionVersion.TV1


def _topic_description(topic: Any) -> TopicDescription:
    partitions = sorted((_partition_description(item) for item in topic.partitions), key=lambda item: item.partition)
    return TopicDescription(
        name=str(topic.name),
        topic_id=getattr(topic, "topic_id", None),
        is_internal=topic.is_internal,
        partitions=tuple(partitions),
        error=topic.error_code,
    )


def _partition_description(item: Any) -> PartitionDescription:
    return PartitionDescription(
        partition=int(item.partition_index),
        leader=int(item.leader_id),
        leader_epoch=int(getattr(item, "leader_epoch", -1)),
        replicas=tuple(map(int, item.replica_nodes)),
        in_sync_replicas=tuple(map(int, item.isr_nodes)),
        offline_replicas=tuple(map(int, getattr(item, "offline_replicas", ()))),
        error=item.error_code,
    )

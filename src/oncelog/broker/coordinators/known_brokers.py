"""The other brokers, for the coordinators: they lead partitions, write markers, and copy what is recorded here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import Topics
from oncelog.broker.view import ClusterView
from oncelog.coordination import Promise
from oncelog.wire import ErrorCode


class NoLeader(Enum):
    """Why a partition has no leader."""

    AWAY = "nobody leads it now"
    GONE = "there is no such partition"


AWAY = NoLeader.AWAY
GONE = NoLeader.GONE
Leader: TypeAlias = int | NoLeader
"""The id of the broker that leads a partition, or why there is none."""

FOR_SURE = Promise.ready(True)
AT_ONCE: Promise[ErrorCode] = Promise.ready(ErrorCode.none)


class MarkersOfProducer(NamedTuple):
    """How a transaction ended, for those of its partitions that one broker leads. Of one request each has its own producer id."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    committed: bool
    partitions: tuple[tuple[str, int], ...]


MarkerErrors: TypeAlias = Mapping[tuple[int, str, int], ErrorCode]
"""By producer id, topic and partition."""


class TopicOfOffsets(NamedTuple):
    """The topic of a committed offset. `topic_id` is None where the record has none."""

    name: str
    topic_id: UUID | None


class BrokerAddress(NamedTuple):
    host: str
    port: int


class KnownBrokers(Protocol):
    """The brokers, as far as this one knows. `Transactions.leaders_changed` is called after each change."""

    has_others: bool
    """True for a member of a cluster. Then any other broker may decide how a transaction ends, whichever leads what now.
    """

    @property
    def is_alive(self) -> bool:
        """True if this broker is surely among the live ones: then no other leads, or coordinates, what it leads."""
        ...

    def leader_of(self, topic: str, index: int) -> Leader: ...

    def is_gone(self, topic: str, index: int) -> Promise[bool]:
        """True if there is surely no such partition, or its topic is being deleted.

        A broker of a cluster may not have been told of a partition yet.
        """
        ...

    def deleted_topics(self, topics: Collection[TopicOfOffsets]) -> Promise[Collection[TopicOfOffsets]]:
        """The topics among these that surely are deleted, or being deleted.

        A topic without an id may be there again by the time of the answer.
        """
        ...

    def address_of(self, node_id: int, listener: str) -> BrokerAddress | None:
        """The address of a broker for clients of this listener; None if it has none."""
        ...

    def partition(self, topic: str, index: int) -> Partition | None:
        """The replica here; None if there is none, or another broker leads the partition."""
        ...

    def send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> Promise[MarkerErrors | None]:
        """Have another broker write markers; what it answered, or None if it did not.

        It comes to an end, however the connection fails: markers that come twice do no harm.
        """
        ...

    def open_transactions_of(self, producer_ids: Collection[int]) -> Promise[Collection[int] | None]:
        """The producers among these that have a transaction open or decided at any coordinator.

        None if a coordinator does not say, or may have changed meanwhile.
        """
        ...

    def committed(self, partition: Partition, end_offset: int | None = None) -> Promise[ErrorCode]:
        """Resolved with none when all before this offset, or all that is in this broker's log now, is below the high watermark.

        Until then it waits, for an error has to be final: only what ends this broker's leadership
        does so earlier, with not_leader_or_follower.
        """
        ...


class OneBroker:
    """A broker that is alone: it leads every partition, and what it has appended nobody else has to have."""

    has_others = False
    is_alive = True

    def __init__(self, node_id: int, topics: Topics, view: ClusterView) -> None:
        self._node_id = node_id
        self._view = view
        self.partition = topics.partition

    def leader_of(self, topic: str, index: int) -> Leader:
        partition = self.partition(topic, index)
        if partition is None:
            return GONE
        return AWAY if partition.is_offline else self._node_id

    def is_gone(self, topic: str, index: int) -> Promise[bool]:
        return FOR_SURE

    def deleted_topics(self, topics: Collection[TopicOfOffsets]) -> Promise[Collection[TopicOfOffsets]]:
        raise AssertionError("a broker that is alone forgets a topic before it is deleted")

    def address_of(self, node_id: int, listener: str) -> BrokerAddress | None:
        node = self._view.at(listener).broker(node_id)
        return None if node is None else BrokerAddress(node.host, node.port)

    def send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> Promise[MarkerErrors | None]:
        raise AssertionError(f"there is no broker {node_id}")

    def open_transactions_of(self, producer_ids: Collection[int]) -> Promise[Collection[int] | None]:
        raise AssertionError("every coordinator is here")

    def committed(self, partition: Partition, end_offset: int | None = None) -> Promise[ErrorCode]:
        return AT_ONCE

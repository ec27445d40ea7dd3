"""The partitions of the coordinators' topics: who leads one coordinates what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from oncelog.broker.coordinators.elections import Elections
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.partition import Partition
    from oncelog.broker.storage.topics import Topic, Topics
    from oncelog.cluster.membership import ClusterMembership


class Needs(Protocol):
    """What of the broker is needed here."""

    group_elections: Elections
    leader_epoch: int
    membership: ClusterMembership | None
    offsets: CommittedOffsets
    topics: Topics
    transactions: Transactions


class CoordinatorPartitions:
    def __init__(self, broker: Needs) -> None:
        self._broker = broker

    def lead(self, name: str) -> Iterator[None]:
        """Become the leader of every partition of a coordinator's topic, in short steps: a broker that is alone is that."""
        broker = self._broker
        elections = broker.transactions.elections if name == TRANSACTION_STATE else broker.group_elections
        found = broker.topics.named(name)
        for index in range(0 if found is None else len(found.partitions)):
            yield from elections.loading(index, broker.leader_epoch)

    def follow_count(self, topic: Topic) -> None:
        """Where a group or a transactional id belongs depends on how many partitions its topic has, whoever made that."""
        if topic.name == TRANSACTION_STATE:
            self._broker.transactions.coordinator.partition_count = len(topic.partitions)
        elif topic.name == CONSUMER_OFFSETS:
            self._broker.offsets.coordinator.partition_count = len(topic.partitions)
        else:
            return
        if self._broker.membership is None:
            # There is nothing in it yet that others would have to wait for.
            for _ in self.lead(topic.name):
                pass

    def went_offline(self, partition: Partition) -> None:
        """Who coordinated what the partition has, does so no more: nothing can be recorded of it until it is back."""
        if partition.topic == TRANSACTION_STATE:
            self._broker.transactions.elections.resigned(partition.index)
        elif partition.topic == CONSUMER_OFFSETS:
            self._broker.group_elections.resigned(partition.index)

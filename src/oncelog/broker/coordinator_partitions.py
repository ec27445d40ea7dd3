"""The partitions of the coordinators' topics: the broker that leads one coordinates what is in it."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.broker.coordinators.elections import Elections
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, Topic, Topics


class CoordinatorPartitions:
    """Tells the coordinators which partitions this broker leads. `coordinate` comes before anything is led."""

    _topics: Topics
    _transactions: Transactions
    _offsets: CommittedOffsets
    _group_elections: Elections

    def coordinate(
        self, topics: Topics, transactions: Transactions, offsets: CommittedOffsets, group_elections: Elections
    ) -> None:
        self._topics = topics
        self._transactions = transactions
        self._offsets = offsets
        self._group_elections = group_elections

    def leading(self, name: str, leader_epoch: int) -> Iterator[None]:
        """Become the leader of every partition of a topic, in short steps, if it is a coordinator's."""
        elections, found = self._elections(name), self._topics.named(name)
        if elections is not None and found is not None:
            for index in range(len(found.partitions)):
                yield from elections.loading(index, leader_epoch)

    def follow_count(self, topic: Topic) -> None:
        """Tell the coordinator how many partitions its topic has: they decide where a group or a transactional id belongs."""
        if topic.name == TRANSACTION_STATE:
            self._transactions.coordinator.partition_count = len(topic.partitions)
        elif topic.name == CONSUMER_OFFSETS:
            self._offsets.coordinator.partition_count = len(topic.partitions)

    def went_offline(self, partition: Partition) -> None:
        """Nothing of the partition can be recorded until it is back: this broker coordinates it no more."""
        self.resigned(partition)

    def elected(self, partition: Partition, leader_epoch: int) -> None:
        elections = self._elections(partition.topic)
        if elections is not None:
            elections.elected(partition.index, leader_epoch)

    def resigned(self, partition: Partition, leader_epoch: int | None = None) -> None:
        elections = self._elections(partition.topic)
        if elections is not None:
            elections.resigned(partition.index, leader_epoch)

    def leaders_changed(self) -> None:
        """Let go on what waited for partitions without a leader."""
        self._transactions.leaders_changed()

    def _elections(self, topic: str) -> Elections | None:
        if topic == TRANSACTION_STATE:
            return self._transactions.elections
        return self._group_elections if topic == CONSUMER_OFFSETS else None

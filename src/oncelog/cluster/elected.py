"""A partition of a coordinator's topic makes its leader the coordinator of what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from oncelog.broker.storage.partition import Partition
from oncelog.broker.storage.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from oncelog.broker.coordinators.elections import Elections
    from oncelog.broker.coordinators.transactions import Transactions


class Needs(Protocol):
    """What of the broker is needed here."""

    group_elections: Elections
    transactions: Transactions


class Elected:
    """Tells the coordinators."""

    def __init__(self, broker: Needs) -> None:
        self._broker = broker

    def elected(self, partition: Partition, leader_epoch: int) -> None:
        elections = self._elections(partition.topic)
        if elections is not None:
            elections.elected(partition.index, leader_epoch)

    def resigned(self, partition: Partition, leader_epoch: int | None) -> None:
        elections = self._elections(partition.topic)
        if elections is not None:
            elections.resigned(partition.index, leader_epoch)

    def leaders_changed(self) -> None:
        """What waited for partitions without a leader has its turn."""
        self._broker.transactions.leaders_changed()

    def _elections(self, topic: str) -> Elections | None:
        if topic == TRANSACTION_STATE:
            return self._broker.transactions.elections
        return self._broker.group_elections if topic == CONSUMER_OFFSETS else None

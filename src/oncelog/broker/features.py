"""The levels of protocol features (KIP-584): which are supported, and which are finalized, so that clients go by them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from oncelog.broker.coordinators.transactions import Transactions

logger = logging.getLogger("oncelog.broker")

TRANSACTION_FEATURE, TRANSACTION_VERSION = "transaction.version", 2

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def upgrade_type(update: Any) -> int:
    """Of a feature's update in UpdateFeatures, in which v0 knows one kind of downgrade."""
    if hasattr(update, "allow_downgrade"):
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return int(update.upgrade_type)


class Needs(Protocol):
    """What of the broker is needed here."""

    transactions: Transactions


class FinalizedFeatures:
    """The level of each feature, the highest that it can have, and an epoch that grows with each change."""

    def __init__(self, broker: Needs, *, is_in_cluster: bool) -> None:
        self._broker = broker
        # Kafka's clusters over ZooKeeper know of no level of it: transactions are those of KIP-98.
        self.highest: Mapping[str, int] = {} if is_in_cluster else {TRANSACTION_FEATURE: TRANSACTION_VERSION}
        self.levels = dict(self.highest)
        self.epoch = 0

    @property
    def transaction_version(self) -> int:
        return self.levels.get(TRANSACTION_FEATURE, 0)

    def load(self, levels: Mapping[str, int], epoch: int) -> None:
        """Take what was finalized while a broker ran before."""
        self.levels |= levels
        self.epoch = epoch

    def finalize(self, name: str, level: int) -> None:
        """Set the level of a feature; the journal says so already."""
        logger.info("feature %s has level %d", name, level)
        self.levels[name] = level
        self.epoch += 1
        if name == TRANSACTION_FEATURE:
            self._broker.transactions.coordinator.transaction_version = level

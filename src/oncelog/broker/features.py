"""The levels of protocol features (KIP-584): which are supported, and which are finalized, so that clients go by them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger("oncelog.broker")

TRANSACTION_FEATURE, TRANSACTION_VERSION = "transaction.version", 2
GROUP_FEATURE, GROUP_VERSION = "group.version", 1
SUPPORTED = {TRANSACTION_FEATURE: TRANSACTION_VERSION, GROUP_FEATURE: GROUP_VERSION}

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def upgrade_type(update: Any) -> int:
    """The upgrade type of an update in UpdateFeatures, of which v0 has one kind of downgrade."""
    if hasattr(update, "allow_downgrade"):
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return int(update.upgrade_type)


class FinalizedFeatures:
    """The level of each feature, the highest that it can have, and an epoch that grows with each change."""

    def __init__(self, highest: Mapping[str, int]) -> None:
        self.highest = highest
        self.levels = dict(highest)
        self.epoch = 0

    @property
    def transaction_version(self) -> int:
        return self.levels.get(TRANSACTION_FEATURE, 0)

    @property
    def has_consumer_groups(self) -> bool:
        """True if members may speak the consumer protocol (KIP-848)."""
        return self.levels.get(GROUP_FEATURE, 0) >= GROUP_VERSION

    def load(self, levels: Mapping[str, int], epoch: int) -> None:
        """Take what was finalized while a broker ran before."""
        self.levels |= levels
        self.epoch = epoch

    def finalize(self, name: str, level: int) -> None:
        """Set the level of a feature; the journal says so already."""
        logger.info("feature %s has level %d", name, level)
        self.levels[name] = level
        self.epoch += 1

"""The kinds of groups there are. Offsets are the same for all of them; who may commit them, and when they end, is not."""

from __future__ import annotations

from enum import Enum


class GroupType(Enum):
    """The values are those of ListGroups; requests may write them in any case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"

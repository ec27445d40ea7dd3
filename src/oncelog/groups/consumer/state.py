"""What a member of a consumer group, and the group itself, can be doing (KIP-848, "Member State Machine").

`TRANSITIONS` is the whole state machine of a member: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """The values are those of the records in `__consumer_offsets`."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


STABLE = MemberState.STABLE
UNREVOKED_PARTITIONS = MemberState.UNREVOKED_PARTITIONS
UNRELEASED_PARTITIONS = MemberState.UNRELEASED_PARTITIONS
UNKNOWN = MemberState.UNKNOWN

_GIVES_UP = "it owns partitions that are to be another's, or of a topic it is not subscribed to"
_WAITS = "it owns nothing that it may not, and what it is to get is another's still"
_HAS_ALL = "it has all that it is to have"

# (from, to) -> what moves a member along that edge.
TRANSITIONS: dict[tuple[MemberState, MemberState], str] = {
    (STABLE, STABLE): "the next target assignment needs nothing to be waited for",
    (STABLE, UNREVOKED_PARTITIONS): _GIVES_UP,
    (STABLE, UNRELEASED_PARTITIONS): _WAITS,
    (UNREVOKED_PARTITIONS, UNREVOKED_PARTITIONS): "there is more to give up",
    (UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS): f"it has given up what it was to, and {_WAITS}",
    (UNREVOKED_PARTITIONS, STABLE): f"it has given up what it was to, and {_HAS_ALL}",
    (UNRELEASED_PARTITIONS, UNRELEASED_PARTITIONS): "a part of what it waits for is free",
    (UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS): f"the target assignment is another, and {_GIVES_UP}",
    (UNRELEASED_PARTITIONS, STABLE): _HAS_ALL,
    (UNKNOWN, UNRELEASED_PARTITIONS): "it owns nothing any more, and begins anew",
    (UNKNOWN, STABLE): "it owns nothing any more, and begins anew",
}


def is_legal(before: MemberState, after: MemberState) -> bool:
    return (before, after) in TRANSITIONS


class ConsumerGroupState(Enum):
    """The values are those of ConsumerGroupDescribe and ListGroups. A group is in the first that fits."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"

"""What a group of the classic protocol can be doing.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """The values are those of DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE
DEAD = ClassicState.DEAD

# (from, to) -> what moves a group along that edge.
TRANSITIONS: dict[tuple[ClassicState, ClassicState], str] = {
    (EMPTY, PREPARING_REBALANCE): "the first member joins",
    (
        STABLE,
        PREPARING_REBALANCE,
    ): "a member joins, leaves, changes or is silent for too long; or the leader joins again",
    (COMPLETING_REBALANCE, PREPARING_REBALANCE): "the same, or a member does not ask for its assignment in time",
    (PREPARING_REBALANCE, COMPLETING_REBALANCE): "every member has joined, or the rebalance timeout is over",
    (PREPARING_REBALANCE, EMPTY): "no member is left, and that is recorded",
    (COMPLETING_REBALANCE, STABLE): "the leader's assignment is recorded",
    (EMPTY, DEAD): "deleted, or nothing is left of it",
    (PREPARING_REBALANCE, DEAD): "a member of the consumer protocol joins, and the group follows it (KIP-848)",
    (COMPLETING_REBALANCE, DEAD): "the same",
    (STABLE, DEAD): "the same",
}


def is_legal(before: ClassicState, after: ClassicState) -> bool:
    return (before, after) in TRANSITIONS

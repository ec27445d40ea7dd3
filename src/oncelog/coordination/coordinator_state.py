"""What a broker can be to one partition of a coordinator's topic.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug, not an answer.
"""

from __future__ import annotations

from enum import Enum


class CoordinatorState(Enum):
    """The names are those of Kafka's CoordinatorRuntime."""

    CLOSED = "Closed"
    """Not the coordinator of what the partition has."""
    LOADING = "Loading"
    """Its coordinator, which does not know yet what the partition says."""
    ACTIVE = "Active"
    """Its coordinator, and what is known is what the partition says."""
    FAILED = "Failed"
    """Its leader, which cannot read it."""


CLOSED = CoordinatorState.CLOSED
LOADING = CoordinatorState.LOADING
ACTIVE = CoordinatorState.ACTIVE
FAILED = CoordinatorState.FAILED

# (from, to) -> what moves a partition along that edge.
TRANSITIONS: dict[tuple[CoordinatorState, CoordinatorState], str] = {
    (CLOSED, LOADING): "the broker becomes its leader",
    (LOADING, ACTIVE): "its log is replayed to the end",
    (LOADING, FAILED): "its log is damaged, or its log directory is offline",
    (LOADING, CLOSED): "the broker is its leader no more, or under a newer epoch",
    (ACTIVE, CLOSED): "the same, or its log directory fails",
    (FAILED, CLOSED): "the same",
}


def is_legal(before: CoordinatorState, after: CoordinatorState) -> bool:
    return (before, after) in TRANSITIONS

"""The states of a group of the classic protocol.

`TRANSITIONS` is the whole state machine: a move that is not in it is a bug. The page of the documentation is written
from it.
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


_MEANINGS = {
    EMPTY: ("There are no members. Offsets may be there, and anybody may commit more.", "UNKNOWN_MEMBER_ID"),
    PREPARING_REBALANCE: ("Everybody has to join again; JoinGroup waits for the others.", "REBALANCE_IN_PROGRESS"),
    COMPLETING_REBALANCE: ("The leader assigns; SyncGroup of the others waits for it.", "none"),
    STABLE: ("The assignment is in the log. A restart finds the group in this state.", "none"),
    DEAD: ("There is no such group. Never in the log: a record without a value says it.", "UNKNOWN_MEMBER_ID"),
}

_INTRODUCTION = """\
# Group states

The states of a group of the classic protocol, under the names that DescribeGroups and ListGroups answer.

This page is generated from the transition table in `oncelog.groups.classic.state`.

```mermaid
stateDiagram-v2
    [*] --> Empty: JoinGroup of an unknown group, or offsets for it
"""

_TABLE = """\
    Dead --> [*]
```

| name | meaning | Heartbeat of a member is answered |
|---|---|---|
"""

_CLOSING = """
Only Empty and Stable are in the log. A broker that is killed in between goes on from the generation before, whose members are
told ILLEGAL_GENERATION when they name the next one, and join again.
"""


def page() -> str:
    """The whole page, in Markdown."""
    arrows = "".join(
        f"    {before.value} --> {after.value}: {_label(reason)}\n" for (before, after), reason in TRANSITIONS.items()
    )
    rows = "".join(_row(state) for state in ClassicState)
    return _INTRODUCTION + arrows + _TABLE + rows + _CLOSING


def _label(reason: str) -> str:
    # A semicolon would end the arrow.
    return reason.replace(";", ",")


def _row(state: ClassicState) -> str:
    meaning, heartbeat = _MEANINGS[state]
    return f"| {state.value} | {meaning} | {heartbeat} |\n"

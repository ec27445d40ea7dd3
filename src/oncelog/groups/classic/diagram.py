"""The documentation page of the states of a group, written from the transition table."""

from __future__ import annotations

from oncelog.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicState,
)

_MEANINGS = {
    EMPTY: ("There are no members. Offsets may be there, and anybody may commit more.", "UNKNOWN_MEMBER_ID"),
    PREPARING_REBALANCE: ("Everybody has to join again; JoinGroup waits for the others.", "REBALANCE_IN_PROGRESS"),
    COMPLETING_REBALANCE: ("The leader assigns; SyncGroup of the others waits for it.", "none"),
    STABLE: ("The assignment is in the log. A restart finds the group in this state.", "none"),
    DEAD: ("There is no such group. Never in the log: a record without a value says it.", "UNKNOWN_MEMBER_ID"),
}

_INTRODUCTION = """\
# Group states

What a group of the classic protocol can be doing, under the names that DescribeGroups and ListGroups answer.

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

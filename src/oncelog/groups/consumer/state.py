"""The states of a member of a consumer group, and of the group itself (KIP-848, "Member State Machine").

`TRANSITIONS` is the whole state machine of a member: a move that is not in it is a bug. The page of the
documentation is written from it.
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


_MEMBERS = {
    STABLE: "It has all that it is to have in its epoch.",
    UNREVOKED_PARTITIONS: (
        "It has to give up partitions first, within its rebalance timeout. "
        "It stays in its epoch until it says that it does not own them any more."
    ),
    UNRELEASED_PARTITIONS: "It is in the epoch of the target, and waits for partitions that are another's still.",
    UNKNOWN: "A newer broker recorded a state that is not known here. It is fenced, gives up everything, and joins again.",
}
_GROUPS = {
    ConsumerGroupState.EMPTY: "There are no members. The next member to join decides which protocol the group follows.",
    ConsumerGroupState.ASSIGNING: (
        "Members, subscriptions or topics have changed since the target assignment: the next heartbeat makes another, "
        "once `group.consumer.assignment.interval.ms` is over."
    ),
    ConsumerGroupState.RECONCILING: "A member is not Stable in the epoch of the target assignment.",
    ConsumerGroupState.STABLE: "Every member is.",
    ConsumerGroupState.DEAD: "There is no such group.",
}

_INTRODUCTION = """\
# States of consumer groups

The states of a member of a consumer group (KIP-848). The names are those of the protocol; a member's state is in the log.

This page is generated from the transition table in `oncelog.groups.consumer.state`.

```mermaid
stateDiagram-v2
    [*] --> STABLE: the first heartbeat, in epoch 0
"""

_MEMBER_TABLE = """\
```

| name | meaning |
|---|---|
"""

_GROUP_TABLE = """
A group's state is not recorded: it follows from the three epochs. These are the names of ConsumerGroupDescribe and ListGroups;
a group is in the first that fits.

| name | meaning |
|---|---|
"""

_CLOSING = """
Everything else about a group is in the log, too: a broker that is killed goes on where it was, and every member has its whole
session and rebalance timeout again.
"""


def page() -> str:
    """The whole page, in Markdown."""
    arrows = "".join(
        f"    {before.name} --> {after.name}: {reason}\n" for (before, after), reason in TRANSITIONS.items()
    )
    members = "".join(f"| {state.name} | {_MEMBERS[state]} |\n" for state in MemberState)
    groups = "".join(f"| {state.value} | {_GROUPS[state]} |\n" for state in ConsumerGroupState)
    return _INTRODUCTION + arrows + _MEMBER_TABLE + members + _GROUP_TABLE + groups + _CLOSING

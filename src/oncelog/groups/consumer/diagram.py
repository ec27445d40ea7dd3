"""The documentation page of the states of consumer groups and their members, written from the transition table."""

from __future__ import annotations

from oncelog.groups.consumer.state import (
    STABLE,
    TRANSITIONS,
    UNKNOWN,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerGroupState,
    MemberState,
)

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
    ConsumerGroupState.EMPTY: "There are no members. Whoever joins next says which protocol the group follows.",
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

What a member of a consumer group (KIP-848) can be doing. The names are those of the protocol; a member's state is in the log.

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

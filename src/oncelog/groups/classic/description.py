"""What DescribeGroups and ListGroups say of a group of the classic protocol."""

from __future__ import annotations

from typing import NamedTuple

from oncelog.groups.classic.group import ClassicGroup
from oncelog.groups.classic.state import DEAD, STABLE


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: bytes
    assignment: bytes


class ClassicGroupDescription(NamedTuple):
    """`protocol` and what the members said for it are told of a stable group only."""

    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


NO_SUCH_GROUP = ClassicGroupDescription(DEAD.value)


def describe(group: ClassicGroup) -> ClassicGroupDescription:
    is_stable = group.state is STABLE
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.subscription(group.protocol) if is_stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    protocol = (group.protocol or "") if is_stable else ""
    return ClassicGroupDescription(group.state.value, group.protocol_type or "", protocol, members)

"""Groups as operators see them: listed, described and deleted, and their offsets forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.client import requests
from oncelog.client.admin.operations import ask_every_node
from oncelog.client.descriptions import CLASSIC, CONSUMER, DEAD, GroupDescription, GroupListing, GroupMember
from oncelog.client.errors import BrokerRefused, UnsupportedVersion
from oncelog.client.groups.assignors import decode_assignment
from oncelog.client.net.cluster import Cluster, CoordinatorKind, ask_coordinator
from oncelog.client.net.leaders import by_topic
from oncelog.client.net.rights import refused
from oncelog.client.requests import ApiRequest
from oncelog.client.values import Address, TopicPartition
from oncelog.wire import ErrorCode, WireError

LIST_STATES_VERSION, LIST_TYPES_VERSION = 4, 5
CONSUMER_PROTOCOL_TYPE = "consumer"


async def list_groups(cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """The groups that all nodes together coordinate, with filters where any are given.

    Raises BrokerRefused, or UnsupportedVersion for a filter that a broker does not know.
    """
    lowest = LIST_TYPES_VERSION if types else LIST_STATES_VERSION if states else 0
    fields = {"states_filter": list(states), "types_filter": list(types)}
    request = ApiRequest(requests.LIST_GROUPS, fields, version_min=lowest)
    return await ask_every_node(cluster, request, _listed, "listing groups")


def _listed(message: Any) -> list[GroupListing]:
    return [
        GroupListing(
            group=str(item.group_id),
            type=getattr(item, "group_type", "").lower(),
            protocol_type=item.protocol_type,
            state=getattr(item, "group_state", ""),
        )
        for item in message.groups
    ]


async def describe_group(cluster: Cluster, group: str) -> GroupDescription:
    """One group of either type; its state is Dead when there is none. Raises BrokerRefused or RetriesExhausted."""
    retries = await cluster.retries()
    coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group, retries)
    try:
        found = await _ask_about(cluster, group, ApiRequest(requests.CONSUMER_GROUP_DESCRIBE, {"group_ids": [group]}))
    except (BrokerRefused, UnsupportedVersion) as error:
        if isinstance(error, BrokerRefused) and error.error is not ErrorCode.group_id_not_found:
            raise
        return await _describe_classic(cluster, group, coordinator)
    return GroupDescription(
        group=group,
        type=CONSUMER,
        state=found.group_state,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=found.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_consumer_member, found.members)),
        epoch=int(found.group_epoch),
        assignment_epoch=int(found.assignment_epoch),
    )


async def _describe_classic(cluster: Cluster, group: str, coordinator: Address) -> GroupDescription:
    try:
        found = await _ask_about(cluster, group, ApiRequest(requests.DESCRIBE_GROUPS, {"groups": [group]}))
    except BrokerRefused as error:
        if error.error is not ErrorCode.group_id_not_found:
            raise
        return GroupDescription(group, CLASSIC, DEAD, "", "", coordinator, ())
    return GroupDescription(
        group=group,
        type=CLASSIC,
        state=found.group_state,
        protocol_type=found.protocol_type,
        assignor=found.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, found.protocol_type) for member in found.members),
    )


async def _ask_about(cluster: Cluster, group: str, request: ApiRequest) -> Any:
    what = f"describing group {group!r}"
    answer = await ask_coordinator(cluster, CoordinatorKind.GROUP, group, request, _described_error, what)
    return answer.groups[0]


def _described_error(message: Any) -> ErrorCode:
    error: ErrorCode = message.groups[0].error_code
    return error


def _consumer_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        epoch=int(member.member_epoch),
        target_assignment=_partitions(member.target_assignment),
    )


def _partitions(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(str(topic.topic_name), int(number))
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _classic_member(member: Any, protocol_type: str) -> GroupMember:
    is_consumer = protocol_type == CONSUMER_PROTOCOL_TYPE
    return GroupMember(
        member_id=member.member_id,
        instance_id=getattr(member, "group_instance_id", None),
        client_id=member.client_id,
        host=member.client_host,
        assignment=_readable_assignment(member.member_assignment) if is_consumer else frozenset(),
    )


def _readable_assignment(data: bytes) -> frozenset[TopicPartition]:
    """A broker stores whatever the leader of a classic group gave its members; one odd group must not hide the others."""
    try:
        return decode_assignment(data)
    except WireError:
        return frozenset()


async def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a group that has no members, with its offsets. Raises BrokerRefused or RetriesExhausted."""
    request = ApiRequest(requests.DELETE_GROUPS, {"groups_names": [group]})
    what = f"deleting group {group!r}"
    await ask_coordinator(cluster, CoordinatorKind.GROUP, group, request, _deleted_error, what)


def _deleted_error(message: Any) -> ErrorCode:
    error: ErrorCode = message.results[0].error_code
    return error


async def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Forget what a group has committed in topics that no member reads.

    Raises BrokerRefused for the first partition that was refused, or RetriesExhausted.
    """
    topics = [
        {"name": topic, "partitions": [{"partition_index": item.partition} for item in items]}
        for topic, items in by_topic(partitions).items()
    ]
    request = ApiRequest(requests.OFFSET_DELETE, {"group_id": group, "topics": topics})
    what = f"deleting offsets of group {group!r}"
    answer = await ask_coordinator(cluster, CoordinatorKind.GROUP, group, request, lambda m: m.error_code, what)
    for topic in answer.topics:
        for item in topic.partitions:
            if item.error_code is not ErrorCode.none:
                where = f"{what} in {topic.name}-{item.partition_index}"
                raise refused(request, item.error_code, where, topic=topic.name)

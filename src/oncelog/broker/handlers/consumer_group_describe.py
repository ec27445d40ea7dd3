"""ConsumerGroupDescribe v0-1: consumer groups, their members, and what these have and are to have (KIP-848).

v1 which protocol a member follows.
"""

from __future__ import annotations

from typing import Any

from oncelog.broker.coordinators.memberships import Memberships
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.features import FinalizedFeatures
from oncelog.broker.handlers.describe_groups import EVERY_OPERATION, NOT_ASKED_FOR
from oncelog.broker.request import Request
from oncelog.broker.slices import Turn
from oncelog.environment import Clock
from oncelog.groups.consumer import DescribedConsumer, DescribedTopic
from oncelog.wire import ErrorCode, construct

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def handle(
    request: Request, clock: Clock, features: FinalizedFeatures, memberships: Memberships, offsets: CommittedOffsets
) -> Any:
    groups = await Turn(clock).each(
        request.body.group_ids, lambda group: _group(features, memberships, offsets, request, group)
    )
    return request.answer(groups=groups)


def _group(
    features: FinalizedFeatures, memberships: Memberships, offsets: CommittedOffsets, request: Request, name: str
) -> Any:
    if not (memberships.serves_consumer_groups and features.has_consumer_groups):
        return _refused(request, name, ErrorCode.unsupported_version, None)
    error = offsets.error(name)
    if error is not ErrorCode.none:
        return _refused(request, name, error, None)
    found = offsets.coordinator.members.describe_consumers(name)
    if found is None:
        return _refused(request, name, ErrorCode.group_id_not_found, f"Group {name} not found.")
    return request.types.DescribedGroup(
        error_code=ErrorCode.none,
        group_id=name,
        group_state=found.state,
        group_epoch=found.epoch,
        assignment_epoch=found.target_epoch,
        assignor_name=found.assignor,
        members=tuple(_member(request.types, member) for member in found.members),
        authorized_operations=EVERY_OPERATION if request.body.include_authorized_operations else NOT_ASKED_FOR,
    )


def _refused(request: Request, name: str, error: ErrorCode, message: str | None) -> Any:
    return request.types.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=name,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
        authorized_operations=NOT_ASKED_FOR,
    )


def _member(types: Any, described: DescribedConsumer) -> Any:
    member, said = described.member, described.member.subscription
    return construct(
        types.Member,
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack,
        member_epoch=member.progress.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=tuple(sorted(said.topics)),
        subscribed_topic_regex=said.regex,
        assignment=_assignment(types, described.assignment),
        target_assignment=_assignment(types, described.target),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(types: Any, topics: tuple[DescribedTopic, ...]) -> Any:
    return types.Assignment(
        topic_partitions=tuple(
            types.TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=topic.partitions)
            for topic in topics
        )
    )

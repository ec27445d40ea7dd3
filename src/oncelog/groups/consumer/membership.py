"""The members of every consumer group (KIP-848): heartbeats, leaving, and session timeouts.

It keeps the contract of `coordination/decision.py`. Deadlines are in memory alone: a decision changes a draft of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from uuid import UUID

from oncelog.coordination import Decision
from oncelog.groups.classic import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from oncelog.groups.consumer.assignment import Assignment
from oncelog.groups.consumer.classic_members import ClassicMembers, JoinDecision
from oncelog.groups.consumer.group import ConsumerGroup, ConsumerGroupDescription, describe_consumers
from oncelog.groups.consumer.group_change import GroupChange
from oncelog.groups.consumer.heartbeat import HeartbeatAnswer, HeartbeatRequest, Refusal, problem
from oncelog.groups.consumer.member import (
    NO_TIMEOUT,
    STATIC_LEAVING_EPOCH,
    ConsumerGroupMember,
    Subscription,
)
from oncelog.groups.consumer.records import (
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    MemberRecord,
    PartitionMetadataTombstone,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
)
from oncelog.groups.consumer.state import UNREVOKED_PARTITIONS
from oncelog.groups.consumer.volatile_state import VolatileState
from oncelog.groups.context import KnownTopics, LimitsOfGroups, Timestamps
from oncelog.wire import ErrorCode

HeartbeatDecision = Decision[ConsumerRecord, HeartbeatAnswer]


class ConsumerMembership:
    """`groups` is what the log says, `_live` what is known beyond that while the broker lives."""

    __slots__ = ("_limits", "_live", "_topics", "groups")

    def __init__(self, limits: LimitsOfGroups, topics: KnownTopics) -> None:
        self._limits = limits
        self._topics = topics
        self._live: dict[str, VolatileState] = {}
        self.groups: dict[str, ConsumerGroup] = {}

    # --- what the log says

    def replay(self, record: ConsumerRecord) -> None:
        group = self.groups.get(record.group)
        if group is None:
            if is_tombstone(record):
                return
            group = self.groups[record.group] = ConsumerGroup(record.group)
        if isinstance(record, GroupEpochRecord) and record.epoch is None:
            assert not group.members, (group.name, "ends with members")
            del self.groups[group.name]
            self._live.pop(group.name, None)
        else:
            apply(group, record)

    def loaded(self, names: Iterable[str], now: Timestamps) -> None:
        """After these groups were replayed: every member has its whole time again."""
        for group in [self.groups[name] for name in names if name in self.groups]:
            live = self._live[group.name] = self._begun(group, now)
            for member in group.members.values():
                if member.progress.state is UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
                    live.revocations[member.member_id] = now.steady_ms + member.subscription.rebalance_timeout_ms

    def unload(self, name: str) -> None:
        self.groups.pop(name, None)
        self._live.pop(name, None)

    def describe(self, group: ConsumerGroup) -> ConsumerGroupDescription:
        return describe_consumers(group, self._topics, self._limits.of(group.name).assignors[0])

    def _draft(self, name: str) -> VolatileState:
        live = self._live.get(name)
        return VolatileState() if live is None else live.draft()

    def _remembering(self, name: str, live: VolatileState) -> Callable[[], None]:
        """Returns the call that replaces the deadlines with the copy on which a decision was made."""

        def remember() -> None:
            live.keep()
            self._live[name] = live

        return remember

    def _begun(self, group: ConsumerGroup, now: Timestamps) -> VolatileState:
        """Every member has its whole time."""
        live = VolatileState()
        for member in group.members.values():
            live.sessions[member.member_id] = now.steady_ms + self._session_timeout_ms(group, member)
        return live

    def _session_timeout_ms(self, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
        classic = member.subscription.classic
        return self._limits.of(group.name).session_timeout_ms if classic is None else classic.session_timeout_ms

    # --- what members ask

    def problem(self, request: HeartbeatRequest) -> Refusal | None:
        """The refusal of a request that any group would refuse."""
        return problem(request, self._limits.of(request.group).assignors)

    def no_such_group(self, name: str) -> Refusal:
        return Refusal(ErrorCode.group_id_not_found, f"there is no consumer group {name}")

    def heartbeat(
        self, request: HeartbeatRequest, group: ConsumerGroup, now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> HeartbeatDecision:
        """ConsumerGroupHeartbeat, of a member that joins or stays, and has been found to be well-formed.

        Errors: unknown_member_id, fenced_member_epoch, fenced_instance_id, unreleased_instance_id,
        group_max_size_reached, invalid_regular_expression.
        """
        return self._heartbeat(request, group, self._draft(group.name), now, new_uuid)

    def first_heartbeat(
        self,
        request: HeartbeatRequest,
        made: Iterable[ConsumerRecord],
        now: Timestamps,
        new_uuid: Callable[[], UUID],
    ) -> HeartbeatDecision:
        """The heartbeat that begins a group, which is `made` of a classic one: its members have their whole time."""
        group = ConsumerGroup(request.group)
        for record in made:
            apply(group, record)
        return self._heartbeat(request, group, self._begun(group, now), now, new_uuid)

    def _heartbeat(
        self,
        request: HeartbeatRequest,
        group: ConsumerGroup,
        live: VolatileState,
        now: Timestamps,
        new_uuid: Callable[[], UUID],
    ) -> HeartbeatDecision:
        assert not request.is_leaving
        limits = self._limits.of(group.name)
        if self._is_full(group, request.member_id):
            text = f"the group has {limits.size_max} members, and takes no more"
            return _refused(Refusal(ErrorCode.group_max_size_reached, text))
        turn = GroupChange(group, live, self._topics, limits, now)
        before = _member_of(turn, group, request, request.member_id or _text(new_uuid()))
        if isinstance(before, Refusal):
            return _refused(before)
        after = turn.advance(before, replace(before, subscription=_subscription(before, request)), request.owned)
        if isinstance(after, Refusal):
            return _refused(after)
        live.sessions[after.member_id] = now.steady_ms + limits.session_timeout_ms
        is_told = request.is_joining or request.is_full or after.progress.owned != before.progress.owned
        answer = HeartbeatAnswer(
            member_id=after.member_id,
            member_epoch=after.progress.epoch,
            heartbeat_interval_ms=limits.heartbeat_interval_ms,
            assignment=frozenset(after.progress.owned) if is_told else None,
        )
        return Decision(tuple(turn.records), answer, self._remembering(group.name, live))

    def _is_full(self, group: ConsumerGroup, member_id: str) -> bool:
        return len(group.members) >= self._limits.of(group.name).size_max and member_id not in group.members

    def leaving(self, request: HeartbeatRequest, group: ConsumerGroup) -> ConsumerGroupMember | Refusal:
        """The member that leaves, for a while or for good. Errors: unknown_member_id, fenced_instance_id."""
        return _existing(group, request)

    def leave_for_a_while(
        self, group: ConsumerGroup, member: ConsumerGroupMember, now: Timestamps
    ) -> Decision[ConsumerRecord, None]:
        """KIP-848: a static member that will be back; what it has is kept as long as its session lasts."""
        left = member.progress.temporarily_left()
        live = self._draft(group.name)
        live.revocations.forget(member.member_id)
        record = CurrentAssignmentRecord(group.name, member.member_id, left, now.wall_ms)
        return Decision((record,), None, self._remembering(group.name, live))

    def remove(
        self, group: ConsumerGroup, members: Collection[ConsumerGroupMember], now: Timestamps
    ) -> Decision[ConsumerRecord, None]:
        """Take members out of a group."""
        change = self._change(group, now)
        change.remove(members)
        return Decision(tuple(change.records), None, self._remembering(group.name, change.live))

    # --- what members of the classic protocol ask

    def classic_join(
        self, request: JoinRequest, group: ConsumerGroup, now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> JoinDecision:
        """JoinGroup. Errors: group_max_size_reached, and those of ClassicMembers.join."""
        if self._is_full(group, request.member_id):
            return Decision((), JoinAnswer(ErrorCode.group_max_size_reached))
        change = self._change(group, now)
        members = ClassicMembers(group, change.live, self._topics)
        decision = members.join(request, change, now, lambda: _text(new_uuid()))
        if decision.answer.error is not ErrorCode.none:
            return decision
        return decision._replace(remember=self._remembering(group.name, change.live))

    def classic_sync(
        self, request: SyncRequest, group: ConsumerGroup, now: Timestamps
    ) -> Decision[ConsumerRecord, SyncAnswer]:
        """SyncGroup. Errors: those of ClassicMembers.sync."""
        live = self._draft(group.name)
        answer = ClassicMembers(group, live, self._topics).sync(request, now)
        return Decision((), answer, self._remembering(group.name, live))

    def classic_heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Timestamps
    ) -> Decision[ConsumerRecord, ErrorCode]:
        """Heartbeat. Errors: those of ClassicMembers.heartbeat."""
        live = self._draft(group.name)
        answer = ClassicMembers(group, live, self._topics).heartbeat(member_id, instance_id, generation, now)
        return Decision((), answer, self._remembering(group.name, live))

    def _change(self, group: ConsumerGroup, now: Timestamps) -> GroupChange:
        return GroupChange(group, self._draft(group.name), self._topics, self._limits.of(group.name), now)

    # --- what time brings

    def next_deadline_ms(self, name: str) -> float | None:
        live = self._live.get(name)
        return None if live is None else live.next_deadline_ms()

    def look_at_deadlines(self, name: str) -> None:
        self._live[name].look_at_deadlines()

    def expired(self, name: str, now: Timestamps) -> list[ConsumerGroupMember]:
        """Members that were silent, or kept what is another's, for too long."""
        live = self._live[name]
        due = live.due(now.steady_ms)
        return [member for member_id, member in self.groups[name].members.items() if member_id in due]


def apply(group: ConsumerGroup, record: ConsumerRecord) -> None:
    """Make true what a record says of this group."""
    match record:
        case GroupEpochRecord():
            group.replay_epoch(record)
        case MemberRecord():
            group.replay_member(record)
        case TargetEpochRecord():
            group.replay_target_epoch(record)
        case TargetRecord():
            group.replay_target(record)
        case CurrentAssignmentRecord():
            group.replay_current(record)
        case RegexRecord():
            group.replay_regex(record)
        case PartitionMetadataTombstone():
            pass


def is_tombstone(record: ConsumerRecord) -> bool:
    match record:
        case GroupEpochRecord(epoch=None) | TargetEpochRecord(epoch=None) | PartitionMetadataTombstone():
            return True
        case MemberRecord(subscription=None) | TargetRecord(target=None):
            return True
        case CurrentAssignmentRecord(progress=None) | RegexRecord(resolved=None):
            return True
    return False


def _refused(refusal: Refusal) -> HeartbeatDecision:
    return Decision((), refusal.answer)


def _text(uuid: UUID) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def _member_of(
    turn: GroupChange, group: ConsumerGroup, request: HeartbeatRequest, member_id: str
) -> ConsumerGroupMember | Refusal:
    """The member that sends this heartbeat: a known one, or one that joins with it."""
    if not request.is_joining:
        found = _existing(group, request)
        return found if isinstance(found, Refusal) else _fenced(found, request) or found
    kept = group.static_member(request.instance_id)
    if kept is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if not kept.uses_classic_protocol and kept.progress.epoch != STATIC_LEAVING_EPOCH:
        text = f"the instance id {request.instance_id} is that of member {kept.member_id}, who has not left"
        return Refusal(ErrorCode.unreleased_instance_id, text)
    return turn.replace_static(kept, member_id)


def _existing(group: ConsumerGroup, request: HeartbeatRequest) -> ConsumerGroupMember | Refusal:
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            return Refusal(ErrorCode.unknown_member_id, f"{request.member_id} is no member of group {group.name}")
        return member
    owner = group.static_member(request.instance_id)
    if owner is None:
        return Refusal(ErrorCode.unknown_member_id, f"nobody in group {group.name} is {request.instance_id}")
    if owner.member_id != request.member_id:
        text = f"{request.instance_id} is member {owner.member_id} now, and no more {request.member_id}"
        return Refusal(ErrorCode.fenced_instance_id, text)
    return owner


def _fenced(member: ConsumerGroupMember, request: HeartbeatRequest) -> Refusal | None:
    """KIP-848: the epoch has to be the member's; or the one before, of a member that has not heard of the last answer."""
    progress, epoch = member.progress, request.member_epoch
    if epoch == progress.epoch:
        return None
    if epoch < progress.epoch and epoch == progress.previous_epoch and _is_within(request.owned, progress.owned):
        return None
    relation = "greater" if epoch > progress.epoch else "smaller"
    text = f"member epoch {epoch} is {relation} than {progress.epoch}: give up all partitions and join again"
    return Refusal(ErrorCode.fenced_member_epoch, text)


def _is_within(reported: Assignment | None, owned: Iterable[object]) -> bool:
    return reported is not None and reported <= set(owned)


def _subscription(before: ConsumerGroupMember, request: HeartbeatRequest) -> Subscription:
    """The member's subscription from now on: the fields of the request, and the earlier ones where it has none."""
    said = before.subscription
    timeout_ms = request.rebalance_timeout_ms
    return Subscription(
        instance_id=said.instance_id if request.instance_id is None else request.instance_id,
        rack=said.rack if request.rack is None else request.rack,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=said.topics if request.topics is None else frozenset(request.topics),
        regex=said.regex if request.regex is None else request.regex,
        rebalance_timeout_ms=said.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        assignor=said.assignor if request.assignor is None else request.assignor,
    )

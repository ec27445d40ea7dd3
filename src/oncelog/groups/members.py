"""The members of every group, whichever protocol they follow, and which protocol a group follows.

Routes each request to the protocol that its group follows: `classic/` or `consumer/`. An empty group follows the
next member that joins it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from uuid import UUID

from oncelog.coordination import Decision, Promise
from oncelog.groups.classic import (
    ClassicGroup,
    ClassicMembership,
    GroupAnswer,
    GroupMetadataRecord,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembershipLimits,
    PendingResponse,
    SyncAnswer,
    SyncRequest,
)
from oncelog.groups.context import KnownTopics, LimitsOfGroups, MigrationPolicy, Timestamps
from oncelog.groups.records import GroupRecord
from oncelog.wire import ErrorCode

if TYPE_CHECKING:
    from oncelog.groups.consumer import (
        ConsumerGroup,
        ConsumerGroupDescription,
        ConsumerGroupMember,
        ConsumerMembership,
        ConsumerRecord,
        HeartbeatAnswer,
        HeartbeatRequest,
    )

Group: TypeAlias = "ClassicGroup | ConsumerGroup"
MembersDecision: TypeAlias = Decision[GroupRecord, tuple[PendingResponse, ...]]
"""Its answers are given once its records are written and replayed."""

A = TypeVar("A", bound=GroupAnswer)

_NONE = ErrorCode.none


class Members:
    """`classic` has the groups of the classic protocol; the others are there from the first of them on."""

    __slots__ = ("_consumer_limits", "_consumers", "_topics", "classic")

    def __init__(self, limits: MembershipLimits | None, consumer_limits: LimitsOfGroups, topics: KnownTopics) -> None:
        self.classic = ClassicMembership(limits)
        self._consumer_limits = consumer_limits
        self._topics = topics
        self._consumers: ConsumerMembership | None = None

    @property
    def consumers(self) -> ConsumerMembership:
        if self._consumers is None:
            # Imported with the first of its kind: a broker that starts without one is there sooner.
            from oncelog.groups.consumer import ConsumerMembership

            self._consumers = ConsumerMembership(self._consumer_limits, self._topics)
        return self._consumers

    # --- the groups

    def find(self, name: str) -> Group | None:
        return self.consumer_group(name) or self.classic.find(name)

    def consumer_group(self, name: str) -> ConsumerGroup | None:
        return None if self._consumers is None else self._consumers.groups.get(name)

    def groups(self) -> Iterator[Group]:
        yield from self.classic.groups()
        if self._consumers is not None:
            yield from self._consumers.groups.values()

    def names(self) -> tuple[str, ...]:
        consumers = () if self._consumers is None else self._consumers.groups
        return (*self.classic.recorded, *consumers)

    def describe_consumers(self, name: str) -> ConsumerGroupDescription | None:
        group = self.consumer_group(name)
        return None if group is None else self.consumers.describe(group)

    # --- what the log says

    def replay(self, record: GroupMetadataRecord | ConsumerRecord) -> None:
        if isinstance(record, GroupMetadataRecord):
            self.classic.replay(record)
            return
        self.consumers.replay(record)
        if record.group in self.consumers.groups:
            # Offsets that were committed for it are in the log before it, and made a group without members.
            self.classic.recorded.pop(record.group, None)

    def replay_offsets_of(self, name: str) -> None:
        if self.consumer_group(name) is None:
            self.classic.replay_offsets_of(name)

    def loaded(self, names: Collection[str], now: Timestamps) -> None:
        """These groups are replayed to the end: from now on their members have to send heartbeats."""
        self.classic.loaded(names, now)
        if self._consumers is not None:
            self._consumers.loaded(names, now)

    # --- the consumer protocol

    def consumer_heartbeat(
        self, request: HeartbeatRequest, reply: Promise[HeartbeatAnswer], now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> MembersDecision:
        """ConsumerGroupHeartbeat.

        Errors: invalid_request, unsupported_assignor, group_id_not_found, and those of ConsumerMembership.heartbeat.
        """
        problem = self.consumers.problem(request)
        if problem is not None:
            return Decision((), (PendingResponse(reply, problem.answer),))
        group = self.consumer_group(request.group)
        if group is not None and request.is_leaving:
            return self._consumer_leaves(request, group, reply, now)
        if group is not None:
            return _answered(reply, self.consumers.heartbeat(request, group, now, new_uuid))
        return self._consumer_begins(request, reply, now, new_uuid)

    def _consumer_begins(
        self, request: HeartbeatRequest, reply: Promise[HeartbeatAnswer], now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> MembersDecision:
        """There is no consumer group: who joins makes one, of the classic group if one is there."""
        classic = self.classic.find(request.group)
        made: tuple[ConsumerRecord, ...] | None = ()
        if classic is not None and classic.check_delete() is not _NONE:
            made = self._upgraded(classic, now)
        if not request.is_joining or made is None:
            return Decision((), (PendingResponse(reply, self.consumers.no_such_group(request.group).answer),))
        decision = _answered(reply, self.consumers.first_heartbeat(request, made, now, new_uuid))
        if classic is None or not decision.records:
            return decision
        handed_over = self.classic.hand_over(classic, now)
        records = (*handed_over.records, *made, *decision.records)
        return Decision(records, (*handed_over.answer, *decision.answer), decision.remember)

    def _upgraded(self, classic: ClassicGroup, now: Timestamps) -> tuple[ConsumerRecord, ...] | None:
        """The records of a classic group as a consumer group, or None if it must not or cannot be one."""
        limits = self._consumer_limits.of(classic.name)
        if not limits.migration.allows_upgrade or len(classic.members) > limits.size_max:
            return None
        from oncelog.groups.migration import upgraded

        return upgraded(classic, self._topics, now.wall_ms)

    def _consumer_leaves(
        self, request: HeartbeatRequest, group: ConsumerGroup, reply: Promise[HeartbeatAnswer], now: Timestamps
    ) -> MembersDecision:
        from oncelog.groups.consumer import HeartbeatAnswer, Refusal

        member = self.consumers.leaving(request, group)
        if isinstance(member, Refusal):
            return Decision((), (PendingResponse(reply, member.answer),))
        answer = HeartbeatAnswer(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is not None and request.will_be_back:
            return _with_answers(self.consumers.leave_for_a_while(group, member, now), PendingResponse(reply, answer))
        decision = self._remove(group, [member], now)
        return _with_answers(decision, *decision.answer, PendingResponse(reply, answer))

    def _remove(self, group: ConsumerGroup, leaving: list[ConsumerGroupMember], now: Timestamps) -> MembersDecision:
        """Take members out. If only members of the classic protocol stay, the group follows that."""
        if not leaving:
            return Decision((), ())
        return self._downgrade(group, leaving, now) or _with_answers(self.consumers.remove(group, leaving, now))

    def _downgrade(
        self, group: ConsumerGroup, leaving: list[ConsumerGroupMember], now: Timestamps
    ) -> MembersDecision | None:
        staying = len(group.members) - len(leaving)
        migration = self._consumer_limits.of(group.name).migration
        if not migration.allows_downgrade or not 0 < staying <= self.classic.size_max:
            return None
        from oncelog.groups.migration import downgraded

        metadata = downgraded(group, [member.member_id for member in leaving], self._topics, now.wall_ms)
        if metadata is None:
            return None
        adopted = self.classic.adopt(group.name, metadata, now)
        return Decision((*group.end(now.wall_ms), *adopted.records), adopted.answer, adopted.remember)

    # --- the classic protocol

    def join(
        self, request: JoinRequest, reply: Promise[JoinAnswer], now: Timestamps, new_uuid: Callable[[], UUID]
    ) -> MembersDecision:
        """JoinGroup. Errors: those of ClassicMembership.join and ConsumerMembership.classic_join."""
        group = self.consumer_group(request.group)
        if group is None or self.classic.join_problem(request) is not _NONE:
            return self.classic.join(request, reply, now, new_uuid)
        if group.members:
            return self._join_consumers(group, request, reply, now, new_uuid)
        decision = self.classic.join(request, reply, now, new_uuid)
        if not decision.records:
            return decision
        return Decision((*group.end(now.wall_ms), *decision.records), decision.answer, decision.remember)

    def _join_consumers(
        self,
        group: ConsumerGroup,
        request: JoinRequest,
        reply: Promise[JoinAnswer],
        now: Timestamps,
        new_uuid: Callable[[], UUID],
    ) -> MembersDecision:
        if self._consumer_limits.of(group.name).migration is MigrationPolicy.DISABLED:
            answer = JoinAnswer(ErrorCode.inconsistent_group_protocol, request.member_id)
            return Decision((), (PendingResponse(reply, answer),))
        return _answered(reply, self.consumers.classic_join(request, group, now, new_uuid))

    def sync(self, request: SyncRequest, reply: Promise[SyncAnswer], now: Timestamps) -> MembersDecision:
        group = self.consumer_group(request.group)
        if group is None:
            return self.classic.sync(request, reply, now)
        return _answered(reply, self.consumers.classic_sync(request, group, now))

    def heartbeat(
        self, group_name: str, member_id: str, instance_id: str | None, generation: int, now: Timestamps
    ) -> Decision[GroupRecord, ErrorCode]:
        group = self.consumer_group(group_name)
        if group is None:
            return self.classic.heartbeat(group_name, member_id, instance_id, generation, now)
        return self.consumers.classic_heartbeat(group, member_id, instance_id, generation, now)

    def leave(
        self, group_name: str, leaving: Sequence[Leaving], reply: Promise[LeaveAnswer], now: Timestamps
    ) -> MembersDecision:
        """LeaveGroup, with which an administrator takes members out of a group of either kind."""
        group = self.consumer_group(group_name)
        if group is None:
            return self.classic.leave(group_name, leaving, reply, now)
        found = [_leaving(group, one) for one in leaving]
        members = {one.member_id: one for one in found if not isinstance(one, ErrorCode)}
        errors = tuple(one if isinstance(one, ErrorCode) else _NONE for one in found)
        decision = self._remove(group, list(members.values()), now)
        return _with_answers(decision, *decision.answer, PendingResponse(reply, LeaveAnswer(errors)))

    # --- what time brings

    def next_deadline_ms(self, name: str) -> float | None:
        """The steady time before which `expire` has nothing to do for this group."""
        if self.consumer_group(name) is None:
            return self.classic.next_deadline_ms(name)
        return self.consumers.next_deadline_ms(name)

    def expire(self, name: str, now: Timestamps) -> MembersDecision:
        """Do what is due. Call it again while the next deadline has passed."""
        group = self.consumer_group(name)
        if group is None:
            return self.classic.expire(name, now)
        expired = self.consumers.expired(name, now)
        if not expired:
            # Heartbeats have moved the deadline away, or whose it was has left.
            return Decision((), (), partial(self.consumers.look_at_deadlines, name))
        return self._remove(group, expired, now)

    def unload(self, name: str, now: Timestamps) -> tuple[PendingResponse, ...]:
        """Nobody coordinates the group here any more: forget it. What those of its members hear who wait."""
        if self._consumers is not None:
            self._consumers.unload(name)
        return self.classic.unload(name, now)

    def every_name(self) -> frozenset[str]:
        """The names of all groups, with those that have no record yet."""
        return self.classic.names().union(() if self._consumers is None else self._consumers.groups)


def _answered(reply: Promise[A], decision: Decision[ConsumerRecord, A]) -> MembersDecision:
    return _with_answers(decision, PendingResponse(reply, decision.answer))


def _with_answers(decision: Decision[GroupRecord, object], *answers: PendingResponse) -> MembersDecision:
    return Decision(decision.records, answers, decision.remember)


def _leaving(group: ConsumerGroup, leaving: Leaving) -> ConsumerGroupMember | ErrorCode:
    if leaving.instance_id is None:
        return group.members.get(leaving.member_id) or ErrorCode.unknown_member_id
    member = group.static_member(leaving.instance_id)
    if member is None:
        return ErrorCode.unknown_member_id
    return member if leaving.member_id in ("", member.member_id) else ErrorCode.fenced_instance_id

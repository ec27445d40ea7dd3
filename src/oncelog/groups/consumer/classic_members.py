"""Members of a consumer group that follow the classic protocol: what they ask is translated (KIP-848, "online migration").

A generation is a member epoch. JoinGroup is answered at once, and by nobody but the coordinator; the assignment that
SyncGroup is answered with is the coordinator's; a Heartbeat is told to join again where the member has a step to take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from oncelog.coordination import Decision
from oncelog.groups.classic import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from oncelog.groups.consumer.embedded import assignment_of, by_id, read_subscription
from oncelog.groups.consumer.group import ConsumerGroup
from oncelog.groups.consumer.group_change import GroupChange
from oncelog.groups.consumer.heartbeat import Refusal
from oncelog.groups.consumer.member import ClassicFacts, ConsumerGroupMember
from oncelog.groups.consumer.records import ConsumerRecord
from oncelog.groups.consumer.state import UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from oncelog.groups.consumer.volatile_state import VolatileState
from oncelog.groups.timestamps import Timestamps
from oncelog.groups.topics import KnownTopics
from oncelog.wire import ErrorCode

CONSUMER = "consumer"

_NONE = ErrorCode.none

JoinDecision = Decision[ConsumerRecord, JoinAnswer]


class ClassicMembers:
    """Those of one group."""

    __slots__ = ("_group", "_live", "_topics")

    def __init__(self, group: ConsumerGroup, live: VolatileState, topics: KnownTopics) -> None:
        self._group = group
        self._live = live
        self._topics = topics

    def join(self, request: JoinRequest, turn: GroupChange, now: Timestamps, new_id: Callable[[], str]) -> JoinDecision:
        """JoinGroup. Errors: inconsistent_group_protocol, member_id_required, unknown_member_id, fenced_instance_id."""
        subscription = read_subscription(request.protocols[0][1]) if request.protocols else None
        if subscription is None or not self._fits(request):
            return _refused(ErrorCode.inconsistent_group_protocol, request.member_id)
        member_id = request.member_id or new_id()
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return _refused(ErrorCode.member_id_required, member_id)
        before = self._joining(request, turn, member_id)
        if isinstance(before, ErrorCode):
            return _refused(before, request.member_id)
        said = replace(
            before.subscription,
            instance_id=request.instance_id or before.subscription.instance_id,
            rack=subscription.rack or before.subscription.rack,
            client_id=request.client_id,
            client_host=request.client_host,
            topics=subscription.topics,
            regex="",
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            classic=ClassicFacts(request.session_timeout_ms, request.protocols),
        )
        after = turn.advance(before, replace(before, subscription=said), by_id(subscription.owned, self._topics))
        if isinstance(after, Refusal):
            return _refused(after.error, request.member_id)
        self._live.joins.forget(after.member_id)
        self._live.syncs[after.member_id] = now.steady_ms + request.rebalance_timeout_ms
        self._live.sessions[after.member_id] = now.steady_ms + request.session_timeout_ms
        answer = JoinAnswer(_NONE, after.member_id, after.progress.epoch, CONSUMER, request.protocols[0][0])
        return Decision(tuple(turn.records), answer)

    def _fits(self, request: JoinRequest) -> bool:
        """Whether there is a protocol that every member of the classic kind can do."""
        kinds = [member.subscription.classic for member in self._group.members.values()]
        classic = [kind for kind in kinds if kind is not None]
        supporters = Counter(name for kind in classic for name, _ in kind.protocols)
        return request.protocol_type == CONSUMER and any(
            supporters[name] == len(classic) for name, _ in request.protocols
        )

    def _joining(self, request: JoinRequest, turn: GroupChange, member_id: str) -> ConsumerGroupMember | ErrorCode:
        if request.instance_id is None:
            return self._group.members.get(member_id) or ConsumerGroupMember(member_id)
        kept = self._group.static_member(request.instance_id)
        if request.member_id:
            return self._named(request.member_id, request.instance_id)
        return ConsumerGroupMember(member_id) if kept is None else turn.replace_static(kept, member_id)

    def sync(self, request: SyncRequest, now: Timestamps) -> SyncAnswer:
        """SyncGroup. Errors: unknown_member_id, fenced_instance_id, illegal_generation, inconsistent_group_protocol,
        rebalance_in_progress.
        """
        member = self._checked(request.member_id, request.instance_id, request.generation)
        if isinstance(member, ErrorCode):
            return SyncAnswer(member)
        classic = member.subscription.classic
        assert classic is not None
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, name):
            return SyncAnswer(ErrorCode.inconsistent_group_protocol)
        if self._group.target_epoch.epoch > member.progress.epoch and member.progress.state is not UNREVOKED_PARTITIONS:
            self._must_join_again(member, now)
            return SyncAnswer(ErrorCode.rebalance_in_progress)
        self._live.syncs.forget(member.member_id)
        self._live.sessions[member.member_id] = now.steady_ms + classic.session_timeout_ms
        subscription = read_subscription(metadata)
        version = 0 if subscription is None else subscription.version
        assignment = assignment_of(version, frozenset(member.progress.owned), self._topics)
        return SyncAnswer(_NONE, request.protocol_type, request.protocol, assignment)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Timestamps) -> ErrorCode:
        """Heartbeat. Errors: those of sync."""
        member = self._checked(member_id, instance_id, generation)
        if isinstance(member, ErrorCode):
            return member
        classic = member.subscription.classic
        assert classic is not None
        self._live.sessions[member_id] = now.steady_ms + classic.session_timeout_ms
        if not self._has_a_step_to_take(member):
            return _NONE
        self._must_join_again(member, now)
        return ErrorCode.rebalance_in_progress

    def _has_a_step_to_take(self, member: ConsumerGroupMember) -> bool:
        progress = member.progress
        if progress.epoch < self._group.target_epoch.epoch or progress.state is UNREVOKED_PARTITIONS:
            return True
        target = self._group.target.get(member.member_id, frozenset())
        missing = (partition for partition in target if partition not in progress.owned)
        return progress.state is UNRELEASED_PARTITIONS and all(
            partition not in self._group.owners for partition in missing
        )

    def _must_join_again(self, member: ConsumerGroupMember, now: Timestamps) -> None:
        if member.member_id not in self._live.joins:
            self._live.joins[member.member_id] = now.steady_ms + member.subscription.rebalance_timeout_ms

    def _checked(self, member_id: str, instance_id: str | None, generation: int) -> ConsumerGroupMember | ErrorCode:
        member = self._named(member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        if not member.uses_classic_protocol:
            return ErrorCode.unknown_member_id
        return member if generation == member.progress.epoch else ErrorCode.illegal_generation

    def _named(self, member_id: str, instance_id: str | None) -> ConsumerGroupMember | ErrorCode:
        if instance_id is None:
            return self._group.members.get(member_id) or ErrorCode.unknown_member_id
        member = self._group.static_member(instance_id)
        if member is None:
            return ErrorCode.unknown_member_id
        return member if member.member_id == member_id else ErrorCode.fenced_instance_id


def _refused(error: ErrorCode, member_id: str) -> JoinDecision:
    return Decision((), JoinAnswer(error, member_id))

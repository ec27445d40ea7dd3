"""Members of a consumer group that follow the classic protocol: their requests are translated (KIP-848, "online migration").

A generation is a member epoch. The coordinator answers JoinGroup at once, and SyncGroup with its own assignment. A Heartbeat
is answered REBALANCE_IN_PROGRESS when the member has a step to take.

subscription    int16 version, string[] topics, bytes? user data, v1 (string topic, int32[] partitions)[] owned,
                v2 int32 generation, v3 string? rack
assignment      int16 version, (string topic, int32[] partitions)[], bytes? user data
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from oncelog.coordination import Decision
from oncelog.coordination.fields import FieldReader, string
from oncelog.groups.classic import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from oncelog.groups.consumer.assignment import Assignment, by_topic
from oncelog.groups.consumer.group import ConsumerGroup
from oncelog.groups.consumer.group_change import GroupChange
from oncelog.groups.consumer.heartbeat import Refusal
from oncelog.groups.consumer.member import ClassicFacts, ConsumerGroupMember
from oncelog.groups.consumer.records import ConsumerRecord
from oncelog.groups.consumer.state import UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from oncelog.groups.consumer.volatile_state import VolatileState
from oncelog.groups.context import KnownTopics, Timestamps
from oncelog.wire import ErrorCode, WireError

OWNED_VERSION, GENERATION_VERSION, RACK_VERSION = 1, 2, 3

_VERSION_AND_COUNT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
T = TypeVar("T")
Named = tuple[tuple[str, int], ...]
"""Partitions by the names of their topics."""


@dataclass(frozen=True, slots=True)
class EmbeddedSubscription:
    version: int
    topics: frozenset[str]
    owned: Named = ()
    rack: str | None = None


def read_subscription(data: bytes) -> EmbeddedSubscription | None:
    """The subscription; None if the bytes are none."""
    value = FieldReader(data)
    try:
        version, topics = value.int16(), frozenset(_array(value, value.string))
        _user_data(value)
        owned = _read_named(value) if version >= OWNED_VERSION else ()
        if version >= GENERATION_VERSION:
            value.int32()
        rack = value.nullable_string() if version >= RACK_VERSION else None
    except WireError:
        return None
    return EmbeddedSubscription(version, topics, owned, rack or None)


def read_assignment(data: bytes) -> Named | None:
    """The assignment; None if the bytes are none, or if the assignor says more than the partitions."""
    if not data:
        return ()
    value = FieldReader(data)
    try:
        value.int16()
        named = _read_named(value)
        return None if _user_data(value) else named
    except WireError:
        return None


def write_assignment(version: int, partitions: Iterable[tuple[str, list[int]]]) -> bytes:
    named = list(partitions)
    parts = [_VERSION_AND_COUNT.pack(version, len(named))]
    for topic, indexes in named:
        parts += (string(topic), _INT32.pack(len(indexes)), *map(_INT32.pack, indexes))
    return b"".join((*parts, _INT32.pack(-1)))


def assignment_of(version: int, assignment: Assignment, topics: KnownTopics) -> bytes:
    """The bytes of an assignment in this version of the protocol. Partitions of deleted topics are left out."""
    named = ((topics.with_id(topic_id), indexes) for topic_id, indexes in by_topic(assignment).items())
    return write_assignment(version, ((topic.name, indexes) for topic, indexes in named if topic is not None))


def by_id(named: Named, topics: KnownTopics) -> Assignment:
    """The partitions of topics that exist."""
    found = ((topics.named(name), index) for name, index in named)
    return frozenset((topic.topic_id, index) for topic, index in found if topic is not None)


def _read_named(value: FieldReader) -> Named:
    def topic() -> list[tuple[str, int]]:
        name = value.string()
        return [(name, index) for index in _array(value, value.int32)]

    return tuple(partition for partitions in _array(value, topic) for partition in partitions)


def _array(value: FieldReader, read: Callable[[], T]) -> list[T]:
    return [read() for _ in range(value.int32())]


def _user_data(value: FieldReader) -> bytes:
    size_bytes = value.int32()
    return value.raw(size_bytes) if size_bytes > 0 else b""


CONSUMER = "consumer"

_NONE = ErrorCode.none

JoinDecision = Decision[ConsumerRecord, JoinAnswer]


class ClassicMembers:
    """The members of the classic protocol in one consumer group."""

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
        """True if every member of the classic protocol supports one of the request's protocols."""
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

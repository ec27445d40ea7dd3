"""A group of the classic protocol, in memory.

The log has the last complete generation (`metadata.py`), and a restart goes on from there. The state between two
generations is here alone: which members have joined again, which of them wait for an answer, and until when.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from typing import NamedTuple, TypeVar

from oncelog.coordination.decision import Draft
from oncelog.groups.classic.member import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroupMember,
    JoinAnswer,
    JoinedMember,
    subscribed_topics,
)
from oncelog.groups.classic.metadata import NO_TIME, GroupMetadataRecord, GroupMetadataValue
from oncelog.groups.classic.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicState,
    is_legal,
)
from oncelog.groups.context import CommitContext, GroupType
from oncelog.wire import ErrorCode

V = TypeVar("V")


class FirstRebalance(NamedTuple):
    """The first members of an empty group are waited for a while: `delay_ms` at a time, `remaining_ms` more at most."""

    delay_ms: int
    remaining_ms: int
    somebody_came: bool = False


class ClassicGroup:
    """One group. Deadlines are steady times, None where nothing is waited for."""

    __slots__ = (
        "_joined_count",
        "_quiet_until_ms",
        "_static",
        "_supporters",
        "first_rebalance",
        "generation",
        "join_deadline_ms",
        "leader",
        "members",
        "name",
        "pending_joins",
        "pending_syncs",
        "protocol",
        "protocol_type",
        "state",
        "state_ms",
        "subscribed_topics",
        "sync_deadline_ms",
    )

    type = GroupType.CLASSIC

    def __init__(self, name: str, metadata: GroupMetadataValue) -> None:
        self.name = name
        self.state = STABLE if metadata.members else EMPTY
        self.generation = metadata.generation
        self.protocol_type = metadata.protocol_type or None
        self.protocol = metadata.protocol
        self.leader = metadata.leader
        self.state_ms = metadata.state_ms
        self.members: MutableMapping[str, ClassicGroupMember] = {}
        self.pending_joins: MutableMapping[str, float] = {}
        """Ids that were given out and not come back with yet (KIP-394), and until when they are kept."""
        self.pending_syncs: MutableMapping[str, None] = {}
        self.first_rebalance: FirstRebalance | None = None
        self.join_deadline_ms: float | None = None
        self.sync_deadline_ms: float | None = None
        self._joined_count = 0
        self._quiet_until_ms = math.inf
        """No deadline of a member, or of an id that was given out, is before this. Heartbeats move theirs away, and not this."""
        self._static: MutableMapping[str, str] = {}
        self._supporters: Counter[str] = Counter()
        for stored in metadata.members:
            self.add(ClassicGroupMember.stored(stored, metadata.protocol))
        self.subscribed_topics = self._topics()

    def draft(self) -> ClassicGroup:
        """For a decision to work on: the group itself stays as it is until the decision is carried out."""
        group = copy(self)
        group.members = _draft_of(self.members)
        group.pending_joins = _draft_of(self.pending_joins)
        group.pending_syncs = _draft_of(self.pending_syncs)
        group._static = _draft_of(self._static)
        group._supporters = self._supporters.copy()
        return group

    def keep(self) -> None:
        """The decision is carried out: the group that it was made on is no more."""
        self.members = _kept(self.members)
        self.pending_joins = _kept(self.pending_joins)
        self.pending_syncs = _kept(self.pending_syncs)
        self._static = _kept(self._static)

    def end(self, now_ms: int) -> tuple[GroupMetadataRecord, ...]:
        """The records that take all of it back."""
        return (GroupMetadataRecord(self.name, None, now_ms),)

    # --- what others ask of any group

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """True if a member may be subscribed to the topic: a group of consumers with unreadable subscriptions may be to
        any.
        """
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def check_commit(self, member: CommitContext, _partitions: Iterable[object], *, in_transaction: bool) -> ErrorCode:
        """Check that offsets may be committed in this member's name (protocol: OffsetCommit; KIP-447 for transactions)."""
        if member.generation < 0 and self.state is EMPTY:
            return ErrorCode.none
        if member.generation >= 0 or member.member_id or member.instance_id is not None:
            error = self.check_member(member.member_id, member.instance_id)
            if error is ErrorCode.none and member.generation != self.generation:
                error = ErrorCode.illegal_generation
            if error is not ErrorCode.none:
                return error
        elif not in_transaction:
            return ErrorCode.unknown_member_id
        if self.state is COMPLETING_REBALANCE and not in_transaction:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def check_fetch(self, _member_id: str | None, _epoch: int) -> ErrorCode:
        """Anybody may fetch offsets."""
        return ErrorCode.none

    def check_delete(self) -> ErrorCode:
        return ErrorCode.none if self.state is EMPTY else ErrorCode.non_empty_group

    def check_offset_delete(self) -> ErrorCode:
        """A group whose members say nothing of topics keeps its offsets while it has members."""
        return ErrorCode.none if self.state is EMPTY or self.uses_consumer_protocol else ErrorCode.non_empty_group

    def retention_start_ms(self, commit_ms: int) -> int | None:
        """The time at which the retention of an offset that was committed at `commit_ms` began; None while it is kept
        (KIP-211).
        """
        if self.protocol_type is None:
            return commit_ms
        if self.state is EMPTY:
            return commit_ms if self.state_ms == NO_TIME else self.state_ms
        if self.state is STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return commit_ms
        return None

    @property
    def is_removable(self) -> bool:
        """True if only offsets keep the group: it has no members, and none is about to join."""
        return self.state is EMPTY and not self.pending_joins

    # --- members

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is None:
                return ErrorCode.unknown_member_id
            if owner != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def static_member(self, instance_id: str | None) -> ClassicGroupMember | None:
        owner = None if instance_id is None else self._static.get(instance_id)
        return None if owner is None else self.members[owner]

    def add(self, member: ClassicGroupMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self._static, (self.name, member.instance_id)
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        self.pending_joins.pop(member.member_id, None)
        self._joined_count += member.has_joined
        self._note_deadline(member.session_deadline_ms)

    def expect(self, member_id: str, until_ms: float) -> None:
        """The id was given out (KIP-394)."""
        self.pending_joins[member_id] = until_ms
        self._note_deadline(until_ms)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._joined_count -= member.has_joined
            self._supporters.subtract(name for name, _ in member.protocols)
            if member.instance_id is not None:
                del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def put(self, member: ClassicGroupMember) -> None:
        """Have it in the place of what was known of this member."""
        before = self.members[member.member_id]
        if member.protocols is not before.protocols:
            self._supporters.subtract(name for name, _ in before.protocols)
            self._supporters.update(name for name, _ in member.protocols)
        self.members[member.member_id] = member
        self._joined_count += member.has_joined - before.has_joined
        self._note_deadline(member.session_deadline_ms)

    def renew_session(self, member_id: str, steady_ms: float) -> None:
        member = self.members[member_id] = self.members[member_id].renew_session(steady_ms)
        self._note_deadline(member.session_deadline_ms)

    def replace_static(self, old: ClassicGroupMember, new_id: str) -> ClassicGroupMember:
        """KIP-345: a member that returns with its instance id gets a new member id; the old id is fenced."""
        assert old.instance_id is not None
        new = ClassicGroupMember(
            new_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        del self.members[old.member_id]
        self.members[new_id] = new
        self._joined_count -= old.has_joined
        self._static[old.instance_id] = new_id
        if self.leader == old.member_id:
            self.leader = new_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[new_id] = None
        return new

    def joined(self) -> Iterator[ClassicGroupMember]:
        return (member for member in self.members.values() if member.has_joined)

    @property
    def joined_count(self) -> int:
        return self._joined_count

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_joins and self._joined_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- generations

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a member with these protocols has one in common with all other members."""
        if self.state is EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def chosen_protocol(self) -> str:
        """Each member votes for the first of its protocols that every member can do."""
        common = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def elect_joined_leader(self) -> bool:
        """True if the leader has joined. If it has not, a member that has joined becomes the leader."""
        if self.leader is None:
            return False
        if self.members[self.leader].has_joined:
            return True
        joined = next(self.joined(), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None

    def transition(self, after: ClassicState) -> None:
        assert is_legal(self.state, after), (self.name, self.state, after)
        self.state = after

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.chosen_protocol()
        self.subscribed_topics = self._topics()
        self.first_rebalance = None
        self.pending_syncs = dict.fromkeys(self.members)
        self.transition(COMPLETING_REBALANCE)

    def apply(self, metadata: GroupMetadataValue) -> None:
        """Take over what is recorded: the generation now stands, or there are no members any more."""
        if metadata.members:
            for stored in metadata.members:
                self.put(self.members[stored.member_id]._replace(assignment=stored.assignment))
            if self.state is COMPLETING_REBALANCE:
                self.transition(STABLE)
        elif self.state is PREPARING_REBALANCE and metadata.generation > self.generation:
            self.generation = metadata.generation
            self.protocol = None
            self.state_ms = metadata.state_ms
            self.first_rebalance = None
            self.subscribed_topics = self._topics()
            self.transition(EMPTY)

    def generation_of(self, assignments: Mapping[str, bytes], state_ms: int) -> GroupMetadataValue:
        """This generation, to be recorded."""
        members = tuple(
            member.as_stored(self.protocol, assignments.get(member.member_id, b"")) for member in self.members.values()
        )
        return GroupMetadataValue(
            self.protocol_type or "", self.generation, self.protocol, self.leader, state_ms, members
        )

    def emptied(self, state_ms: int) -> GroupMetadataValue:
        """The generation without members that follows, to be recorded."""
        return GroupMetadataValue(self.protocol_type or "", self.generation + 1, None, None, state_ms)

    def join_answer(self, member: ClassicGroupMember) -> JoinAnswer:
        """The answer to one member for this generation. The leader's lists all members and their subscriptions."""
        members = self.joined_members() if member.member_id == self.leader else ()
        return JoinAnswer(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            False,
            members,
        )

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.subscription(self.protocol))
            for member in self.members.values()
        )

    def _topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            found = subscribed_topics(member.subscription(self.protocol))
            if found is None:
                return None
            topics |= found
        return frozenset(topics)

    # --- deadlines

    def next_deadline_ms(self) -> float | None:
        """No deadline is before this one. Which members' is the next costs a look at all of them: see `look_at_deadlines`."""
        times = (self.join_deadline_ms, self.sync_deadline_ms, self._quiet_until_ms)
        next_ms = min(time for time in times if time is not None)
        return None if next_ms == math.inf else next_ms

    def look_at_deadlines(self) -> None:
        """Let the next deadline be that of a member, or of an id that was given out."""
        deadlines = [*self.pending_joins.values()]
        deadlines += [time for member in self.members.values() if (time := member.session_deadline_ms) is not None]
        self._quiet_until_ms = min(deadlines, default=math.inf)

    def _note_deadline(self, deadline_ms: float | None) -> None:
        if deadline_ms is not None and deadline_ms < self._quiet_until_ms:
            self._quiet_until_ms = deadline_ms


def _draft_of(known: MutableMapping[str, V]) -> Draft[str, V]:
    assert isinstance(known, dict), "one decision is worked out at a time"
    return Draft(known)


def _kept(known: MutableMapping[str, V]) -> MutableMapping[str, V]:
    return known.kept() if isinstance(known, Draft) else known

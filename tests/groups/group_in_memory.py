"""A group coordinator with its log and a clock that stands still: what a broker does with decisions, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from harness.group_requests import REBALANCE_MS, SESSION_MS, subscription
from oncelog.coordination import Decision, Promise
from oncelog.groups import (
    GroupCoordinator,
    GroupRecord,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembershipDecision,
    MembershipLimits,
    SyncAnswer,
    SyncRequest,
    Timestamps,
    decode,
    encode,
)
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.groups.decisions import Uuids, decided

R = TypeVar("R")
A = TypeVar("A")

GROUP = "my-group"
START = Timestamps(1_700_000_000_000, 5_000.0)
RANGE = (("range", subscription("t")),)


class GroupInMemory:
    """Answers come as Promise values: `.is_resolved` says whether they are there."""

    def __init__(self, **limits: int) -> None:
        self._limits = MembershipLimits(**limits)
        self._uuids = Uuids()
        self.coordinator = GroupCoordinator(limits=self._limits)
        self.now = START
        self.log: list[Record] = []
        self.refuses: ErrorCode | None = None

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_member_id: bool = False,
        may_skip_assignment: bool = True,
        client_id: str = "client",
    ) -> Promise[JoinAnswer]:
        reply: Promise[JoinAnswer] = Promise()
        request = JoinRequest(
            GROUP,
            member_id,
            instance_id,
            client_id,
            "/test",
            session_ms,
            rebalance_ms,
            protocol_type,
            protocols,
            needs_member_id,
            may_skip_assignment,
        )
        membership = self.coordinator.membership
        self._apply(lambda: membership.join(request, reply, self.now, self._uuids), reply, JoinAnswer)
        return reply

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        instance_id: str | None = None,
    ) -> Promise[SyncAnswer]:
        reply: Promise[SyncAnswer] = Promise()
        request = SyncRequest(GROUP, member_id, instance_id, generation, None, None, dict(assignments or {}))
        self._apply(lambda: self.coordinator.membership.sync(request, reply, self.now), reply, SyncAnswer)
        return reply

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        membership = self.coordinator.membership
        decision = self._decided(lambda: membership.heartbeat(GROUP, member_id, instance_id, generation, self.now))
        decision.remember()
        return decision.answer

    def leave(self, *leaving: Leaving) -> LeaveAnswer:
        reply: Promise[LeaveAnswer] = Promise()
        membership = self.coordinator.membership
        self._apply(lambda: membership.leave(GROUP, leaving, reply, self.now), reply, LeaveAnswer)
        return reply.value

    def advance(self, duration_ms: float) -> None:
        """Move on, stopping at each deadline on the way."""
        end_ms = self.now.steady_ms + duration_ms
        membership = self.coordinator.membership
        while (deadline_ms := membership.next_deadline_ms(GROUP)) is not None and deadline_ms <= end_ms:
            self._move_to(max(deadline_ms, self.now.steady_ms))
            self._apply(lambda: membership.expire(GROUP, self.now))
        self._move_to(end_ms)

    def _move_to(self, steady_ms: float) -> None:
        passed_ms = steady_ms - self.now.steady_ms
        self.now = Timestamps(self.now.wall_ms + int(passed_ms), steady_ms)

    def _decided(self, decide: Callable[[], Decision[R, A]]) -> Decision[R, A]:
        return decided(self.coordinator, self._uuids, decide)

    def _apply(
        self,
        decide: Callable[[], MembershipDecision],
        reply: Promise[Any] | None = None,
        answer: Callable[[], Any] | None = None,
    ) -> None:
        """Where the log refuses, `answer` with the error is the reply."""
        decision = self._decided(decide)
        if decision.records and self.refuses is not None and reply is not None and answer is not None:
            reply.resolve(answer()._replace(error=self.refuses))
            return
        self.write(*decision.records)
        decision.remember()
        for due in decision.answer:
            due.give()

    def write(self, *records: GroupRecord) -> None:
        home = self.coordinator.partition_for(GROUP)
        for record in records:
            self.coordinator.replay(home, record, -1, False, len(self.log))
            self.log.append(encode(record))

    # --- what a test asks for in one go

    def reread(self) -> GroupCoordinator:
        """What a new process makes of the log."""
        reader = GroupCoordinator(limits=self._limits)
        for offset, raw in enumerate(self.log):
            record = decode(raw)
            assert record is not None
            reader.replay(reader.partition_for(GROUP), record, -1, False, offset)
        return reader

    def restart(self) -> None:
        self.coordinator = self.reread()
        self.coordinator.membership.loaded(self.coordinator.membership.names(), self.now)

    @property
    def state(self) -> str:
        return self.coordinator.describe(GROUP).state

    @property
    def generation(self) -> int:
        group = self.coordinator.membership.find(GROUP)
        assert group is not None
        return group.generation

    def members(self) -> list[str]:
        return [member.member_id for member in self.coordinator.describe(GROUP).members]

    def stable(self, *instance_ids: str | None) -> list[str]:
        """A stable group of so many members, the leader first; returns their ids. Each is assigned its own id."""
        ids: list[str] = []
        for instance_id in instance_ids or (None,):
            new = self.join(instance_id=instance_id)
            again = [self.join(member_id, instance_id=self._instance(member_id)) for member_id in ids]
            self.advance(0)
            answers = [*(reply.value for reply in again), new.value]
            ids = [answer.member_id for answer in answers]
            self.assign(ids, answers[0].generation)
        return ids

    def assign(self, ids: list[str], generation: int) -> None:
        assignments = {member_id: member_id.encode() for member_id in ids}
        replies = [
            self.sync(member_id, generation, assignments if place == 0 else None) for place, member_id in enumerate(ids)
        ]
        assert [reply.value.assignment for reply in replies] == list(assignments.values())
        assert self.state == "Stable"

    def _instance(self, member_id: str) -> str | None:
        described = self.coordinator.describe(GROUP).members
        return next(member.instance_id for member in described if member.member_id == member_id)

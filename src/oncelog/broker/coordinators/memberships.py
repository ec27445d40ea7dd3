"""Carrying out what is decided about the members of groups: records, then answers, and a timer for what comes next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from oncelog.broker.config.configuration import Settings
from oncelog.broker.config.group_configuration import serves_consumer_groups
from oncelog.broker.coordinators.group_log import GroupLog, Recorded
from oncelog.coordination import Promise, Task, begin
from oncelog.environment import Clock, DiskError, Random, Timer
from oncelog.groups import (
    GroupCoordinator,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembersDecision,
    PendingResponse,
    SyncAnswer,
    SyncRequest,
    Timestamps,
)
from oncelog.groups.consumer import HeartbeatAnswer, HeartbeatRequest
from oncelog.groups.context import GroupType
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.groups")

RETRY_MS = 1000


class _Seen(NamedTuple):
    """A group as the log tells of it. Members of a consumer group are left out: they have records, which say more of them."""

    state: str
    member_count: int
    members: frozenset[str]


class Memberships:
    """Everything between the handlers and the members that the coordinator of one broker knows.

    Each group has one timer, for its next deadline or earlier: heartbeats move deadlines away, and it is not worth the
    while to follow each of them.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        fail: Callable[[BaseException], None],
        coordinator: GroupCoordinator,
        log: GroupLog,
        random: Random,
    ) -> None:
        self._clock = clock
        self._fail = fail
        self._coordinator = coordinator
        self._members = coordinator.members
        self._log = log
        self._random = random
        self._timers: dict[str, tuple[float, Timer]] = {}
        self._has_begun = False
        self.serves_consumer_groups = serves_consumer_groups(settings)

    def begin(self) -> None:
        """After a start, once requests are served: from now on members have to be heard from."""
        self._has_begun = True
        self.loaded(self._members.names())

    def loaded(self, groups: Collection[str]) -> None:
        """These groups have been replayed."""
        if self._has_begun:
            self._members.loaded(groups, self.now())
            for group in groups:
                self._watch(group)

    def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def unload(self, partition: int) -> None:
        """Forget the groups of a partition of `__consumer_offsets`: who waits for one of them is told to look elsewhere."""
        for group in [one for one in self._timers if self._log.partition_for(one) == partition]:
            _, timer = self._timers.pop(group)
            timer.cancel()
        for due in self._coordinator.unload(partition, self.now()):
            due.give()

    def now(self) -> Timestamps:
        return Timestamps(self._clock.now_ms(), self._clock.monotonic_ms())

    # --- what handlers ask

    def error(self, group: str) -> ErrorCode:
        """none if this broker coordinates the group. Errors: not_coordinator, coordinator_load_in_progress."""
        return self._log.error(group)

    async def join(self, request: JoinRequest) -> JoinAnswer:
        error = self.error(request.group)
        if error is not ErrorCode.none:
            return JoinAnswer(error, request.member_id)
        reply: Promise[JoinAnswer] = Promise()
        decision = self._members.join(request, reply, self.now(), self._random.uuid)
        error = self._carry_out(request.group, decision)
        return await reply if error is ErrorCode.none else JoinAnswer(error, request.member_id)

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        error = self.error(request.group)
        if error is not ErrorCode.none:
            return SyncAnswer(error)
        reply: Promise[SyncAnswer] = Promise()
        error = self._carry_out(request.group, self._members.sync(request, reply, self.now()))
        return await reply if error is ErrorCode.none else SyncAnswer(error)

    def heartbeat(self, group: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error = self.error(group)
        if error is not ErrorCode.none:
            # As in Kafka: a member that is alive need not know that its group is being loaded.
            return ErrorCode.none if error is ErrorCode.coordinator_load_in_progress else error
        decision = self._members.heartbeat(group, member_id, instance_id, generation, self.now())
        decision.remember()
        return decision.answer

    async def leave(self, group: str, leaving: Sequence[Leaving]) -> LeaveAnswer:
        error = self.error(group)
        if error is not ErrorCode.none:
            return LeaveAnswer((), error)
        reply: Promise[LeaveAnswer] = Promise()
        error = self._carry_out(group, self._members.leave(group, leaving, reply, self.now()))
        return await reply if error is ErrorCode.none else LeaveAnswer((), error)

    async def consumer_heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        from oncelog.groups.consumer import HeartbeatAnswer

        reply: Promise[HeartbeatAnswer] = Promise()
        decision = self._members.consumer_heartbeat(request, reply, self.now(), self._random.uuid)
        error = self._carry_out(request.group, decision)
        return await reply if error is ErrorCode.none else HeartbeatAnswer(error, "the group could not be recorded")

    # --- the steps

    def _carry_out(self, group: str, decision: MembersDecision) -> ErrorCode:
        """Return an error only if the records are refused: then nothing has changed."""
        before = self._seen(group) if logger.isEnabledFor(logging.INFO) else None
        if decision.records:
            error = self._log.append(group, decision.records)
            if error is not ErrorCode.none:
                return error
        self._finish(group, decision, before)
        return ErrorCode.none

    def _finish(self, group: str, decision: MembersDecision, before: _Seen | None) -> None:
        """The records are replayed: remember what is in memory alone, and answer once they cannot be lost."""
        decision.remember()
        if before is not None:
            self._say(group, before)
        self._watch(group)
        if decision.answer:
            committed = begin(self._log.committed(group, Recorded.MEMBERS))
            if isinstance(committed, Task):
                committed.then(partial(_give, decision.answer))
            else:
                _give(decision.answer, committed)

    def _seen(self, group: str) -> _Seen:
        found = self._members.find(group)
        if found is None:
            return _Seen("Dead", 0, frozenset())
        is_classic = found.type is GroupType.CLASSIC
        return _Seen(found.state.value, len(found.members), frozenset(found.members if is_classic else ()))

    def _say(self, group: str, before: _Seen) -> None:
        after = self._seen(group)
        if after == before:
            return
        changes = (("has joined", after.members - before.members), ("is gone", before.members - after.members))
        told = "".join(f", {member} {what}" for what, members in changes for member in sorted(members))
        logger.info("group %s: %s with %d members%s", group, after.state, after.member_count, told)

    def _watch(self, group: str) -> None:
        """Have a timer that runs out no later than the group's next deadline."""
        deadline_ms = self._members.next_deadline_ms(group)
        watched = self._timers.get(group)
        if watched is not None:
            if deadline_ms is not None and watched[0] <= deadline_ms:
                return
            watched[1].cancel()
            del self._timers[group]
        if deadline_ms is not None:
            delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
            self._timers[group] = deadline_ms, self._clock.call_later(delay_ms, lambda: self._passed(group))

    def _watch_later(self, group: str) -> None:
        """Look at the group again later: too few replicas were in sync to record what is due."""
        at_ms = self._clock.monotonic_ms() + RETRY_MS
        self._timers[group] = at_ms, self._clock.call_later(RETRY_MS, lambda: self._passed(group))

    def _passed(self, group: str) -> None:
        del self._timers[group]
        try:
            deadline_ms = self._members.next_deadline_ms(group)
            if deadline_ms is not None and deadline_ms <= self._clock.monotonic_ms():
                # What is due next has a timer again, and others are served in between.
                decision = self._members.expire(group, self.now())
                before = self._seen(group) if logger.isEnabledFor(logging.INFO) else None
                error = self._log.append_obliged(group, decision.records) if decision.records else ErrorCode.none
                if error is ErrorCode.none:
                    self._finish(group, decision, before)
                elif self.error(group) is ErrorCode.none:
                    self._watch_later(group)
            else:
                self._watch(group)
        except DiskError as error:
            self._fail(error)


def _give(answers: Iterable[PendingResponse], error: ErrorCode) -> None:
    for due in answers:
        due.give(error)

"""Consumer groups with their log, their topics and a clock that stands still: what a broker does, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from harness.group_requests import REBALANCE_MS, SESSION_MS, subscription
from oncelog.coordination import Promise
from oncelog.groups import (
    ConsumerLimits,
    GroupCoordinator,
    GroupRecord,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    MembersDecision,
    SyncAnswer,
    SyncRequest,
    Timestamps,
    decode,
    encode,
)
from oncelog.groups.consumer import ConsumerGroup, HeartbeatAnswer, HeartbeatRequest, Partition
from oncelog.records import Record
from oncelog.wire import ErrorCode
from tests.groups.decisions import Uuids, decided
from tests.groups.group_in_memory import GROUP, START


@dataclass
class MadeTopic:
    name: str
    topic_id: UUID
    partitions: list[int]


@dataclass
class MadeTopics:
    """Topics that a test makes as it likes."""

    version: int = 0
    by_name: dict[str, MadeTopic] = field(default_factory=dict)

    def make(self, name: str, partition_count: int) -> UUID:
        """A topic, which grows if it is there."""
        found = self.by_name.get(name) or MadeTopic(name, UUID(int=self.version + 1000), [])
        found.partitions = list(range(max(partition_count, len(found.partitions))))
        self.by_name[name] = found
        self.version += 1
        return found.topic_id

    def delete(self, name: str) -> None:
        if self.by_name.pop(name, None) is not None:
            self.version += 1

    def named(self, name: str) -> MadeTopic | None:
        return self.by_name.get(name)

    def with_id(self, topic_id: UUID) -> MadeTopic | None:
        return next((topic for topic in self if topic.topic_id == topic_id), None)

    def __iter__(self) -> Iterator[MadeTopic]:
        return iter(list(self.by_name.values()))


class ConsumersInMemory:
    """One group."""

    def __init__(self, limits: ConsumerLimits | None = None) -> None:
        self.topics = MadeTopics()
        self._limits = limits or ConsumerLimits(assignment_interval_ms=0)
        self._uuids = Uuids()
        self.coordinator = self._new()
        self.now = START
        self.log: list[Record] = []

    def _new(self) -> GroupCoordinator:
        return GroupCoordinator(consumer_limits=self._limits, topics=self.topics)

    def join(self, member_id: str, *topics: str, **more: Any) -> HeartbeatAnswer:
        given = {"topics": topics, "owned": frozenset(), "rebalance_timeout_ms": REBALANCE_MS} | more
        return self.beat(member_id, 0, **given)

    def beat(self, member_id: str, epoch: int, **more: Any) -> HeartbeatAnswer:
        request = HeartbeatRequest(GROUP, member_id, epoch, **more)
        reply: Promise[HeartbeatAnswer] = Promise()
        members = self.coordinator.members
        self._carry_out(lambda: members.consumer_heartbeat(request, reply, self.now, self._uuids))
        return reply.value

    def _carry_out(self, decide: Callable[[], MembersDecision]) -> None:
        decision = decided(self.coordinator, self._uuids, decide)
        self.write(*decision.records)
        decision.remember()
        for due in decision.answer:
            due.give()

    def classic_join(self, member_id: str, instance_id: str | None = None, *topics: str) -> Promise[JoinAnswer]:
        reply: Promise[JoinAnswer] = Promise()
        protocols = (("range", subscription(*topics)),)
        request = JoinRequest(
            GROUP, member_id, instance_id, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, False
        )
        members = self.coordinator.members
        self._carry_out(lambda: members.join(request, reply, self.now, self._uuids))
        return reply

    def classic_sync(self, member_id: str, generation: int) -> Promise[SyncAnswer]:
        reply: Promise[SyncAnswer] = Promise()
        request = SyncRequest(GROUP, member_id, None, generation)
        self._carry_out(lambda: self.coordinator.members.sync(request, reply, self.now))
        return reply

    def classic_leave(self, member_id: str) -> None:
        reply: Promise[LeaveAnswer] = Promise()
        self._carry_out(lambda: self.coordinator.members.leave(GROUP, (Leaving(member_id),), reply, self.now))

    def classic_heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        members = self.coordinator.members
        decision = decided(
            self.coordinator,
            self._uuids,
            lambda: members.heartbeat(GROUP, member_id, None, generation, self.now),
        )
        decision.remember()
        return decision.answer

    def advance(self, duration_ms: float) -> None:
        """Move on, stopping at each deadline on the way."""
        end_ms = self.now.steady_ms + duration_ms
        members = self.coordinator.members
        while (deadline_ms := members.next_deadline_ms(GROUP)) is not None and deadline_ms <= end_ms:
            self._move_to(max(deadline_ms, self.now.steady_ms))
            self._carry_out(lambda: members.expire(GROUP, self.now))
        self._move_to(end_ms)

    def _move_to(self, steady_ms: float) -> None:
        passed_ms = steady_ms - self.now.steady_ms
        self.now = Timestamps(self.now.wall_ms + int(passed_ms), steady_ms)

    def write(self, *records: GroupRecord) -> None:
        home = self.coordinator.partition_for(GROUP)
        for record in records:
            self.coordinator.replay(home, record, -1, False, len(self.log))
            self.log.append(encode(record))

    def reread(self) -> GroupCoordinator:
        """What a new process makes of the log."""
        reader = self._new()
        for offset, raw in enumerate(self.log):
            record = decode(raw)
            if record is not None:
                reader.replay(reader.partition_for(GROUP), record, -1, False, offset)
        return reader

    def restart(self) -> None:
        self.coordinator = self.reread()
        self.coordinator.members.loaded(self.coordinator.members.names(), self.now)

    def delete(self) -> ErrorCode:
        decision = self.coordinator.delete_group(GROUP, self.now.wall_ms)
        self.write(*decision.records)
        return decision.answer

    @property
    def group(self) -> ConsumerGroup | None:
        return self.coordinator.members.consumer_group(GROUP)


@dataclass
class Consumer:
    """A member as its client has it: it does what it is told, and gives up at its own pace."""

    groups: ConsumersInMemory
    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    epoch: int = 0
    owned: frozenset[Partition] = frozenset()
    target: frozenset[Partition] = frozenset()
    has_missed_an_answer: bool = False

    def beat(self, **more: Any) -> HeartbeatAnswer:
        """Whoever is fenced gives up everything, and joins with the next heartbeat."""
        if self.epoch == 0:
            answer = self.groups.join(self.member_id, *self.topics, instance_id=self.instance_id, **more)
        else:
            who: dict[str, Any] = {"instance_id": self.instance_id, "owned": self.owned}
            if self.has_missed_an_answer:
                # It says all, and is told all.
                who |= {"topics": self.topics, "rebalance_timeout_ms": REBALANCE_MS}
            answer = self.groups.beat(self.member_id, self.epoch, **who | more)
        self.has_missed_an_answer = False
        if answer.error is ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.target = answer.assignment
        elif answer.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found):
            self.epoch, self.owned, self.target = 0, frozenset(), frozenset()
        return answer

    def miss(self) -> None:
        """A heartbeat whose answer is lost."""
        self.groups.beat(self.member_id, self.epoch, owned=self.owned, instance_id=self.instance_id)
        self.has_missed_an_answer = True

    def leave(self, epoch: int) -> None:
        self.groups.beat(self.member_id, epoch, instance_id=self.instance_id)

    def reconcile(self) -> None:
        """Give up what is not its any more, and begin with what is."""
        self.owned = self.target

    def turn(self) -> None:
        self.beat()
        self.reconcile()

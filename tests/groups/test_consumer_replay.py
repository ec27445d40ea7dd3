"""The promises of consumer groups: the log is the state, a partition is one member's, and everything is assigned in the end."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.groups import ConsumerLimits, GroupCoordinator
from oncelog.groups.consumer import ConsumerGroup, ConsumerGroupState, Partition
from oncelog.wire import ErrorCode
from tests.groups.consumers_in_memory import Consumer, ConsumersInMemory
from tests.groups.group_in_memory import GROUP

NAMES = ("t", "u", "v")
MEMBERS = st.integers(0, 4)
SUBSCRIPTIONS = st.sampled_from((("t",), ("t", "u"), ("u", "v"), ("v", "missing"), ()))
SETTLING_TURNS = 12


def state_of(coordinator: GroupCoordinator) -> tuple[object, object]:
    group = coordinator.members.consumer_group(GROUP)
    state = None if group is None else {name: getattr(group, name) for name in ConsumerGroup.__slots__}
    return state, coordinator.membership.recorded


class Consumers(RuleBasedStateMachine):
    """Members that come, go, change their minds, are slow and get lost, while topics grow and disappear."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = ConsumersInMemory(ConsumerLimits(assignment_interval_ms=1000))
        self.members = [Consumer(self.groups, f"member-{number}", ("t",)) for number in range(5)]
        self.members[3].instance_id = "three"
        self.members[4].instance_id = "four"
        self.restarts = 0
        self.classic: dict[int, str] = {}

    @rule(number=MEMBERS, topics=SUBSCRIPTIONS)
    def join(self, number: int, topics: tuple[str, ...]) -> None:
        member = self.members[number]
        if member.epoch == 0:
            member.topics = topics
            member.beat()

    @rule(number=MEMBERS)
    def beat(self, number: int) -> None:
        if self.members[number].epoch:
            self.members[number].beat()

    @rule(number=MEMBERS)
    def beat_and_reconcile(self, number: int) -> None:
        if self.members[number].epoch:
            self.members[number].turn()

    @rule(number=MEMBERS, topics=SUBSCRIPTIONS)
    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        member = self.members[number]
        if member.epoch:
            member.topics = topics
            member.beat(topics=topics)

    @rule(number=MEMBERS, assignor=st.sampled_from(("uniform", "range")))
    def prefer(self, number: int, assignor: str) -> None:
        if self.members[number].epoch:
            self.members[number].beat(assignor=assignor)

    @rule(number=MEMBERS)
    def subscribe_with_a_regular_expression(self, number: int) -> None:
        member = self.members[number]
        if member.epoch:
            member.topics = ()
            member.beat(topics=(), regex="[uv]")

    @rule(number=MEMBERS)
    def leave(self, number: int) -> None:
        member = self.members[number]
        if member.epoch:
            member.leave(-1)
            self.replace(number, member.member_id)

    @rule(number=st.integers(3, 4), is_prompt=st.booleans())
    def start_again(self, number: int, is_prompt: bool) -> None:
        """A static member ends, and comes back under another id."""
        member = self.members[number]
        if member.epoch:
            member.leave(-2)
            self.restarts += 1
            self.replace(number, f"member-{number}-{self.restarts}")
            if is_prompt:
                self.members[number].turn()

    def replace(self, number: int, member_id: str) -> None:
        self.members[number] = Consumer(self.groups, member_id, ("t",), self.members[number].instance_id)

    @rule(number=MEMBERS)
    def lose_the_answer(self, number: int) -> None:
        member = self.members[number]
        if member.epoch:
            member.miss()

    @rule(number=MEMBERS, topics=SUBSCRIPTIONS)
    def join_with_the_classic_protocol(self, number: int, topics: tuple[str, ...]) -> None:
        member_id = self.classic.get(number, "")
        reply = self.groups.classic_join(member_id, None, *topics)
        self.groups.advance(0)
        if reply.is_resolved and reply.value.error is ErrorCode.none:
            self.classic[number] = reply.value.member_id
            self.groups.classic_sync(reply.value.member_id, reply.value.generation)
        elif reply.is_resolved:
            self.classic.pop(number, None)

    @rule(number=MEMBERS)
    def leave_with_the_classic_protocol(self, number: int) -> None:
        self.groups.classic_leave(self.classic.pop(number, "nobody"))

    @rule()
    def classic_members_beat(self) -> None:
        group = self.groups.group
        for member_id in self.classic.values():
            member = None if group is None else group.members.get(member_id)
            if member is not None:
                self.groups.classic_heartbeat(member_id, member.progress.epoch)

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def make_topic(self, name: str, count: int) -> None:
        self.groups.topics.make(name, count)

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        self.groups.topics.delete(name)

    @rule(duration_ms=st.sampled_from((1, 999, 1000, 20_000, 46_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.groups.advance(duration_ms)

    @rule()
    def restart(self) -> None:
        self.groups.restart()

    @rule()
    def delete_group(self) -> None:
        self.groups.delete()

    @rule()
    def everybody_beats(self) -> None:
        """Within a few heartbeats everything that somebody is subscribed to is somebody's, and nothing is two's.

        Members of the classic protocol are silent meanwhile, and taken out.
        """
        for _ in range(SETTLING_TURNS):
            self.groups.advance(10_000)
            for member in self.members:
                if member.epoch:
                    member.turn()
        # What is kept for a static member that has left is nobody else's before its session is over.
        group = self.groups.group
        if group is None or not group.members or any(one.progress.epoch == -2 for one in group.members.values()):
            return
        assert group.state is ConsumerGroupState.STABLE
        owned = [partition for member in self.members if member.epoch for partition in member.owned]
        assert len(owned) == len(set(owned))
        assert set(owned) == self.subscribed(group)
        sizes = [len(member.owned) for member in self.members if member.epoch]
        if group.preferred_assignor() == "uniform" and self.are_alike(group):
            assert max(sizes) - min(sizes) <= 1

    def subscribed(self, group: ConsumerGroup) -> set[Partition]:
        found = [self.groups.topics.named(name) for name in group.subscribed_topics()]
        return {(topic.topic_id, index) for topic in found if topic is not None for index in topic.partitions}

    def are_alike(self, group: ConsumerGroup) -> bool:
        return len({(member.subscription.topics, member.subscription.regex) for member in group.members.values()}) == 1

    @invariant()
    def the_log_is_the_state(self) -> None:
        assert state_of(self.groups.reread()) == state_of(self.groups.coordinator)

    @invariant()
    def no_partition_is_of_two(self) -> None:
        group = self.groups.group
        if group is None:
            return
        has = [
            partition
            for member in group.members.values()
            for partition in (*member.progress.owned, *member.progress.revoking)
        ]
        assert len(has) == len(set(has))
        assert all(partition in group.owners for partition in has)

    @invariant()
    def no_client_uses_what_another_may_use(self) -> None:
        group = self.groups.group
        members = {} if group is None else group.members
        used = [
            partition
            for member in self.members
            if member.member_id in members and members[member.member_id].progress.epoch == member.epoch
            for partition in member.owned
        ]
        assert len(used) == len(set(used))

    @invariant()
    def epochs_follow_one_another(self) -> None:
        group = self.groups.group
        if group is not None:
            assert group.target_epoch.epoch <= group.epoch
            assert all(member.progress.epoch <= group.target_epoch.epoch for member in group.members.values())


Consumers.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestConsumersInAnyOrder = Consumers.TestCase

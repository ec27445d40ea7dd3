"""The same heartbeats, in an order that chance has made, for our broker and for Apache Kafka: each answer is the same.

Members ask for the range assignor, which leaves nothing to the order in which a broker happens to have its members.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.conformance.consumer_member import ConsumerMember
from harness.consumer_group_requests import assigned
from harness.processes import BrokerProcess
from harness.shared_producer import until
from harness.wire import Connection

pytestmark = pytest.mark.jvm

TOPICS = {"a": 3, "b": 4}
MEMBERS = 4
STEPS = 80
Seen = tuple[Any, ...]


class Side:
    """One broker, with topics of its own under names that both have, and the members of one group."""

    def __init__(self, node: BrokerProcess, suffix: str) -> None:
        self.names = {name: f"twin-{name}-{suffix}" for name in TOPICS}
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        made = admin.create_topics([NewTopic(self.names[name], count, 1) for name, count in TOPICS.items()])
        for one in made.values():
            one.result(30)
        self._node, self._group = node, f"twins-{suffix}"
        connection = Connection(node.bootstrap_servers)
        until(lambda: connection.ask("find_coordinator", 3, key=self._group, key_type=0).error_code is ErrorCode.none)
        connection.close()
        self.ids = {self._id_of(name): short for short, name in self.names.items()}
        self.members: list[ConsumerMember] = []
        self._wait_for_topics()

    def _id_of(self, topic: str) -> UUID:
        connection = Connection(self._node.bootstrap_servers)
        asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        answer = connection.ask("metadata", 12, **asked, include_topic_authorized_operations=False)
        connection.close()
        return answer.topics[0].topic_id

    def _wait_for_topics(self) -> None:
        probe = ConsumerMember(self._node, self._group)
        until(lambda: probe.join(*self.names.values()).error_code is ErrorCode.none)
        until(lambda: bool(probe.beat() and sum(map(len, probe.owned.values())) == sum(TOPICS.values())))
        probe.leave()
        assert probe.ask("delete_groups", 2, groups_names=[self._group]).results[0].error_code is ErrorCode.none
        probe.connection.close()

    def enter(self, place: int, member_id: str, instance_id: str | None) -> None:
        member = ConsumerMember(self._node, self._group, instance_id)
        member.member_id = member_id
        if place < len(self.members):
            self.members[place].connection.close()
            self.members[place] = member
        else:
            self.members.append(member)

    def seen(self, answer: Any) -> Seen:
        given = assigned(answer)
        named = None if given is None else {self.ids[topic_id]: indexes for topic_id, indexes in given.items()}
        return answer.error_code, answer.member_epoch, answer.member_id, answer.heartbeat_interval, named

    def described(self) -> Seen:
        group = self.members[0].describe()

        def topics(assignment: Any) -> dict[str, list[int]]:
            return {self.ids[one.topic_id]: sorted(one.partitions) for one in assignment.topic_partitions}

        members = sorted(
            (
                member.member_id,
                member.member_epoch,
                member.instance_id,
                topics(member.assignment),
                topics(member.target_assignment),
            )
            for member in group.members
        )
        return group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, members


@pytest.fixture
def sides(oncelog_broker: BrokerProcess, kafka: BrokerProcess, unique: str) -> Iterator[tuple[Side, Side]]:
    pair = Side(oncelog_broker, unique), Side(kafka, unique)
    yield pair
    for side in pair:
        for member in side.members:
            member.connection.close()


class Twins:
    """Does the same on both sides, and compares."""

    def __init__(self, sides: tuple[Side, Side], chance: random.Random) -> None:
        self._sides, self._chance = sides, chance
        self.done: list[str] = []
        for place in range(MEMBERS):
            self._enter(place)

    def _enter(self, place: int) -> None:
        member_id = str(uuid.UUID(int=self._chance.getrandbits(128)))
        for side in self._sides:
            side.enter(place, member_id, "static" if place == 0 else None)

    def _both(self, what: str, do: Callable[[Side], Seen]) -> None:
        self.done.append(what)
        ours, theirs = (do(side) for side in self._sides)
        assert ours == theirs, "\n".join(self.done[-24:])

    def step(self) -> None:
        place = self._chance.randrange(MEMBERS)
        kinds = (
            self._join,
            self._beat,
            self._beat,
            self._beat,
            self._subscribe,
            self._leave,
            self._commit,
            self._stray,
        )
        self._chance.choice(kinds)(place)
        self._both("describe", Side.described)

    def _topics(self) -> list[str]:
        return self._chance.choice((["a"], ["b"], ["a", "b"], []))

    def _join(self, place: int) -> None:
        # Whoever joins without topics while an assignment is due is given some by Apache Kafka, and they are read by nobody.
        names = self._topics() or ["b"]

        def join(side: Side) -> Seen:
            return side.seen(side.members[place].join(*(side.names[name] for name in names), assignor="range"))

        self._both(f"{place} joins {names}", join)

    def _beat(self, place: int) -> None:
        says = self._chance.choice(("what it owns", "what it owns", "nothing"))

        def beat(side: Side) -> Seen:
            return side.seen(side.members[place].beat(**({} if says == "what it owns" else {"owned": None})))

        self._both(f"{place} beats and says {says}", beat)

    def _subscribe(self, place: int) -> None:
        names = self._topics()

        def subscribe(side: Side) -> Seen:
            return side.seen(side.members[place].beat(topics=[side.names[name] for name in names]))

        self._both(f"{place} subscribes to {names}", subscribe)

    def _leave(self, place: int) -> None:
        epoch = self._chance.choice((-1, -2)) if place == 0 else -1
        self._both(f"{place} leaves with {epoch}", lambda side: side.seen(side.members[place].leave(epoch)))
        if self._chance.random() < 0.5:
            self._enter(place)

    def _commit(self, place: int) -> None:
        partition, past = self._chance.randrange(3), self._chance.randrange(3)

        def commit(side: Side) -> Seen:
            topic_id = next(topic_id for topic_id, name in side.ids.items() if name == "a")
            member = side.members[place]
            epoch = member.epoch - past
            return tuple(member.commit((side.names["a"], topic_id), {partition: 1}, epoch=epoch))

        self._both(f"{place} commits a-{partition} with its epoch less {past}", commit)

    def _stray(self, place: int) -> None:
        off = self._chance.choice((-2, -1, 1))

        def stray(side: Side) -> Seen:
            epoch = side.members[place].epoch + off
            return side.seen(side.members[place].beat(epoch=epoch)) if epoch > 0 else ()

        self._both(f"{place} beats with its epoch and {off}", stray)


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_the_same(sides, seed):
    twins = Twins(sides, random.Random(seed))
    for _ in range(STEPS):
        twins.step()
    assert len(twins.done) == 2 * STEPS

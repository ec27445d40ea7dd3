"""Groups that change their protocol with members in them (KIP-848, "online migration"), on our broker and on Apache Kafka."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from harness.conformance.consumer_member import ConsumerMember
from harness.conformance.group_client import GroupClient
from harness.conformance.subscribers import ConfluentConsumer, ConfluentSubscriber, Subscriber
from harness.consumer_group_requests import assigned
from harness.group_requests import subscription
from harness.processes import BrokerProcess
from harness.shared_producer import until
from harness.wire import Connection

NONE, REBALANCE = ErrorCode.none, ErrorCode.rebalance_in_progress
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
PARTITIONS = 4


@pytest.fixture
def topic(log: BrokerProcess, group: str, new_topic: Callable[..., str]) -> str:
    """One that the group's coordinator knows of: on Apache Kafka it hears of topics later than others do."""
    name = new_topic(partitions=PARTITIONS)
    probe = ConsumerMember(log, group)
    probe.join(name)

    def knows() -> bool:
        assert probe.beat().error_code is NONE
        return sum(map(len, probe.owned.values())) == PARTITIONS

    until(knows)
    assert probe.leave().error_code is NONE
    assert probe.ask("delete_groups", 2, groups_names=[group]).results[0].error_code is NONE
    probe.connection.close()
    return name


@pytest.fixture
def topic_id(log: BrokerProcess, topic: str) -> UUID:
    connection = Connection(log.bootstrap_servers)
    asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
    answer = connection.ask("metadata", 12, **asked, include_topic_authorized_operations=False)
    connection.close()
    return answer.topics[0].topic_id


@pytest.fixture
def member(log: BrokerProcess, group: str) -> Iterator[ConsumerMember]:
    """One that follows the consumer protocol."""
    member = ConsumerMember(log, group)
    yield member
    member.connection.close()


def assignment(topic: str, *indexes: int, user_data: bytes | None = None) -> bytes:
    named = struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    own = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return struct.pack(">hi", 0, 1) + named + own


def partitions_of(data: bytes, topic: str) -> set[int]:
    """The partitions in a consumer's assignment of one topic."""
    (_, count), position = struct.unpack_from(">hi", data), 6
    if not count:
        return set()
    position += 2 + len(topic)
    (size,) = struct.unpack_from(">i", data, position)
    return set(struct.unpack_from(f">{size}i", data, position + 4))


def alone(client: GroupClient, topic: str) -> None:
    """A classic member that has everything, in generation 1."""
    client.join_options["protocols"] = {"range": subscription(topic)}
    client.enter()
    assert client.joined().error_code is NONE
    everything = assignment(topic, *range(PARTITIONS))
    assert client.sync({client.member_id: everything}).assignment == everything


def test_member_of_the_consumer_protocol_turns_a_classic_group_into_one_of_its_own(new_client, member, topic, topic_id):
    """KIP-848: "the group is converted" when the first member joins with the new protocol; nobody loses what it has."""
    classic = new_client()
    alone(classic, topic)
    answer = member.join(topic)
    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (NONE, 2, {})
    described = {one.member_id: one for one in member.describe().members}
    (has,) = described[classic.member_id].assignment.topic_partitions
    assert (described[classic.member_id].member_epoch, sorted(has.partitions)) == (1, [0, 1, 2, 3])
    assert [described[one.member_id].member_type for one in (classic, member)] == [0, 1]
    assert classic.commit(topic) is NONE
    assert classic.heartbeat() is REBALANCE
    answer = classic.join()
    assert (answer.error_code, answer.generation_id, answer.protocol_type, answer.protocol_name) == (
        NONE,
        2,
        "consumer",
        "range",
    )
    assert (answer.member_id, answer.leader, answer.members) == (classic.member_id, "", ())
    answer = classic.sync()
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (NONE, "consumer", "range")
    kept = partitions_of(answer.assignment, topic)
    assert len(kept) == 2
    assert classic.heartbeat() is NONE
    assert member.beat().member_epoch == 2
    assert set(member.owned[topic_id]) == {0, 1, 2, 3} - kept
    assert member.describe().group_state == "Stable"
    assert classic.commit(topic) is NONE
    assert classic.commit(topic, generation=3) is ILLEGAL_GENERATION


def test_member_of_the_classic_protocol_joins_a_consumer_group(new_client, member, topic, topic_id):
    member.join(topic)
    classic = new_client(protocols={"range": subscription(topic)})
    classic.enter()
    answer = classic.joined()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (NONE, 3, "range")
    answer = classic.sync()
    assert (answer.error_code, partitions_of(answer.assignment, topic)) == (NONE, set())
    assert classic.heartbeat() is NONE, "what it waits for is another's"
    assert len((assigned(member.beat(owned=None)) or {})[topic_id]) == 2
    assert member.beat().member_epoch == 3
    assert classic.heartbeat() is REBALANCE, "it is free now"
    assert classic.join().generation_id == 3
    assert partitions_of(classic.sync().assignment, topic) == {0, 1, 2, 3} - set(member.owned[topic_id])
    assert classic.heartbeat() is NONE
    assert classic.heartbeat(generation=2) is ILLEGAL_GENERATION
    assert classic.sync(generation=2).error_code is ILLEGAL_GENERATION
    assert classic.sync(protocol="roundrobin").error_code is ErrorCode.inconsistent_group_protocol
    assert classic.heartbeat(member_id=member.member_id) is UNKNOWN_MEMBER_ID
    assert classic.heartbeat(member_id="nobody") is UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocols": {}}], ids=str)
def test_classic_member_that_is_no_consumer_does_not_join_one(new_client, member, topic, wrong):
    member.join(topic)
    options = {"protocols": {"range": subscription(topic)}} | wrong
    assert new_client(**options).join().error_code is ErrorCode.inconsistent_group_protocol


def test_group_of_other_than_consumers_is_not_converted(new_client, member, topic):
    classic = new_client(protocol_type="connect", protocols={"sessioned": b"what it is"})
    classic.enter()
    assert classic.joined().error_code is NONE
    synced = classic.sync({classic.member_id: b"tasks"}, protocol_type="connect", protocol="sessioned")
    assert synced.error_code is NONE
    assert member.join(topic).error_code is ErrorCode.group_id_not_found
    assert classic.heartbeat() is NONE


def with_user_data(client: GroupClient, topic: str, user_data: bytes) -> None:
    """A classic member that has everything, from an assignor that says more than that."""
    client.join_options["protocols"] = {"range": subscription(topic)}
    client.enter()
    assert client.joined().error_code is NONE
    given = assignment(topic, *range(PARTITIONS), user_data=user_data)
    assert client.sync({client.member_id: given}).assignment == given


def test_group_whose_assignor_says_more_than_partitions_is_not_converted(new_client, member, topic):
    """Apache Kafka 4.3: what an assignor of its own adds for a member would be lost, so the group stays as it is."""
    classic = new_client()
    with_user_data(classic, topic, b"sticky")
    assert member.join(topic).error_code is ErrorCode.group_id_not_found
    assert classic.heartbeat() is NONE


def test_group_whose_assignor_says_more_is_not_converted_while_it_rebalances(new_client, member, topic):
    """What a member had last counts until it is given something else."""
    classic = new_client()
    with_user_data(classic, topic, b"sticky")
    assert classic.join().generation_id == 2
    assert member.join(topic).error_code is ErrorCode.group_id_not_found
    everything = assignment(topic, *range(PARTITIONS))
    assert classic.sync({classic.member_id: everything}).assignment == everything
    assert member.join(topic).error_code is NONE


def test_group_whose_assignor_adds_nothing_is_converted(new_client, member, topic):
    with_user_data(new_client(), topic, b"")
    assert member.join(topic).error_code is NONE


def test_group_is_classic_again_when_only_classic_members_stay(new_client, member, topic):
    """KIP-848: "the group is converted back" when the last member of the new protocol leaves; the others rebalance."""
    classic = new_client()
    alone(classic, topic)
    member.join(topic)
    classic.join()
    classic.sync()
    assert member.leave().error_code is NONE
    described = classic.describe()
    assert (described.group_state, described.protocol_type) == ("PreparingRebalance", "consumer")
    assert [one.member_id for one in described.members] == [classic.member_id]
    assert member.describe().error_code is ErrorCode.group_id_not_found
    assert classic.heartbeat() in (REBALANCE, ILLEGAL_GENERATION)
    answer = classic.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 3, classic.member_id)
    everything = assignment(topic, *range(PARTITIONS))
    assert classic.sync({classic.member_id: everything}).assignment == everything
    assert classic.describe().group_state == "Stable"


def test_requests_that_wait_while_the_group_is_converted_are_to_be_asked_again(new_client, member, topic):
    one, two = new_client(), new_client()
    alone(one, topic)
    two.join_options["protocols"] = {"range": subscription(topic)}
    two.enter()
    one.wait_for_members(2)
    assert member.join(topic).error_code is NONE
    assert two.joined().error_code is REBALANCE


def test_consumers_are_moved_to_the_other_protocol_and_back_one_by_one(log, new_topic, unique):
    """A rolling upgrade, and a rolling downgrade: everything is somebody's after each step."""
    topic = new_topic(partitions=6)
    where = (log.bootstrap_servers, f"group-{unique}", topic)
    members: list[Subscriber] = []

    def shared() -> bool:
        for one in members:
            one.poll()
        owned = [partition for one in members for partition in one.assigned()]
        return sorted(owned) == list(range(6)) and max(len(one.assigned()) for one in members) <= 6 // len(members)

    def replace(place: int, new: Callable[..., Subscriber]) -> None:
        members.pop(place).close()
        members.append(new(*where))
        until(shared)

    members += [ConfluentSubscriber(*where), ConfluentSubscriber(*where)]
    until(shared)
    for new in (ConfluentConsumer, ConfluentConsumer, ConfluentSubscriber, ConfluentSubscriber):
        replace(0, new)
    for one in members:
        one.close()

"""Groups of both protocols in a whole broker: which way they may go, who is taken out, and what a restart finds."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.consumer_group_requests import assigned
from harness.group_requests import REBALANCE_MS, subscription
from harness.group_requests import SESSION_MS as CLASSIC_SESSION_MS
from harness.transaction_in_memory import TOPIC
from tests.broker.test_consumer_group_flow import GROUP, INTERVAL_MS, SESSION_MS, ConsumerBroker

NONE, REBALANCE, UNKNOWN_MEMBER_ID = ErrorCode.none, ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id
NOT_FOUND, INCONSISTENT = ErrorCode.group_id_not_found, ErrorCode.inconsistent_group_protocol
PROTOCOLS = {"range": subscription(TOPIC)}
NOTHING = bytes.fromhex("0000 00000000 ffffffff")


@pytest.fixture
def broker() -> ConsumerBroker:
    return ConsumerBroker()


def classic_member(broker: ConsumerBroker) -> str:
    """The one member of a classic group, which has nothing yet."""
    reply = broker.join(protocols=PROTOCOLS)
    broker.clock.advance(0)
    member_id = str(reply.message.member_id)
    assert broker.sync(member_id, 1, {member_id: NOTHING}).message.error_code is NONE
    return member_id


def mixed(broker: ConsumerBroker) -> tuple[str, int]:
    """A consumer group of the member "one" and a classic one: the id of the latter, and its generation."""
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    answer = broker.join(protocols=PROTOCOLS).message
    assert answer.error_code is NONE
    assert broker.sync(answer.member_id, answer.generation_id).message.error_code is NONE
    return str(answer.member_id), answer.generation_id


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_mix", "may_downgrade"),
    [
        ("disabled", False, False, False),
        ("upgrade", True, True, False),
        ("downgrade", False, True, True),
        ("bidirectional", True, True, True),
    ],
)
def test_policy_says_which_way_groups_may_go(policy, may_upgrade, may_mix, may_downgrade) -> None:
    """KIP-848: group.consumer.migration.policy."""
    broker = ConsumerBroker(group_consumer_migration_policy=policy)
    member_id = classic_member(broker)
    answer = broker.enter("one")
    assert answer.error_code is (NONE if may_upgrade else NOT_FOUND)
    assert broker.heartbeat(member_id, 1) is (REBALANCE if may_upgrade else NONE)

    broker = ConsumerBroker(group_consumer_migration_policy=policy)
    if not may_mix:
        broker.enter("one")
        assert broker.join(protocols=PROTOCOLS).message.error_code is INCONSISTENT
        return
    member_id, _ = mixed(broker)
    assert broker.beat("one", -1).error_code is NONE
    assert (broker.describe() == ("PreparingRebalance", [member_id])) == may_downgrade
    assert (broker.described().error_code is NOT_FOUND) == may_downgrade


def test_classic_member_has_the_session_that_it_asked_for(broker: ConsumerBroker) -> None:
    member_id, generation = mixed(broker)
    broker.clock.advance(CLASSIC_SESSION_MS - 1)
    assert broker.heartbeat(member_id, generation) is NONE
    broker.clock.advance(CLASSIC_SESSION_MS)
    assert broker.heartbeat(member_id, generation) is UNKNOWN_MEMBER_ID
    assert [member.member_id for member in broker.described().members] == ["one"]


def test_classic_member_that_does_not_join_again_in_time_is_taken_out(broker: ConsumerBroker) -> None:
    member_id, generation = mixed(broker)
    broker.clock.advance(INTERVAL_MS)
    broker.enter("two")
    for _ in range(REBALANCE_MS // 5_000):
        assert broker.heartbeat(member_id, generation) is REBALANCE
        broker.beat("one", 2)
        broker.clock.advance(5_000)
    assert broker.heartbeat(member_id, generation) is UNKNOWN_MEMBER_ID


def test_classic_member_that_does_not_ask_for_its_assignment_is_taken_out(broker: ConsumerBroker) -> None:
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    answer = broker.join(protocols=PROTOCOLS).message
    for _ in range(REBALANCE_MS // 5_000):
        assert broker.heartbeat(answer.member_id, answer.generation_id) is NONE
        broker.beat("one", 2)
        broker.clock.advance(5_000)
    assert broker.heartbeat(answer.member_id, answer.generation_id) is UNKNOWN_MEMBER_ID


def test_group_of_both_kinds_outlives_the_broker(broker: ConsumerBroker) -> None:
    member_id, generation = mixed(broker)
    before = broker.described()
    broker.start_again()
    assert broker.described() == before
    assert broker.heartbeat(member_id, generation) is NONE
    broker.clock.advance(CLASSIC_SESSION_MS)
    assert broker.heartbeat(member_id, generation) is UNKNOWN_MEMBER_ID


def test_group_that_was_converted_there_and_back_outlives_the_broker(broker: ConsumerBroker) -> None:
    member_id = classic_member(broker)
    broker.commit(5, member_id, 1)
    assert broker.enter("one").error_code is NONE
    broker.start_again()
    assert {member.member_id for member in broker.described().members} == {member_id, "one"}
    assert broker.beat("one", -1).error_code is NONE
    broker.start_again()
    assert broker.describe()[1] == [member_id]
    assert broker.described().error_code is NOT_FOUND
    assert broker.offset() == 5


def test_group_is_classic_again_when_the_last_of_the_others_is_silent(broker: ConsumerBroker) -> None:
    member_id, generation = mixed(broker)
    for _ in range(SESSION_MS // 5_000):
        broker.heartbeat(member_id, generation)
        broker.clock.advance(5_000)
    assert broker.describe() == ("PreparingRebalance", [member_id])
    again = broker.join(member_id, protocols=PROTOCOLS)
    assert again.message.leader == member_id


def test_static_member_that_comes_back_with_the_classic_protocol_has_what_it_had(broker: ConsumerBroker) -> None:
    """KIP-345 over both protocols: the instance id is what counts. A member that leaves turns the group."""
    broker.enter("one", instance_id="i")
    broker.enter("two")
    broker.beat("two", -1)
    broker.clock.advance(INTERVAL_MS)
    answer = broker.join(version=5, instance_id="i", protocols=PROTOCOLS).message
    assert answer.error_code is NONE
    assert broker.beat("one", 2, instance_id="i").error_code is ErrorCode.fenced_instance_id
    (described,) = broker.described().members
    assert (described.member_id, described.instance_id, described.member_type) == (answer.member_id, "i", 0)
    (has,) = described.assignment.topic_partitions
    assert has.partitions == (0, 1)


def test_static_member_that_comes_back_with_the_consumer_protocol_has_what_it_had(broker: ConsumerBroker) -> None:
    broker.enter("other")
    broker.clock.advance(INTERVAL_MS)
    classic = broker.join(version=5, instance_id="i", protocols=PROTOCOLS).message
    broker.beat("other", 2, owned={broker.topic_id: [0, 1]})
    kept = assigned(broker.beat("other", 2, topics=[TOPIC], rebalance_ms=1, owned={broker.topic_id: [0, 1]}))
    broker.beat("other", 2, owned=kept)
    again = broker.join(classic.member_id, version=5, instance_id="i", protocols=PROTOCOLS).message
    assert again.error_code is NONE
    answer = broker.enter("new", instance_id="i")
    assert answer.error_code is NONE
    assert len((assigned(answer) or {})[broker.topic_id]) == 1
    assert {member.member_id: member.member_type for member in broker.described().members} == {"other": 1, "new": 1}
    assert broker.described().group_id == GROUP

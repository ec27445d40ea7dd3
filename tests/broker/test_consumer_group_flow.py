"""Consumer groups in a whole broker: timers that run out, members that outlive the broker, and settings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from harness.consumer_group_requests import HEARTBEAT, REBALANCE_MS, assigned, beat_fields, join_fields
from harness.transaction_in_memory import TOPIC, make_topic
from oncelog.broker.config.setting import SettingError
from tests.broker.test_group_flow import GroupBroker

NONE, UNKNOWN_MEMBER_ID = ErrorCode.none, ErrorCode.unknown_member_id
GROUP = "readers"
SESSION_MS, INTERVAL_MS = 45_000, 1_000


class ConsumerBroker(GroupBroker):
    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        make_topic(self)

    def enter(self, member_id: str, *topics: str, **more: Any) -> Any:
        fields = join_fields(HEARTBEAT, GROUP, member_id, **{"topics": topics or (TOPIC,)} | more)
        return self.asked(**fields)

    def beat(self, member_id: str, epoch: int, **more: Any) -> Any:
        return self.asked(**beat_fields(HEARTBEAT, GROUP, member_id, epoch, **more))

    def asked(self, **fields: Any) -> Any:
        answer = self.ask("consumer_group_heartbeat", HEARTBEAT, **fields)
        self.settle()
        return answer

    def described(self) -> Any:
        asked = {"group_ids": [GROUP], "include_authorized_operations": False}
        (group,) = self.ask("consumer_group_describe", 1, **asked).groups
        return group

    def start_again(self) -> None:
        self.disk.kill()
        self.restart()

    @property
    def topic_id(self) -> UUID:
        topic = self.core.topics.named(TOPIC)
        assert topic is not None
        return topic.topic_id


@pytest.fixture
def broker() -> ConsumerBroker:
    return ConsumerBroker()


def test_member_that_is_silent_for_its_session_is_taken_out(broker: ConsumerBroker) -> None:
    """KIP-848: "group.consumer.session.timeout.ms": a member that sends no heartbeat for so long is removed."""
    broker.enter("one")
    for _ in range(10):
        broker.clock.advance(SESSION_MS - 1)
        assert broker.beat("one", 2).error_code is NONE
    broker.clock.advance(SESSION_MS)
    assert broker.described().group_state == "Empty"
    assert broker.beat("one", 2).error_code is UNKNOWN_MEMBER_ID


def test_member_that_keeps_what_is_anothers_is_taken_out_after_its_rebalance_timeout(broker: ConsumerBroker) -> None:
    """KIP-848: the rebalance timeout is "the maximum time that the coordinator will wait on the member to revoke"."""
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    assert assigned(broker.enter("two")) == {}
    owned = {broker.topic_id: [0, 1]}
    for _ in range(REBALANCE_MS // 20_000):
        assert broker.beat("one", 2, owned=owned).error_code is NONE
        assert broker.beat("two", 3).error_code is NONE
        broker.clock.advance(20_000)
    assert broker.beat("one", 2, owned=owned).error_code is UNKNOWN_MEMBER_ID
    assert assigned(broker.beat("two", 3)) == owned


def test_member_that_gives_up_in_time_stays(broker: ConsumerBroker) -> None:
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    broker.enter("two")
    kept = assigned(broker.beat("one", 2, owned={broker.topic_id: [0, 1]}))
    assert broker.beat("one", 2, owned=kept).member_epoch == 3
    for _ in range(REBALANCE_MS // 20_000 + 1):
        broker.clock.advance(20_000)
        assert broker.beat("one", 3).error_code is broker.beat("two", 3).error_code is NONE


def test_members_that_come_within_the_interval_are_assigned_to_at_once(broker: ConsumerBroker) -> None:
    """group.consumer.assignment.interval.ms: one assignment for all of them."""
    broker.enter("one")
    assert assigned(broker.enter("two")) == {}
    assert broker.described().group_state == "Assigning"
    broker.clock.advance(INTERVAL_MS - 1)
    assert (broker.described().group_epoch, broker.described().assignment_epoch) == (3, 2)
    assert assigned(broker.beat("one", 2)) is None
    broker.clock.advance(1)
    assert broker.beat("two", 2).error_code is NONE
    assert (broker.described().group_epoch, broker.described().assignment_epoch) == (3, 3)


def test_members_outlive_the_broker(broker: ConsumerBroker) -> None:
    broker.enter("one", instance_id="i")
    broker.clock.advance(INTERVAL_MS)
    broker.enter("two")
    before = broker.described()
    broker.start_again()
    assert broker.described() == before
    kept = assigned(broker.beat("one", 2, owned={broker.topic_id: [0, 1]}, instance_id="i"))
    assert broker.beat("one", 2, owned=kept, instance_id="i").member_epoch == 3
    (other,) = {0, 1} - set(kept[broker.topic_id])
    assert assigned(broker.beat("two", 3)) == {broker.topic_id: [other]}


def test_sessions_begin_anew_after_a_restart(broker: ConsumerBroker) -> None:
    broker.enter("one")
    broker.clock.advance(SESSION_MS - 1)
    broker.start_again()
    broker.clock.advance(SESSION_MS - 1)
    assert broker.beat("one", 2).error_code is NONE
    broker.start_again()
    broker.clock.advance(SESSION_MS)
    assert broker.described().group_state == "Empty"


def test_member_that_keeps_what_is_anothers_has_its_rebalance_timeout_again_after_a_restart(
    broker: ConsumerBroker,
) -> None:
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    broker.enter("two")
    owned = {broker.topic_id: [0, 1]}
    assert broker.beat("one", 2, owned=owned).error_code is NONE
    for _ in range(2):
        for _ in range(REBALANCE_MS // 20_000 - 1):
            broker.clock.advance(20_000)
            assert broker.beat("one", 2, owned=owned).error_code is broker.beat("two", 3).error_code is NONE
        broker.start_again()
    for _ in range(REBALANCE_MS // 20_000):
        assert broker.beat("one", 2, owned=owned).error_code is broker.beat("two", 3).error_code is NONE
        broker.clock.advance(20_000)
    assert broker.beat("one", 2, owned=owned).error_code is UNKNOWN_MEMBER_ID
    assert assigned(broker.beat("two", 3)) == owned


@pytest.mark.parametrize("is_restarted", [False, True])
def test_member_that_gave_up_has_no_rebalance_timeout_any_more(broker: ConsumerBroker, is_restarted: bool) -> None:
    broker.enter("one")
    broker.clock.advance(INTERVAL_MS)
    broker.enter("two")
    kept = assigned(broker.beat("one", 2, owned={broker.topic_id: [0, 1]}))
    assert broker.beat("one", 2, owned=kept).member_epoch == 3
    if is_restarted:
        broker.start_again()
    for _ in range(2 * REBALANCE_MS // 20_000):
        broker.clock.advance(20_000)
        assert broker.beat("one", 3).error_code is broker.beat("two", 3).error_code is NONE


def test_static_member_that_left_for_a_while_is_taken_out_in_time_after_a_restart(broker: ConsumerBroker) -> None:
    broker.enter("one", instance_id="i")
    broker.beat("one", -2, instance_id="i")
    broker.start_again()
    broker.clock.advance(SESSION_MS - 1)
    assert len(broker.described().members) == 1
    broker.clock.advance(1)
    assert broker.described().group_state == "Empty"


def test_static_member_that_does_not_come_back_in_time_is_taken_out(broker: ConsumerBroker) -> None:
    broker.enter("one", instance_id="i")
    assert broker.beat("one", -2, instance_id="i").error_code is NONE
    broker.clock.advance(SESSION_MS - 1)
    assert assigned(broker.enter("again", instance_id="i")) == {broker.topic_id: [0, 1]}
    assert broker.beat("again", -2, instance_id="i").error_code is NONE
    broker.clock.advance(SESSION_MS)
    assert broker.described().members == ()


def test_group_that_is_full_takes_no_more() -> None:
    broker = ConsumerBroker(group_consumer_max_size="1")
    broker.enter("one")
    answer = broker.enter("two")
    assert (answer.error_code, answer.member_id) == (ErrorCode.group_max_size_reached, None)
    assert broker.enter("one").error_code is NONE


def test_settings_say_how_often_and_with_what() -> None:
    broker = ConsumerBroker(
        group_consumer_heartbeat_interval_ms="6000",
        group_consumer_assignors="range",
        group_consumer_session_timeout_ms="50000",
    )
    answer = broker.enter("one")
    assert answer.heartbeat_interval.total_seconds() == 6
    assert broker.described().assignor_name == "range"
    assert broker.enter("two", assignor="uniform").error_code is ErrorCode.unsupported_assignor
    broker.clock.advance(49_999)
    assert broker.described().group_state == "Stable"
    broker.clock.advance(1)
    assert broker.described().group_state == "Empty"


def configure(broker: ConsumerBroker, **values: str) -> None:
    """Give the group settings of its own."""
    configs = [{"name": f"consumer.{name.replace('_', '.')}", "value": value} for name, value in values.items()]
    resource = {"resource_type": 32, "resource_name": GROUP, "configs": configs}
    answer = broker.ask("alter_configs", 2, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code is NONE
    broker.settle()


def test_group_has_settings_of_its_own_from_the_next_heartbeat_on(broker: ConsumerBroker) -> None:
    """KIP-848: "consumer.session.timeout.ms" and "consumer.heartbeat.interval.ms" of a group override the broker's."""
    assert broker.enter("one").heartbeat_interval.total_seconds() == 5
    configure(broker, session_timeout_ms="60000", heartbeat_interval_ms="7000")
    broker.clock.advance(SESSION_MS - 1)
    assert broker.beat("one", 2).heartbeat_interval.total_seconds() == 7
    broker.clock.advance(59_999)
    assert broker.described().group_state == "Stable"
    configure(broker)
    assert broker.beat("one", 2).heartbeat_interval.total_seconds() == 5
    broker.clock.advance(SESSION_MS)
    assert broker.described().group_state == "Empty"


def test_settings_of_a_group_count_for_it_alone(broker: ConsumerBroker) -> None:
    configure(broker, heartbeat_interval_ms="7000")
    fields = join_fields(HEARTBEAT, "others", "one", topics=(TOPIC,))
    assert broker.asked(**fields).heartbeat_interval.total_seconds() == 5
    assert broker.enter("one").heartbeat_interval.total_seconds() == 7


def test_session_that_begins_anew_after_a_restart_is_as_long_as_the_groups(broker: ConsumerBroker) -> None:
    configure(broker, session_timeout_ms="60000")
    broker.enter("one")
    broker.start_again()
    broker.clock.advance(59_999)
    assert broker.described().group_state == "Stable"
    broker.clock.advance(1)
    assert broker.described().group_state == "Empty"


def test_interval_between_assignments_may_be_a_groups_own(broker: ConsumerBroker) -> None:
    configure(broker, assignment_interval_ms="0")
    broker.enter("one")
    broker.enter("two")
    assert broker.described().assignment_epoch == 3


def test_settings_of_a_group_outlive_it(broker: ConsumerBroker) -> None:
    configure(broker, heartbeat_interval_ms="7000")
    broker.enter("one")
    broker.beat("one", -1)
    assert broker.ask("delete_groups", 2, groups_names=[GROUP]).results[0].error_code is NONE
    broker.settle()
    assert broker.enter("one").heartbeat_interval.total_seconds() == 7


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("group_consumer_session_timeout_ms", "44999", "to group.consumer.min.session.timeout.ms, which is 45000"),
        (
            "group_consumer_heartbeat_interval_ms",
            "15001",
            "to group.consumer.max.heartbeat.interval.ms, which is 15000",
        ),
        (
            "group_consumer_max_assignment_interval_ms",
            "999",
            "group.consumer.assignment.interval.ms must be less than or equal to",
        ),
        ("group_consumer_assignors", "sticky", "one of: uniform, range"),
        ("group_consumer_assignors", "", "one assignor at least"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(setting: str, value: str, what: str) -> None:
    with pytest.raises(SettingError, match=what):
        ConsumerBroker(**{setting: value})


def test_interval_between_heartbeats_is_less_than_a_session() -> None:
    settings = {"group_consumer_min_session_timeout_ms": "1", "group_consumer_session_timeout_ms": "5000"}
    with pytest.raises(SettingError, match=r"less than group\.consumer\.session\.timeout\.ms=5000"):
        ConsumerBroker(**settings)


def test_broker_may_be_without_consumer_groups() -> None:
    """group.coordinator.rebalance.protocols: UNSUPPORTED_VERSION, with which clients take it for an older broker."""
    broker = ConsumerBroker(group_coordinator_rebalance_protocols="classic")
    assert broker.enter("one").error_code is ErrorCode.unsupported_version
    assert broker.described().error_code is ErrorCode.unsupported_version


def test_group_that_is_empty_follows_whoever_joins_next(broker: ConsumerBroker) -> None:
    """KIP-848: "an empty group" is converted at once, whatever the migration policy is; its offsets stay."""
    member_id = broker.stable()
    assert broker.commit(7, member_id, 1) is NONE
    broker.leave(member_id)
    assert assigned(broker.enter("one")) == {broker.topic_id: [0, 1]}
    assert broker.describe() == ("Dead", [])
    assert broker.offset() == 7
    broker.start_again()
    assert [member.member_id for member in broker.described().members] == ["one"]
    assert broker.beat("one", -1).error_code is NONE
    assert broker.described().group_state == "Empty"
    member_id = broker.stable()
    assert broker.describe() == ("Stable", [member_id])
    assert broker.described().error_code is ErrorCode.group_id_not_found
    assert broker.offset() == 7
    broker.start_again()
    assert broker.describe() == ("Stable", [member_id])


def test_offsets_that_were_committed_by_nobody_are_there_for_who_joins(broker: ConsumerBroker) -> None:
    assert broker.commit(3) is NONE
    assert assigned(broker.enter("one")) == {broker.topic_id: [0, 1]}
    broker.start_again()
    assert broker.described().group_state == "Stable"
    assert broker.offset() == 3


def test_empty_group_ends_with_its_offsets() -> None:
    broker = ConsumerBroker(offsets_retention_minutes="1")
    broker.enter("one")
    broker.clock.advance(600_000)
    broker.settle()
    assert broker.described().error_code is ErrorCode.group_id_not_found


def test_topics_of_a_regular_expression_are_found_in_the_same_heartbeat(broker: ConsumerBroker) -> None:
    """No other heartbeat is waited for, which would be seconds."""
    assert assigned(broker.enter("one", topics=None, regex="led.*")) == {broker.topic_id: [0, 1]}


def test_member_without_topics_is_given_none_while_an_assignment_is_due(broker: ConsumerBroker) -> None:
    """Its joining changes no subscription; that somebody has left does, and is seen to with the same heartbeat."""
    broker.enter("one")
    broker.enter("two")
    broker.clock.advance(INTERVAL_MS)
    broker.beat("two", -1)
    broker.enter("three", topics=())
    targets = {member.member_id: member.target_assignment.topic_partitions for member in broker.described().members}
    assert [topic.partitions for topic in targets["one"]] == [(0, 1)]
    assert targets["three"] == ()


def test_new_topics_are_looked_at_every_ten_seconds(broker: ConsumerBroker) -> None:
    """A look at all topics costs something, and so does each that is made."""
    broker.enter("one", topics=None, regex="led.*|other")
    broker.beat("one", 2)
    topic = {"name": "other", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    broker.ask(
        "create_topics", 5, topics=[topic], timeout=broker.beat("one", 2).heartbeat_interval, validate_only=False
    )
    broker.settle()
    broker.clock.advance(9_999)
    assert assigned(broker.beat("one", 2)) is None
    broker.clock.advance(1)
    answer = broker.beat("one", 2)
    assert (answer.member_epoch, len(assigned(answer) or ())) == (3, 2)

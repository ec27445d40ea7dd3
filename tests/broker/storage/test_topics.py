"""Topics: making, deleting, describing them, and what of it survives."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, TOPIC, TV1, ProducerInMemory, make_topic
from oncelog.records import Record, build_batch

NONE = ErrorCode.none


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock())


def create(broker: BrokerInMemory, name: str, partitions: int = 1, **fields: Any) -> Any:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    answer = broker.ask("create_topics", 7, topics=[topic | fields], timeout=MINUTE)
    return answer.topics[0]


def delete(broker: BrokerInMemory, name: str) -> ErrorCode:
    return broker.ask("delete_topics", 4, topic_names=[name], timeout=MINUTE).responses[0].error_code


def described(broker: BrokerInMemory, *names: str, create_missing: bool = False) -> dict[str, Any]:
    asked = [{"name": name} for name in names]
    answer = broker.ask("metadata", 7, topics=asked, allow_auto_topic_creation=create_missing)
    return {topic.name: topic for topic in answer.topics}


def test_topic_that_was_acknowledged_survives_a_power_cut(broker: BrokerInMemory) -> None:
    made = create(broker, "kept", 3)
    assert (made.error_code, made.num_partitions) == (NONE, 3)
    broker.disk.crash()
    broker.restart()
    assert len(described(broker, "kept")["kept"].partitions) == 3
    topic = broker.core.topics.named("kept")
    assert topic is not None
    assert topic.topic_id == made.topic_id


def test_topic_is_not_acknowledged_before_it_is_durable(broker: BrokerInMemory) -> None:
    broker.settle()
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    reply = broker.send("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert not reply.came
    broker.settle()
    assert reply.came


def send_create(broker: BrokerInMemory, *names: str) -> Reply:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} for name in names
    ]
    return broker.send("create_topics", 7, topics=topics, timeout=MINUTE)


@pytest.mark.parametrize("name", ["a.b", "a_b"])
def test_topic_in_the_way_is_not_told_of_before_it_is_durable(broker: BrokerInMemory, name: str) -> None:
    """As Kafka's controller: an answer about what others have asked for waits until that cannot be lost."""
    broker.settle()
    first, second = send_create(broker, "a.b"), send_create(broker, name)
    assert not second.came
    broker.settle()
    errors = [reply.message.topics[0].error_code for reply in (first, second)]
    assert errors[0] is NONE
    assert errors[1] in (ErrorCode.topic_already_exists, ErrorCode.invalid_topic_exception)


def test_topic_is_answered_with_its_own_id_also_when_another_has_its_name_by_then(broker: BrokerInMemory) -> None:
    """One request makes two topics: the disk has one of them, and is slow with the other."""
    broker.settle()
    reply = send_create(broker, "quick", "slow")
    broker.disk.take_step()
    made = broker.core.topics.named("quick")
    assert made is not None
    assert not reply.came
    slow = broker.disk.steps.popleft()
    assert delete(broker, "quick") is NONE
    again = create(broker, "quick")
    broker.disk.steps.append(slow)
    broker.settle()
    assert {topic.name: topic.error_code for topic in reply.message.topics} == {"quick": NONE, "slow": NONE}
    assert reply.message.topics[0].topic_id == made.topic_id != again.topic_id


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ErrorCode.invalid_topic_exception),
        ("..", ErrorCode.invalid_topic_exception),
        ("a/b", ErrorCode.invalid_topic_exception),
        ("x" * 250, ErrorCode.invalid_topic_exception),
        ("taken", ErrorCode.topic_already_exists),
        ("a_b", ErrorCode.invalid_topic_exception),
    ],
)
def test_name_that_kafka_would_not_take_is_refused(broker: BrokerInMemory, name: str, error: ErrorCode) -> None:
    create(broker, "taken")
    create(broker, "a.b")
    assert create(broker, name).error_code is error


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"num_partitions": 0}, ErrorCode.invalid_partitions),
        ({"num_partitions": 10_001}, ErrorCode.policy_violation),
        ({"num_partitions": 2**31 - 1}, ErrorCode.policy_violation),
        ({"replication_factor": 3}, ErrorCode.invalid_replication_factor),
        ({"configs": [{"name": "no.such", "value": "1"}]}, ErrorCode.invalid_config),
        ({"configs": [{"name": "segment.bytes", "value": "5"}]}, ErrorCode.invalid_config),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, ErrorCode.invalid_request),
    ],
)
def test_topic_that_one_broker_cannot_have_is_refused(
    broker: BrokerInMemory, fields: dict[str, Any], error: ErrorCode
) -> None:
    refused = create(broker, "t", **fields)
    assert refused.error_code is error
    assert refused.error_message
    assert broker.core.topics.named("t") is None


def test_request_for_more_partitions_than_one_may_make_makes_none(broker: BrokerInMemory) -> None:
    topics = [
        {"name": name, "num_partitions": 6000, "replication_factor": 1, "assignments": [], "configs": []}
        for name in ("a", "b")
    ]
    answer = broker.ask("create_topics", 5, topics=topics, timeout=MINUTE, validate_only=False)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.policy_violation] * 2
    assert broker.core.topics.named("a") is None


def test_metadata_before_v12_names_topics_and_not_ids(broker: BrokerInMemory) -> None:
    """v10 and v11 have a field for the id and no way to answer for a topic without a name (KIP-516)."""
    topic_id = create(broker, "t").topic_id
    for asked in ({"topic_id": topic_id, "name": None}, {"topic_id": topic_id, "name": "t"}):
        answer = broker.ask("metadata", 11, topics=[asked], include_topic_authorized_operations=False)
        assert [(topic.error_code, topic.name) for topic in answer.topics] == [
            (ErrorCode.invalid_request, asked["name"] or "")
        ]


def test_validate_only_makes_nothing(broker: BrokerInMemory) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE, validate_only=True)
    assert answer.topics[0].error_code is NONE
    assert broker.core.topics.named("t") is None


def test_topic_is_made_when_a_client_first_asks_for_it(broker: BrokerInMemory) -> None:
    assert described(broker, "t")["t"].error_code is ErrorCode.unknown_topic_or_partition
    assert described(broker, "t", create_missing=True)["t"].error_code is NONE


def test_who_asks_for_a_deleted_topic_is_told_once_that_it_is_unknown_while_another_one_is_made(
    broker: BrokerInMemory,
) -> None:
    make_topic(broker)
    before = broker.core.topics.named(TOPIC)
    assert before is not None
    assert delete(broker, TOPIC) is NONE
    found = described(broker, TOPIC, "other", create_missing=True)
    assert [found[name].error_code for name in (TOPIC, "other")] == [ErrorCode.unknown_topic_or_partition, NONE]
    again = described(broker, TOPIC, create_missing=True)[TOPIC]
    assert (again.error_code, len(again.partitions)) == (NONE, 1)
    after = broker.core.topics.named(TOPIC)
    assert after is not None
    assert after.topic_id != before.topic_id


def test_who_asks_for_a_topic_that_was_made_anew_is_told_of_it(broker: BrokerInMemory) -> None:
    make_topic(broker)
    assert delete(broker, TOPIC) is NONE
    make_topic(broker)
    assert described(broker, TOPIC, create_missing=True)[TOPIC].error_code is NONE


def test_auto_creation_can_be_switched_off() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), auto_create_topics_enable="false")
    assert described(broker, "t", create_missing=True)["t"].error_code is ErrorCode.unknown_topic_or_partition


def test_topic_made_anew_under_a_deleted_name_is_empty(broker: BrokerInMemory) -> None:
    make_topic(broker)
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    producer.end(committed=True)
    broker.settle()
    assert delete(broker, TOPIC) is NONE
    assert delete(broker, TOPIC) is ErrorCode.unknown_topic_or_partition
    make_topic(broker)
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    assert partition.log.log_end_offset == 0
    answer = broker.ask("offset_fetch", 7, group_id="tellers", topics=[{"name": TOPIC, "partition_indexes": [0]}])
    assert answer.topics[0].partitions[0].committed_offset == -1
    broker.disk.crash()
    broker.restart()
    assert broker.core.topics.named(TOPIC) is not None


def test_deletion_that_a_crash_interrupted_is_finished_at_the_start(broker: BrokerInMemory) -> None:
    make_topic(broker)
    broker.settle()
    broker.send("delete_topics", 4, topic_names=[TOPIC], timeout=MINUTE)
    while broker.core.topics.named(TOPIC) is not None:
        assert broker.disk.take_step()
    broker.disk.kill()
    broker.restart()
    assert broker.core.topics.named(TOPIC) is None
    assert f"{TOPIC}-0" not in broker.disk.list_directory(DIRECTORY)


def test_transaction_ends_although_one_of_its_topics_was_deleted(broker: BrokerInMemory) -> None:
    make_topic(broker)
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    assert delete(broker, TOPIC) is NONE
    producer.end(committed=True)
    broker.settle()
    state = broker.ask("describe_transactions", 0, transactional_ids=["teller"]).transaction_states[0]
    assert state.transaction_state == "CompleteCommit"


def test_coordinators_topics_cannot_be_deleted(broker: BrokerInMemory) -> None:
    broker.ask("find_coordinator", 3, key="g", key_type=0)
    assert delete(broker, "__consumer_offsets") is ErrorCode.invalid_topic_exception


def test_settings_say_where_their_values_come_from() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), log_segment_bytes="2000000")
    create(broker, "t", configs=[{"name": "retention.ms", "value": "5"}])
    resource = {
        "resource_type": 2,
        "resource_name": "t",
        "configuration_keys": ["retention.ms", "segment.bytes", "flush.ms"],
    }
    answer = broker.ask("describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=True)
    found = {entry.name: entry for entry in answer.results[0].configs}
    topic_config, static_broker, default = 1, 4, 5
    assert {name: (entry.value, entry.config_source) for name, entry in found.items()} == {
        "retention.ms": ("5", topic_config),
        "segment.bytes": ("2000000", static_broker),
        "flush.ms": (str(2**63 - 1), default),
    }
    assert [(synonym.name, synonym.source) for synonym in found["segment.bytes"].synonyms] == [
        ("log.segment.bytes", static_broker),
        ("log.segment.bytes", default),
    ]
    assert all(entry.documentation for entry in found.values())


class TestLongestName:
    """Kafka takes 249 characters, which leaves room for the number of a partition in the name of its directory."""

    NAMES = tuple(end.rjust(249, "x") for end in ("first", "other"))

    def test_topic_is_made_written_deleted_and_made_again(self, broker: BrokerInMemory) -> None:
        for again in range(3):
            for name in self.NAMES:
                assert create(broker, name, 3).error_code is NONE
                assert write(broker, name, f"{again}") == 0
            broker.clock.advance(100_000)
            broker.settle()
            broker.disk.kill()
            broker.restart()
            for name in self.NAMES:
                assert write(broker, name, f"{again} after a restart") == 1
            # At the same moment, and cut to the same characters.
            assert [delete(broker, name) for name in self.NAMES] == [NONE, NONE]
            assert described(broker, *self.NAMES)[self.NAMES[0]].error_code is ErrorCode.unknown_topic_or_partition
        broker.clock.advance(100_000)
        broker.settle()
        assert not [name for name in broker.disk.list_directory(DIRECTORY) if "x" * 100 in name]
        assert not broker.failures

    def test_topic_that_was_deleted_is_gone_after_a_power_cut(self, broker: BrokerInMemory) -> None:
        for name in self.NAMES:
            assert create(broker, name, 3).error_code is NONE
            assert delete(broker, name) is NONE
        broker.disk.crash()
        broker.restart()
        broker.settle()
        assert list(broker.core.topics) == []
        assert create(broker, self.NAMES[0]).error_code is NONE

    def test_partition_whose_directory_had_a_longer_name_is_not_made(self, broker: BrokerInMemory) -> None:
        """The controller of Kafka takes it, and the broker's disk does not."""
        name = self.NAMES[0]
        assert create(broker, name).error_code is NONE
        for count, error in ((100_001, ErrorCode.invalid_partitions), (100_000, ErrorCode.policy_violation)):
            asked = [{"name": name, "count": count, "assignments": None}]
            answer = broker.ask("create_partitions", 3, topics=asked, timeout=MINUTE, validate_only=False)
            assert answer.results[0].error_code is error


def write(broker: BrokerInMemory, topic: str, value: str) -> int:
    """Where one record is written in partition 0."""
    batch = build_batch([Record(None, value.encode(), timestamp_ms=broker.clock.now_ms())])
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
    (found,) = answer.responses[0].partition_responses
    assert found.error_code is NONE, found
    return int(found.base_offset)


class TestWords:
    """Scripts look for these, to the letter: ReplicationControlManager, Topic and QuorumController of Kafka 4."""

    def test_topic_that_is_there_already(self, broker: BrokerInMemory) -> None:
        create(broker, "orders")
        assert create(broker, "orders").error_message == "Topic 'orders' already exists."

    def test_topic_that_differs_in_dots_alone(self, broker: BrokerInMemory) -> None:
        create(broker, "a.b")
        assert create(broker, "a_b").error_message == "Topic 'a_b' collides with existing topic: a.b"

    def test_number_of_partitions_that_no_topic_has(self, broker: BrokerInMemory) -> None:
        message = "Number of partitions was set to an invalid non-positive value."
        assert create(broker, "orders", 0).error_message == message

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
            ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ],
    )
    def test_name_that_is_none(self, broker: BrokerInMemory, name: str, reason: str) -> None:
        assert create(broker, name).error_message == f"Topic name is invalid: {reason}"

    @pytest.mark.parametrize(
        ("count", "message"),
        [
            (3, "Topic already has 3 partition(s)."),
            (2, "The topic orders currently has 3 partition(s); 2 would not be an increase."),
        ],
    )
    def test_partitions_that_are_no_more(self, broker: BrokerInMemory, count: int, message: str) -> None:
        create(broker, "orders", 3)
        asked = [{"name": "orders", "count": count, "assignments": None}]
        answer = broker.ask("create_partitions", 3, topics=asked, timeout=MINUTE, validate_only=False)
        assert answer.results[0].error_message == message

    def test_settings_of_a_topic_that_is_not_there(self, broker: BrokerInMemory) -> None:
        configs = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
        resources = [{"resource_type": 2, "resource_name": "orders", "configs": configs}]
        answer = broker.ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
        assert answer.responses[0].error_message == "The topic 'orders' does not exist."

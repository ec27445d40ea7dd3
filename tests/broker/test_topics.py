"""Topics: making, deleting, describing them, and what of it survives."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from tests.support.manual_clock import ManualClock
from tests.support.transaction_in_memory import MINUTE, TOPIC, TV1, ProducerInMemory, make_topic

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

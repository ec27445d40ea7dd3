"""More partitions, deleted records, and what there is to see: the rules of a one-node Kafka, and what survives."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE
from oncelog.records import Record, build_batch

NONE = ErrorCode.none


@pytest.fixture
def broker() -> BrokerInMemory:
    return BrokerInMemory(SteppedDisk(), ManualClock())


def create(broker: BrokerInMemory, name: str, partitions: int = 1, **configs: str) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer = broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE, validate_only=False)
    assert answer.topics[0].error_code is NONE, answer.topics[0].error_message


def grow(
    broker: BrokerInMemory,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    version: int = 3,
    validate_only: bool = False,
) -> ErrorCode:
    asked = {
        "name": name,
        "count": count,
        "assignments": None if assignments is None else [{"broker_ids": ids} for ids in assignments],
    }
    answer = broker.ask("create_partitions", version, topics=[asked], timeout=MINUTE, validate_only=validate_only)
    return answer.results[0].error_code


def partitions(broker: BrokerInMemory, name: str) -> int:
    topic = broker.core.topics.named(name)
    return 0 if topic is None else len(topic.partitions)


def write(broker: BrokerInMemory, name: str, count: int, key: bytes | None = None, partition: int = 0) -> Any:
    batch = build_batch([Record(key, b"value", timestamp_ms=broker.clock.now_ms()) for _ in range(count)])
    data = [{"name": name, "partition_data": [{"index": partition, "records": batch}]}]
    answer = broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
    return answer.responses[0].partition_responses[0]


def delete_records(broker: BrokerInMemory, name: str, offset: int, partition: int = 0, version: int = 2) -> Any:
    topics = [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
    answer = broker.ask("delete_records", version, topics=topics, timeout=MINUTE).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


# --- more partitions


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_new_partitions_take_records_and_survive_a_power_cut(broker: BrokerInMemory, version: int) -> None:
    create(broker, "t", 2)
    assert grow(broker, "t", 5, version=version) is NONE
    assert write(broker, "t", 1, partition=4).error_code is NONE
    broker.disk.crash()
    broker.restart()
    assert partitions(broker, "t") == 5


def test_partitions_are_not_there_before_they_are_durable(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    broker.settle()
    asked = {"name": "t", "count": 3, "assignments": None}
    reply = broker.send("create_partitions", 3, topics=[asked], timeout=MINUTE, validate_only=False)
    assert not reply.came
    assert partitions(broker, "t") == 1
    broker.settle()
    assert reply.came
    assert partitions(broker, "t") == 3


def test_partitions_of_one_request_after_the_other_are_counted_from_what_the_first_made(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    broker.settle()
    replies = [
        broker.send(
            "create_partitions",
            3,
            topics=[{"name": "t", "count": 3, "assignments": None}],
            timeout=MINUTE,
            validate_only=False,
        )
        for _ in range(2)
    ]
    broker.settle()
    errors = [reply.message.results[0].error_code for reply in replies]
    assert errors == [NONE, ErrorCode.invalid_partitions]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("t", 1, None, ErrorCode.invalid_partitions),
        ("t", 2, None, ErrorCode.invalid_partitions),
        ("t", 0, None, ErrorCode.invalid_partitions),
        ("t", -1, None, ErrorCode.invalid_partitions),
        ("missing", 3, None, ErrorCode.unknown_topic_or_partition),
        ("t", 4, [[1]], ErrorCode.invalid_replica_assignment),
        ("t", 3, [], ErrorCode.invalid_replica_assignment),
        ("t", 3, [[7]], ErrorCode.invalid_replica_assignment),
        ("t", 3, [[1, 1]], ErrorCode.invalid_replica_assignment),
        ("t", 3, [[]], ErrorCode.invalid_replica_assignment),
        ("t", 10_003, None, ErrorCode.policy_violation),
        ("__consumer_offsets", 60, None, ErrorCode.invalid_topic_exception),
    ],
)
def test_partitions_that_one_broker_cannot_add_are_refused(
    broker: BrokerInMemory, name: str, count: int, assignments: list[list[int]] | None, error: ErrorCode
) -> None:
    create(broker, "t", 2)
    broker.ask("find_coordinator", 3, key="g", key_type=0)
    assert grow(broker, name, count, assignments) is error
    assert partitions(broker, "t") == 2


def test_assignment_names_this_broker_for_each_new_partition(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    assert grow(broker, "t", 3, [[1], [1]]) is NONE
    assert partitions(broker, "t") == 3


def test_validation_adds_no_partition(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    assert grow(broker, "t", 3, validate_only=True) is NONE
    assert partitions(broker, "t") == 1


def test_topic_that_is_made_again_does_not_inherit_the_partitions_of_the_deleted_one(broker: BrokerInMemory) -> None:
    create(broker, "t", 1)
    grow(broker, "t", 4)
    broker.ask("delete_topics", 4, topic_names=["t"], timeout=MINUTE)
    create(broker, "t", 2)
    broker.disk.crash()
    broker.restart()
    assert partitions(broker, "t") == 2


# --- deleted records


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_an_offset_are_gone_also_after_a_power_cut(broker: BrokerInMemory, version: int) -> None:
    create(broker, "t")
    write(broker, "t", 10)
    assert delete_records(broker, "t", 4, version=version) == (NONE, 4)
    assert delete_records(broker, "t", 2) == (NONE, 4), "the beginning never moves back"
    broker.disk.crash()
    broker.restart()
    partition = broker.core.topics.partition("t", 0)
    assert partition is not None
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (4, 10)


def test_minus_one_deletes_everything_and_the_log_goes_on_behind_it(broker: BrokerInMemory) -> None:
    create(broker, "t")
    write(broker, "t", 10)
    assert delete_records(broker, "t", -1) == (NONE, 10)
    broker.disk.crash()
    broker.restart()
    assert write(broker, "t", 1).base_offset == 10


def test_segments_before_the_beginning_go_with_the_next_look(broker: BrokerInMemory) -> None:
    create(broker, "t", segment_ms="1")
    for _ in range(3):
        write(broker, "t", 1)
        broker.clock.advance(10)
    delete_records(broker, "t", 2)
    assert f"{0:020d}.log" in broker.disk.list_directory(f"{DIRECTORY}/t-0")
    broker.clock.advance(300_000)
    broker.settle()
    broker.clock.advance(60_000)
    logs = [name for name in broker.disk.list_directory(f"{DIRECTORY}/t-0") if name.endswith(".log")]
    assert logs == [f"{2:020d}.log"]


@pytest.mark.parametrize(
    ("name", "offset", "error"),
    [
        ("t", 11, ErrorCode.offset_out_of_range),
        ("t", -2, ErrorCode.offset_out_of_range),
        ("missing", 0, ErrorCode.unknown_topic_or_partition),
        ("compacted", 0, ErrorCode.policy_violation),
        ("both", 0, NONE),
        ("kept", 0, NONE),
        ("__consumer_offsets", 0, ErrorCode.invalid_topic_exception),
    ],
)
def test_records_that_may_not_be_deleted_stay(broker: BrokerInMemory, name: str, offset: int, error: ErrorCode) -> None:
    create(broker, "t")
    create(broker, "compacted", cleanup_policy="compact")
    create(broker, "both", cleanup_policy="compact,delete")
    create(broker, "kept", cleanup_policy="")
    broker.ask("find_coordinator", 3, key="g", key_type=0)
    write(broker, "t", 10)
    assert delete_records(broker, name, offset)[0] is error


# --- what a topic's settings ask of records


def test_record_without_key_is_refused_where_records_are_compacted(broker: BrokerInMemory) -> None:
    create(broker, "t", cleanup_policy="compact")
    refused = write(broker, "t", 2)
    assert refused.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in refused.record_errors] == [0, 1]
    assert write(broker, "t", 2, key=b"k").error_code is NONE


# --- what there is to see


def described(broker: BrokerInMemory, names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    return broker.ask(
        "describe_topic_partitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )


def test_partitions_are_described_a_page_at_a_time(broker: BrokerInMemory) -> None:
    for name, count in (("b", 3), ("a", 2)):
        create(broker, name, count)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        answer = described(broker, [], 2, cursor)
        assert sum(len(topic.partitions) for topic in answer.topics) <= 2
        seen += [(topic.name, item.partition_index) for topic in answer.topics for item in topic.partitions]
        cursor = answer.next_cursor and (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        pages += 1
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert pages == 3


@pytest.mark.parametrize("cursor", [("a", -1), ("aa", 0)])
def test_cursor_that_is_none_of_the_topics_is_refused(broker: BrokerInMemory, cursor: tuple[str, int]) -> None:
    for name in ("a", "b"):
        create(broker, name)
    answer = described(broker, ["a", "b"], 9, cursor)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request] * 2


def test_limit_of_the_broker_counts_where_it_is_lower() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), max_request_partition_size_limit="2")
    create(broker, "t", 5)
    answer = described(broker, ["t"], 100)
    assert len(answer.topics[0].partitions) == 2
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 2)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_directory_is_described_with_what_each_partition_takes(broker: BrokerInMemory, version: int) -> None:
    create(broker, "t", 2)
    write(broker, "t", 100)
    (directory,) = broker.ask("describe_log_dirs", version, topics=None).results
    assert directory.log_dir == DIRECTORY
    sizes = {item.partition_index: item.partition_size for item in directory.topics[0].partitions}
    assert sizes == {0: len(broker.disk.read_file(f"{DIRECTORY}/t-0/{0:020d}.log")), 1: 0}
    if version >= 4:
        assert 0 < directory.usable_bytes < directory.total_bytes


def test_no_leader_is_ever_to_be_elected(broker: BrokerInMemory) -> None:
    create(broker, "t")
    asked = [{"topic": "t", "partitions": [0, 5]}]
    answer = broker.ask("elect_leaders", 2, election_type=0, topic_partitions=asked, timeout=MINUTE)
    errors = [item.error_code for item in answer.replica_election_results[0].partition_result]
    assert errors == [ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition]
    everything = broker.ask("elect_leaders", 2, election_type=0, topic_partitions=None, timeout=MINUTE)
    assert [(topic.topic, topic.partition_result) for topic in everything.replica_election_results] == [("t", ())]


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([1], NONE),
        ([2], ErrorCode.invalid_replica_assignment),
        ([1, 2], ErrorCode.invalid_replica_assignment),
        (None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_partition_can_only_stay_where_it_is(
    broker: BrokerInMemory, replicas: list[int] | None, error: ErrorCode
) -> None:
    create(broker, "t")
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": replicas}]}]
    answer = broker.ask(
        "alter_partition_reassignments", 1, timeout=MINUTE, allow_replication_factor_change=True, topics=topics
    )
    assert answer.responses[0].partitions[0].error_code is error
    assert broker.ask("list_partition_reassignments", 0, timeout=MINUTE, topics=None).topics == ()


def test_resources_with_settings_are_listed_by_type(broker: BrokerInMemory) -> None:
    create(broker, "t")
    configs = [{"name": "consumer.session.timeout.ms", "value": "50000"}]
    resource = {"resource_type": 32, "resource_name": "g", "configs": configs}
    broker.ask("alter_configs", 2, resources=[resource], validate_only=False)
    answer = broker.ask("list_config_resources", 1, resource_types=[])
    expected = {(2, "t"), (4, "1"), (32, "g")}
    assert {(item.resource_type, item.resource_name) for item in answer.config_resources} == expected
    assert broker.ask("list_config_resources", 0).config_resources == ()
    assert broker.ask("list_config_resources", 1, resource_types=[77]).error_code is ErrorCode.unsupported_version


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_topics_are_not_deleted_where_that_is_switched_off(version: int) -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), delete_topic_enable="false")
    create(broker, "t")
    fields = {"topics": [{"name": "t", "topic_id": None}]} if version >= 6 else {"topic_names": ["t"]}
    answer = broker.ask("delete_topics", version, timeout=MINUTE, **fields)
    expected = ErrorCode.topic_deletion_disabled if version >= 3 else ErrorCode.invalid_request
    assert answer.responses[0].error_code is expected
    assert partitions(broker, "t") == 1


def test_topic_to_delete_is_named_by_its_name_or_its_id_and_once(broker: BrokerInMemory) -> None:
    create(broker, "t")
    topic = broker.core.topics.named("t")
    assert topic is not None
    both, none, twice = (
        broker.ask("delete_topics", 6, timeout=MINUTE, topics=asked).responses
        for asked in (
            [{"name": "t", "topic_id": topic.topic_id}],
            [{"name": None, "topic_id": None}],
            [{"name": "t", "topic_id": None}] * 2,
        )
    )
    assert [len(answer) for answer in (both, none, twice)] == [1, 1, 1]
    assert {answer[0].error_code for answer in (both, none, twice)} == {ErrorCode.invalid_request}
    gone = broker.ask("delete_topics", 6, timeout=MINUTE, topics=[{"name": None, "topic_id": topic.topic_id}])
    assert gone.responses[0].error_code is NONE


def test_topic_that_is_named_twice_is_refused_once(broker: BrokerInMemory) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = broker.ask("create_topics", 5, topics=[topic, topic], timeout=MINUTE, validate_only=False)
    assert [(item.name, item.error_code) for item in answer.topics] == [("t", ErrorCode.invalid_request)]
    assert partitions(broker, "t") == 0

"""One of several log directories fails: its partitions are offline, the others serve, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, NONE, TOPIC, TV1, TV2, ProducerInMemory, Protocol, make_topic, visible
from oncelog.environment import DiskError
from oncelog.records import Record, build_batch
from tests.broker.test_offline_partitions import name_in

HOME, OTHER = "/home", "/other"
STORAGE = ErrorCode.kafka_storage_error
SETTINGS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}


def started(**settings: str) -> BrokerInMemory:
    """Partition 0 of each topic is at home, partition 1 in the other directory."""
    clock = ManualClock()
    disk = SteppedDisk(0, clock.now_ms)
    broker = BrokerInMemory(disk, clock, (HOME, OTHER), log_segment_delete_delay_ms="0", **SETTINGS, **settings)
    make_topic(broker)
    for kind in (0, 1):
        broker.ask("find_coordinator", 3, key="any", key_type=kind)
        broker.settle()
    for topic in (TOPIC, "__transaction_state", "__consumer_offsets"):
        assert [one.directory.path for one in broker.core.topics.named(topic).partitions] == [HOME, OTHER]
    return broker


def fail(broker: BrokerInMemory, directory: str = OTHER) -> None:
    broker.disk.failing.add(directory)


def noticed(broker: BrokerInMemory) -> None:
    """The disk of the other directory has failed, and the broker has seen it."""
    fail(broker)
    assert produced(broker, 1) is STORAGE


def produced(broker: BrokerInMemory, partition: int, topic: str = TOPIC) -> ErrorCode:
    batch = build_batch([Record(None, b"plain", timestamp_ms=broker.clock.now_ms())])
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    answer = broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
    return answer.responses[0].partition_responses[0].error_code


def fetched(broker: BrokerInMemory, partition: int, *, wait_ms: int = 0) -> Any:
    asked = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 2**20}
    return broker.send(
        "fetch",
        11,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=10**6 if wait_ms else 0,
        isolation_level=0,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
    )


def told(reply: Any) -> ErrorCode:
    return reply.message.responses[0].partitions[0].error_code


def again(broker: BrokerInMemory, how: str) -> None:
    """Start again, with the disk that has failed."""
    if how == "stop":
        broker.core.stop()
    elif how == "kill":
        broker.disk.kill()
    else:
        broker.disk.crash()
    broker.disk.steps.clear()
    broker.disk.work_again()
    broker.restart()
    broker.settle()


def test_directory_that_fails_is_offline_with_its_partitions_and_the_others_serve() -> None:
    broker = started()
    waiting = fetched(broker, 1, wait_ms=60_000)
    noticed(broker)
    assert told(waiting) is STORAGE, "who waits is woken"
    assert told(fetched(broker, 1)) is STORAGE
    assert (produced(broker, 0), told(fetched(broker, 0))) == (NONE, NONE)
    here, there = name_in(0, "clerk"), name_in(1, "clerk")
    for kind in (0, 1):
        answer = broker.ask("find_coordinator", 4, key_type=kind, coordinator_keys=[here, there])
        assert [one.error_code for one in answer.coordinators] == [NONE, ErrorCode.coordinator_not_available]
    answer = broker.ask("init_producer_id", 4, transactional_id=there, transaction_timeout=MINUTE)
    assert answer.error_code is ErrorCode.not_coordinator
    home, other = broker.ask("describe_log_dirs", 4, topics=None).results
    assert (home.error_code, {topic.name for topic in home.topics} >= {TOPIC}) == (NONE, True)
    assert (other.log_dir, other.error_code, other.topics, other.total_bytes) == (OTHER, STORAGE, (), -1)
    assert broker.failures == []


@pytest.mark.parametrize("directory", [HOME, None], ids=["home", "no path"])
def test_broker_without_its_home_stops(directory: str | None) -> None:
    broker = started()
    if directory is None:
        broker.core.fail(DiskError("something"))
    else:
        fail(broker, HOME)
        assert not broker.send("create_topics", 7, topics=[new_topic("more", 1)], timeout=MINUTE).came
        broker.settle()
    assert len(broker.failures) == 1
    assert broker.disk.exists(f"{OTHER}/{TOPIC}-1")


def new_topic(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}


def create(broker: BrokerInMemory, name: str, partitions: int) -> None:
    answer = broker.ask("create_topics", 7, topics=[new_topic(name, partitions)], timeout=MINUTE)
    assert answer.topics[0].error_code is NONE
    broker.settle()


def test_new_partitions_are_not_put_into_a_directory_that_is_offline() -> None:
    broker = started()
    noticed(broker)
    create(broker, "new", 4)
    assert {produced(broker, index, "new") for index in range(4)} == {NONE}
    again(broker, "stop")
    assert {produced(broker, index, "new") for index in range(4)} == {NONE}


def test_topic_is_made_although_a_directory_fails_meanwhile() -> None:
    broker = started()
    fail(broker)
    create(broker, "new", 4)
    assert [produced(broker, index, "new") for index in range(4)].count(STORAGE) == 1
    again(broker, "kill")
    assert {produced(broker, index, "new") for index in range(4)} == {NONE}


@pytest.mark.parametrize("how", ["stop", "kill", "power cut"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_topic_that_was_deleted_and_made_anew_meanwhile_has_nothing_of_the_one_before(
    how: str, partitions: int
) -> None:
    broker = started()
    assert (produced(broker, 0), produced(broker, 1)) == (NONE, NONE)
    noticed(broker)
    broker.ask("delete_topics", 4, topic_names=[TOPIC], timeout=MINUTE)
    broker.settle()
    create(broker, TOPIC, partitions)
    again(broker, how)
    found = broker.core.topics.named(TOPIC).partitions
    assert [(one.directory.path, one.log.log_end_offset) for one in found] == [(HOME, 0)] * partitions
    assert not broker.disk.exists(f"{OTHER}/{TOPIC}-1")


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("how", ["stop", "kill", "power cut"])
def test_transaction_that_was_durable_ends_without_the_directory_and_has_its_marker_when_it_is_back(
    protocol: Protocol, committed: bool, how: str
) -> None:
    broker = started()
    here = name_in(0, "clerk")
    producer = ProducerInMemory(broker, protocol, here, name_in(0, "group"))
    producer.write("wait", 7)
    broker.core.durability.make_durable(one.log for one in broker.core.topics.partitions())
    broker.settle()
    noticed(broker)
    producer.end(committed=committed)
    broker.settle()
    assert visible(broker, 0) == (["wait"] if committed else [])
    reply = broker.send("init_producer_id", 4, transactional_id=here, transaction_timeout=MINUTE)
    broker.clock.advance(500)
    assert reply.message.error_code is ErrorCode.concurrent_transactions, "the id goes on when its end is complete"
    broker.core.durability.retire()
    broker.settle()
    again(broker, how)
    assert [visible(broker, index) for index in (0, 1)] == [["wait"] if committed else []] * 2
    ProducerInMemory(broker, protocol, here)
    assert broker.core.start_report.damage == ()


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("how", ["stop", "kill", "power cut"])
def test_commit_of_records_that_were_not_durable_is_refused_and_the_abort_is_carried_out(
    protocol: Protocol, how: str
) -> None:
    broker = started()
    here = name_in(0, "clerk")
    producer = ProducerInMemory(broker, protocol, here, name_in(0, "group"))
    producer.write("lost", 7)
    noticed(broker)
    reply = producer.send_end(committed=True)
    broker.settle()
    abortable = ErrorCode.transaction_abortable if protocol is TV2 else ErrorCode.invalid_producer_id_mapping
    assert reply.message.error_code is abortable
    producer.end(committed=False)
    again(broker, how)
    assert [visible(broker, index) for index in (0, 1)] == [[], []]
    ProducerInMemory(broker, protocol, here)


def test_disk_that_only_refuses_writes_still_gives_the_write_ahead_log_what_a_commit_needs() -> None:
    broker = started()
    producer = ProducerInMemory(broker, TV2, name_in(0, "clerk"), name_in(0, "group"))
    producer.write("first", 1)
    producer.end(committed=True)
    producer.write("second", 2)
    broker.settle()
    noticed(broker)
    broker.disk.failing.clear()
    producer.end(committed=True)
    again(broker, "power cut")
    assert [visible(broker, index) for index in (0, 1)] == [["first", "second"]] * 2


@pytest.mark.parametrize("when", ["append", "sync", "checkpoint", "retention", "read", "list offsets", "stop"])
def test_whoever_meets_the_failure_first_takes_the_directory_offline(when: str) -> None:
    broker = started(log_retention_ms="1")
    assert (produced(broker, 0), produced(broker, 1)) == (NONE, NONE)
    broker.core.durability.make_durable([])
    fail(broker)
    broker.clock.advance(10)
    others: dict[str, Callable[[], object]] = {
        "append": lambda: produced(broker, 1),
        "sync": lambda: broker.core.durability.make_durable(one.log for one in broker.core.topics.partitions()),
        "checkpoint": lambda: broker.core.checkpoints.write(),
        "retention": lambda: broker.clock.advance(300_000),
        "read": lambda: fetched(broker, 1),
        "list offsets": lambda: list_offsets(broker),
        "stop": lambda: broker.core.stop(),
    }
    others[when]()
    broker.settle()
    assert [one.path for one in broker.core.log_directories.offline] == [OTHER]
    assert broker.failures == []
    if when != "stop":
        assert produced(broker, 0) is NONE
        assert told(fetched(broker, 1)) is STORAGE
        again(broker, "stop")
        assert not broker.core.start_report.was_clean
    else:
        again(broker, "kill")
    assert broker.core.start_report.damage == ()
    assert produced(broker, 1) is NONE


def list_offsets(broker: BrokerInMemory) -> None:
    asked = [{"name": TOPIC, "partitions": [{"partition_index": 1, "timestamp": -3}]}]
    answer = broker.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=asked)
    assert answer.topics[0].partitions[0].error_code is STORAGE


def test_checkpoint_goes_on_saying_of_an_offline_partition_what_it_said() -> None:
    broker = started()
    for _ in range(3):
        assert produced(broker, 1) is NONE
    records = {"name": TOPIC, "partitions": [{"partition_index": 1, "offset": 2}]}
    broker.ask("delete_records", 2, topics=[records], timeout=MINUTE)
    noticed(broker)
    broker.core.checkpoints.write()
    broker.settle()
    again(broker, "kill")
    partition = broker.core.topics.partition(TOPIC, 1)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 3)


def test_members_that_wait_for_a_group_in_the_directory_are_told() -> None:
    broker = started(group_initial_rebalance_delay_ms="3000")
    group = name_in(1, "group")
    fields = {
        "group_id": group,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": MINUTE,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    reply = broker.send("join_group", 3, member_id="", **fields)
    assert not reply.came
    noticed(broker)
    assert reply.came
    assert reply.message.error_code is ErrorCode.not_coordinator
    broker.clock.advance(600_000)
    broker.settle()
    assert broker.failures == []


@pytest.mark.parametrize("transactional_id", [name_in(0, "clerk"), name_in(1, "clerk")], ids=["home", "other"])
@pytest.mark.parametrize("how", ["stop", "kill", "power cut"])
def test_failure_at_any_step_loses_nothing_that_was_acknowledged(transactional_id: str, how: str) -> None:
    for operations in range(120):
        broker = started()
        ended = copied_until_failure(broker, transactional_id, operations)
        again(broker, how)
        assert broker.core.start_report.damage == (), operations
        judge(broker, ended, operations)
        if not broker.disk.countdown_is_over:
            assert operations > 10
            return
    pytest.fail("the workload is longer than the steps that were tried")


def copied_until_failure(broker: BrokerInMemory, transactional_id: str, operations: int) -> dict[str, bool | None]:
    """Transactions until the disk of the other directory fails at its nth change; how each was said to have ended."""
    broker.disk.count_down(OTHER, operations)
    ended: dict[str, bool | None] = {}
    try:
        producer = ProducerInMemory(broker, TV2, transactional_id, name_in(0, "group"))
    except AssertionError:
        return ended
    for number in range(4):
        committed = number % 2 == 0
        ended[str(number)] = None
        try:
            producer.write(str(number), number)
        except AssertionError:
            committed = False
        reply = producer.send_end(committed=committed)
        broker.settle()
        if not reply.came or reply.message.error_code is not NONE:
            break
        ended[str(number)] = committed
        producer.take_epoch(reply)
    broker.core.durability.retire()
    broker.settle()
    assert broker.failures == []
    return ended


def judge(broker: BrokerInMemory, ended: dict[str, bool | None], operations: int) -> None:
    broker.clock.advance(120_000)
    broker.settle()
    seen = [visible(broker, index) for index in (0, 1)]
    assert seen[0] == seen[1], (operations, seen)
    for value, was_committed in ended.items():
        if was_committed is not None:
            assert (value in seen[0]) is was_committed, (operations, value, ended, seen)

"""A damaged partition is offline: what each API says of it, what waits for it, and that the others serve."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, CountingRandom
from harness.transaction_in_memory import MINUTE, NONE, TOPIC, TV1, TV2, ProducerInMemory, Protocol, visible
from oncelog.cli.log.repairing import plan_node, repair_node
from oncelog.cli.log.verification import verify_node
from oncelog.log.inspection.findings import AtStart
from oncelog.log.inspection.read_only_disk import ReadOnlyDisk
from oncelog.records import Record, build_batch
from tests.broker.damage import bases, kill, last_batch, read, segment, started, stop

STORAGE = ErrorCode.kafka_storage_error
PLAIN = build_batch([Record(None, b"plain")])


def damaged(broker: BrokerInMemory, partition: str = f"{TOPIC}-0", *, how: Any = stop) -> tuple[str, bytes]:
    """Start with a damaged partition; return what repairs it."""
    how(broker)
    directory = f"{DIRECTORY}/{partition}"
    path = f"{directory}/{bases(broker.disk, directory)[0]}.log"
    whole = broker.disk.read_file(path)
    broker.disk.damage(path, 0, bytes(len(whole)))
    broker.restart()
    broker.settle()
    return path, whole


def repair(broker: BrokerInMemory, path: str, whole: bytes) -> None:
    stop(broker)
    broker.disk.damage(path, 0, whole)
    broker.restart()
    broker.settle()


def home_of(name: str, count: int = 2) -> int:
    found = 0
    for unit in name:
        found = (31 * found + ord(unit)) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % count


def name_in(partition: int, stem: str) -> str:
    return next(f"{stem}{number}" for number in range(99) if home_of(f"{stem}{number}") == partition)


def produced(broker: BrokerInMemory, partition: int) -> ErrorCode:
    data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": PLAIN}]}]
    answer = broker.ask("produce", 9, transactional_id=None, acks=-1, timeout=MINUTE, topic_data=data)
    return answer.responses[0].partition_responses[0].error_code


def test_requests_for_an_offline_partition_are_told_of_its_storage_and_the_others_served() -> None:
    broker = started()
    before = read(broker, 1)
    damaged(broker)
    assert (read(broker, 0), read(broker, 1)) == (None, before)
    assert (produced(broker, 0), produced(broker, 1)) == (STORAGE, NONE)
    records = [{"name": TOPIC, "partitions": [{"partition_index": index, "offset": 2} for index in (0, 1)]}]
    answer = broker.ask("delete_records", 2, topics=records, timeout=MINUTE)
    assert [one.error_code for one in answer.topics[0].partitions] == [STORAGE, NONE]
    epochs = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in (0, 1)]
    answer = broker.ask("offset_for_leader_epoch", 3, replica_id=-1, topics=[{"topic": TOPIC, "partitions": epochs}])
    assert [one.error_code for one in answer.topics[0].partitions] == [STORAGE, NONE]
    answer = broker.ask("describe_producers", 0, topics=[{"name": TOPIC, "partition_indexes": [0, 1]}])
    assert [one.error_code for one in answer.topics[0].partitions] == [STORAGE, NONE]
    answer = broker.ask(
        "elect_leaders", 2, election_type=0, topic_partitions=[{"topic": TOPIC, "partitions": [0]}], timeout=MINUTE
    )
    error = answer.replica_election_results[0].partition_result[0].error_code
    assert error is ErrorCode.preferred_leader_not_available
    marker = {
        "producer_id": 1,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    answer = broker.ask("write_txn_markers", 1, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code is STORAGE
    answer = broker.ask("describe_log_dirs", 4, topics=None)
    found = {(topic.name, one.partition_index) for topic in answer.results[0].topics for one in topic.partitions}
    assert (TOPIC, 0) not in found
    assert (TOPIC, 1) in found


def test_offline_partition_has_no_leader() -> None:
    broker = started()
    damaged(broker)
    answer = broker.ask(
        "metadata",
        9,
        topics=[{"name": TOPIC}],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    first, second = answer.topics[0].partitions
    assert (first.error_code, first.leader_id) == (ErrorCode.leader_not_available, -1)
    assert (first.replica_nodes, first.offline_replicas) == ((broker.core.node_id,), (broker.core.node_id,))
    assert (second.error_code, second.leader_id) == (NONE, broker.core.node_id)
    answer = broker.ask(
        "describe_topic_partitions", 0, topics=[{"name": TOPIC}], response_partition_limit=9, cursor=None
    )
    assert [one.leader_id for one in answer.topics[0].partitions] == [-1, broker.core.node_id]


def test_repaired_partition_is_what_it_was_whatever_was_done_meanwhile() -> None:
    broker = started()
    before = read(broker, 0)
    undo = damaged(broker)
    for _ in range(2):
        stop(broker)
        broker.restart()
        assert read(broker, 0) is None
    repair(broker, *undo)
    assert read(broker, 0) == before


def test_topic_with_an_offline_partition_can_be_deleted_and_made_anew() -> None:
    broker = started()
    damaged(broker)
    reply = broker.send("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    broker.settle()
    assert reply.message.responses[0].error_code is NONE
    broker.clock.advance(60_000)
    broker.settle()
    assert not [name for name in broker.disk.list_directory(DIRECTORY) if name.startswith(TOPIC)]
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    broker.ask("create_topics", 5, topics=[topic], timeout=MINUTE)
    assert produced(broker, 0) is NONE
    stop(broker)
    broker.restart()
    assert broker.core.start_report.damage == ()


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_end_of_a_transaction_waits_for_the_offline_partition_alone(protocol: Protocol) -> None:
    broker = started()
    producer = ProducerInMemory(broker, protocol, "clerk", "clerks")
    producer.write("wait", 99)
    undo = damaged(broker)
    producer.end(committed=True)
    broker.settle()
    assert read(broker, 1)[-1] == "wait"  # type: ignore[index]
    again = broker.send("init_producer_id", 4, transactional_id="clerk", transaction_timeout=MINUTE)
    broker.clock.advance(1000)
    broker.settle()
    assert again.message.error_code is ErrorCode.concurrent_transactions
    repair(broker, *undo)
    assert read(broker, 0)[-1] == "wait"  # type: ignore[index]
    assert read(broker, 1)[-1] == "wait"  # type: ignore[index]
    ProducerInMemory(broker, protocol, "clerk", "clerks")


def test_transaction_that_waits_ends_when_its_topic_is_deleted() -> None:
    broker = started()
    producer = ProducerInMemory(broker, TV1, "clerk", "clerks")
    producer.write("wait", 99)
    damaged(broker)
    producer.end(committed=True)
    broker.send("delete_topics", 5, topic_names=[TOPIC], timeout=MINUTE)
    broker.settle()
    ProducerInMemory(broker, TV1, "clerk", "clerks")


@pytest.mark.parametrize("how", [stop, kill])
def test_damaged_transaction_log_takes_its_own_ids_away_alone(how: Any) -> None:
    broker = started()
    here, there = name_in(0, "clerk"), name_in(1, "clerk")
    producer = ProducerInMemory(broker, TV1, here)
    producer.add_partitions()
    producer.produce("open", 1)
    ProducerInMemory(broker, TV1, there)
    undo = damaged(broker, "__transaction_state-0", how=how)
    answer = broker.ask("find_coordinator", 4, key_type=1, coordinator_keys=[here, there])
    assert [one.error_code for one in answer.coordinators] == [ErrorCode.coordinator_not_available, NONE]
    identity = {"transactional_id": here, "producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    answer = broker.ask("init_producer_id", 4, transactional_id=here, transaction_timeout=MINUTE)
    assert answer.error_code is ErrorCode.not_coordinator
    assert broker.ask("end_txn", 3, **identity, committed=True).error_code is ErrorCode.not_coordinator
    answer = broker.ask("add_offsets_to_txn", 3, **identity, group_id="tellers")
    assert answer.error_code is ErrorCode.not_coordinator
    answer = broker.ask("describe_transactions", 0, transactional_ids=[here])
    assert answer.transaction_states[0].error_code is ErrorCode.not_coordinator
    producer.sequence += 1
    assert producer.produce("more", 1) is ErrorCode.not_enough_replicas
    assert "open" not in visible(broker, 1), "what is open stays open: nobody knows what was decided"
    ProducerInMemory(broker, TV1, there)
    repair(broker, *undo)
    producer.end(committed=True)
    broker.settle()
    assert read(broker, 1)[-1] == "open"  # type: ignore[index]


def test_damaged_offsets_take_their_own_groups_away_alone() -> None:
    broker = started()
    here, there = name_in(0, "group"), name_in(1, "group")
    for group in (here, there):
        broker.ask("find_coordinator", 4, key_type=0, coordinator_keys=[group])
        assert commit(broker, group) is NONE
    undo = damaged(broker, "__consumer_offsets-0")
    answer = broker.ask("find_coordinator", 4, key_type=0, coordinator_keys=[here, there])
    assert [one.error_code for one in answer.coordinators] == [ErrorCode.coordinator_not_available, NONE]
    not_here = ErrorCode.not_coordinator
    assert (commit(broker, here), commit(broker, there)) == (not_here, NONE)
    groups = [{"group_id": group, "topics": None} for group in (here, there)]
    answer = broker.ask("offset_fetch", 8, groups=groups, require_stable=True)
    assert [one.error_code for one in answer.groups] == [not_here, NONE]
    for version in (1, 5):
        topics = [{"name": TOPIC, "partition_indexes": [0]}]
        fields = {"require_stable": True} if version >= 7 else {}
        answer = broker.ask("offset_fetch", version, group_id=here, topics=topics, **fields)
        assert answer.topics[0].partitions[0].error_code is not_here
    assert broker.ask("heartbeat", 3, group_id=here, generation_id=1, member_id="m").error_code is not_here
    assert broker.ask("leave_group", 3, group_id=here, members=[]).error_code is not_here
    answer = broker.ask("describe_groups", 5, groups=[here, there], include_authorized_operations=False)
    assert [one.error_code for one in answer.groups] == [not_here, NONE]
    answer = broker.ask("consumer_group_describe", 0, group_ids=[here], include_authorized_operations=False)
    assert answer.groups[0].error_code is not_here
    answer = broker.ask("delete_groups", 2, groups_names=[here])
    assert answer.results[0].error_code is not_here
    answer = broker.ask("offset_delete", 0, group_id=here, topics=[])
    assert answer.error_code is not_here
    repair(broker, *undo)
    assert commit(broker, here) is NONE


def commit(broker: BrokerInMemory, group: str) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    answer = broker.ask(
        "offset_commit", 7, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    return answer.topics[0].partitions[0].error_code


def test_power_cut_with_a_damaged_partition_is_dealt_with_once_it_is_repaired() -> None:
    broker = started()
    here = name_in(0, "clerk")
    producer = ProducerInMemory(broker, TV1, here)
    producer.add_partitions()
    producer.produce("open", 1)
    kill(broker)
    broker.disk.crash()
    undo = damaged(broker, "__transaction_state-0", how=lambda broker: None)
    repair(broker, *undo)
    answer = broker.ask(
        "end_txn",
        3,
        transactional_id=here,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    assert answer.error_code is not NONE, "what it wrote last may be lost"


def harmed(broker: BrokerInMemory, path: str, position: int | None = None) -> Callable[[], None]:
    """Change a byte on the medium, by default of the last batch; what is returned changes it back."""
    if position is None:
        position = last_batch(broker.disk.read_file(path))
    byte = broker.disk.read_file(path)[position]
    broker.disk.damage(path, position, bytes((byte ^ 0x10,)))
    return lambda: broker.disk.damage(path, position, bytes((byte,)))


def first_segment(broker: BrokerInMemory, partition: str = f"{TOPIC}-0") -> str:
    return segment(0, directory=f"{DIRECTORY}/{partition}")(broker.disk)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_records_of_a_damaged_partition_are_durable_before_their_transaction_is_committed(
    protocol: Protocol, seed: int
) -> None:
    broker = started()
    broker.disk.lose_by(Random(seed))
    kill(broker)
    broker.restart()
    producer = ProducerInMemory(broker, protocol, "clerk", "clerks")
    producer.write("wait", 99)
    broker.disk.kill()
    undo = harmed(broker, first_segment(broker))
    broker.restart()
    assert broker.core.topics.partition(TOPIC, 0).is_offline
    producer.end(committed=True)
    broker.settle()
    broker.disk.crash()
    undo()
    broker.restart()
    broker.settle()
    assert read(broker, 0)[-1] == "wait"  # type: ignore[index]
    assert read(broker, 1)[-1] == "wait"  # type: ignore[index]


def damaged_where_the_write_ahead_log_vouches(broker: BrokerInMemory) -> Callable[[], None]:
    """Cut the power, and damage a batch beyond the recovery point; what is returned repairs it."""
    kill(broker)
    broker.restart()
    producer = ProducerInMemory(broker, TV1)
    producer.write("synced", 98)
    producer.end(committed=True)
    broker.settle()
    active = broker.core.topics.partition(TOPIC, 0).log.segments[-1]
    broker.core.durability.retire()
    broker.settle()
    position = active.size_bytes - 1
    producer.write("ahead", 99)
    producer.end(committed=True)
    broker.settle()
    broker.disk.crash()
    return harmed(broker, active.path, position)


AGAIN = [stop, lambda broker: broker.disk.kill(), lambda broker: broker.disk.crash()]


@pytest.mark.parametrize("again", AGAIN, ids=["stop", "kill", "power cut"])
def test_what_a_write_ahead_log_vouched_for_is_damaged_still_when_that_is_gone(again: Any) -> None:
    broker = started()
    undo = damaged_where_the_write_ahead_log_vouches(broker)
    for _ in range(3):
        broker.restart()
        assert broker.core.topics.partition(TOPIC, 0).is_offline
        again(broker)
    undo()
    broker.restart()
    broker.settle()
    values = read(broker, 0)
    assert values is not None
    assert {"synced", "ahead"} <= set(values)


@pytest.mark.parametrize("again", AGAIN, ids=["stop", "kill", "power cut"])
def test_repair_of_what_a_write_ahead_log_vouched_for_ends_it(again: Any) -> None:
    broker = started()
    damaged_where_the_write_ahead_log_vouches(broker)
    broker.restart()
    again(broker)
    found = verify_node(ReadOnlyDisk(broker.disk), [DIRECTORY])
    assert AtStart.OFFLINE in {finding.at_start for finding in found.damages}
    random = CountingRandom()
    repair_node(broker.disk, plan_node(ReadOnlyDisk(broker.disk), found, random.uuid), random.uuid)
    assert verify_node(ReadOnlyDisk(broker.disk), [DIRECTORY]).damages == []
    broker.restart()
    assert broker.core.start_report.damage == ()
    assert "ahead" in (read(broker, 0) or ())


def test_what_was_answered_from_a_damaged_transaction_log_survives_a_power_cut_after_the_next_start() -> None:
    broker = started()
    kill(broker)
    broker.restart()
    name = name_in(0, "clerk")
    producer = ProducerInMemory(broker, TV1, name)
    broker.core.durability.retire()
    broker.settle()
    active = broker.core.topics.partition("__transaction_state", 0).log.segments[-1]
    position = active.size_bytes - 1
    producer.write("decided", 99)
    producer.end(committed=True)
    broker.settle()
    broker.disk.kill()
    undo = harmed(broker, active.path, position)
    broker.restart()
    assert broker.core.topics.partition("__transaction_state", 0).is_offline
    # No power cut brings the write-ahead log back any more.
    broker.core.checkpoints.write()
    broker.settle()
    broker.disk.crash()
    undo()
    broker.restart()
    broker.settle()
    again = ProducerInMemory(broker, TV1, name)
    assert (again.producer_id, again.epoch > producer.epoch) == (producer.producer_id, True)

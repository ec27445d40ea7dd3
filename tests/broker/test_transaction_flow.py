"""What happens to a request that meets a transaction in the middle of something."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    MINUTE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.log import DamagedLogError
from oncelog.records import Record, build_batch

NONE = ErrorCode.none


@pytest.fixture
def broker() -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    make_topic(broker)
    return broker


def add_partition(broker: BrokerInMemory, producer: ProducerInMemory) -> Reply:
    return broker.send(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )


def error_of(reply: Reply) -> ErrorCode:
    return reply.message.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def init(broker: BrokerInMemory) -> Reply:
    return broker.send("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)


def test_next_transaction_waits_for_the_markers_of_the_last_one(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    producer.end(committed=True)
    reply = add_partition(broker, producer)
    assert not reply.came
    broker.settle()
    assert reply.came
    assert error_of(reply) is NONE


def test_request_that_is_held_back_too_long_is_told_to_come_back(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    producer.end(committed=True)
    reply = add_partition(broker, producer)
    broker.clock.advance(500)
    assert reply.came
    assert error_of(reply) is ErrorCode.concurrent_transactions


def test_answer_to_end_comes_when_the_decision_is_durable_and_not_before(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    broker.settle()
    reply = producer.send_end(committed=True)
    assert not reply.came
    broker.settle()
    assert reply.message.error_code is NONE


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_end_is_answered_before_its_markers_are_written(broker: BrokerInMemory, protocol: Protocol) -> None:
    """As Kafka's TransactionCoordinator does: it answers, and then hands the markers to their senders."""
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    broker.settle()
    reply = producer.send_end(committed=True)
    assert reply.waiting is not None
    partition = broker.core.topics.partition(TOPIC, 0)
    assert partition is not None
    at_the_answer: list[int] = []
    reply.waiting.then(lambda _: at_the_answer.append(partition.log.log_end_offset))
    broker.settle()
    assert reply.message.error_code is NONE
    assert at_the_answer == [1]
    assert partition.log.log_end_offset == 2


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_end_whose_client_has_gone_is_carried_out(broker: BrokerInMemory, protocol: Protocol) -> None:
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    producer.send_end(committed=True).end()
    broker.settle()
    assert visible(broker, 0) == ["a"]
    assert committed_offset(broker) == 1


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_new_producer_aborts_what_the_old_one_left_open_and_fences_it(
    broker: BrokerInMemory, protocol: Protocol
) -> None:
    old = ProducerInMemory(broker, protocol)
    old.write("a", 1)
    first = init(broker)
    assert first.message.error_code is ErrorCode.concurrent_transactions
    second = init(broker)
    broker.settle()
    assert second.message.error_code is NONE
    assert second.message.producer_epoch > old.epoch
    ended = old.send_end(committed=True)
    broker.settle()
    assert ended.message.error_code in (ErrorCode.producer_fenced, ErrorCode.invalid_txn_state)
    assert visible(broker, 0) == []
    assert committed_offset(broker) == -1


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_transaction_that_outlives_its_timeout_is_aborted_and_its_producer_fenced(
    broker: BrokerInMemory, protocol: Protocol
) -> None:
    """KIP-98: the coordinator aborts a transaction that the producer does not end in time, and fences the producer."""
    producer = ProducerInMemory(broker, protocol)
    producer.write("a", 1)
    broker.clock.advance(MINUTE / timedelta(milliseconds=1) + 10_001)
    broker.settle()
    assert visible(broker, 0) == []
    assert producer.produce("late", 0) is ErrorCode.invalid_producer_epoch
    reply = producer.send_end(committed=True)
    broker.settle()
    expected = ErrorCode.invalid_txn_state if protocol is TV2 else ErrorCode.producer_fenced
    assert reply.message.error_code is expected


def test_timeout_counts_from_the_first_partition_whatever_is_added_later(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    assert error_of(add_partition(broker, producer)) is NONE
    broker.clock.advance(MINUTE / timedelta(milliseconds=1) - 1)
    producer.write("a", 1)
    broker.clock.advance(10_002)
    broker.settle()
    assert producer.produce("late", 0) is ErrorCode.invalid_producer_epoch
    assert (visible(broker, 0), visible(broker, 1), committed_offset(broker)) == ([], [], -1)


def offset_committed(broker: BrokerInMemory, producer: ProducerInMemory, group: str, version: int = 3) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    answer = broker.ask("txn_offset_commit", version, **producer._identity(), group_id=group, topics=topics)
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)])
def test_offsets_of_a_group_that_is_not_in_the_transaction_are_refused(
    broker: BrokerInMemory, version: int, error: ErrorCode
) -> None:
    """KIP-890: before v5 of TxnOffsetCommit the group has to be in the open transaction, by AddOffsetsToTxn."""
    producer = ProducerInMemory(broker, TV1)
    assert offset_committed(broker, producer, GROUP, version) is error, "no transaction is open"
    assert error_of(add_partition(broker, producer)) is NONE
    assert offset_committed(broker, producer, GROUP, version) is error
    elsewhere = in_another_partition(broker, GROUP)
    assert broker.ask("add_offsets_to_txn", 3, **producer._identity(), group_id=elsewhere).error_code is NONE
    assert offset_committed(broker, producer, GROUP, version) is error, "another group is in it"
    assert offset_committed(broker, producer, elsewhere, version) is NONE
    producer.end(committed=True)
    broker.settle()
    assert committed_offset(broker) == -1


def in_another_partition(broker: BrokerInMemory, group: str) -> str:
    """A group whose offsets are in another partition of `__consumer_offsets`."""
    home = broker.core.offsets.partition_for
    return next(name for name in map("group-{}".format, range(100)) if home(name) != home(group))


def test_of_a_request_for_two_partitions_what_is_not_in_the_transaction_is_refused(broker: BrokerInMemory) -> None:
    """KIP-890: each partition of a Produce has to be in the open transaction, and not only one of them."""
    producer = ProducerInMemory(broker, TV1)
    assert error_of(add_partition(broker, producer)) is NONE
    batch = build_batch(
        [Record(None, b"a", timestamp_ms=broker.clock.now_ms())],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    answer = broker.ask(
        "produce",
        9,
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout=MINUTE,
        topic_data=[{"name": TOPIC, "partition_data": [{"index": index, "records": batch} for index in (1, 0)]}],
    )
    errors = {one.index: one.error_code for one in answer.responses[0].partition_responses}
    assert errors == {0: NONE, 1: ErrorCode.invalid_txn_state}
    producer.end(committed=True)
    broker.settle()
    assert (visible(broker, 0), visible(broker, 1)) == (["a"], [])


def test_of_several_partitions_none_is_added_where_one_is_not_there(broker: BrokerInMemory) -> None:
    """AddPartitionsToTxn: the others are told OPERATION_NOT_ATTEMPTED."""
    producer = ProducerInMemory(broker, TV1)
    answer = broker.ask(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0, 9]}],
    )
    errors = {
        one.partition_index: one.partition_error_code
        for one in answer.results_by_topic_v3_and_below[0].results_by_partition
    }
    assert errors == {0: ErrorCode.operation_not_attempted, 9: ErrorCode.unknown_topic_or_partition}
    assert producer.produce("a", 0) is ErrorCode.invalid_txn_state


def test_batch_after_the_end_was_decided_is_refused(broker: BrokerInMemory) -> None:
    """Kafka takes it until the marker is written, and after a commit shows it."""
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    producer.send_end(committed=True)
    assert producer.produce("late", 0) is not NONE
    broker.settle()
    assert producer.produce("later", 0) is not NONE
    assert visible(broker, 0) == ["a"]


def test_transactional_request_before_there_is_a_coordinator_is_sent_to_find_it(broker: BrokerInMemory) -> None:
    answer = broker.ask("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)
    assert answer.error_code is ErrorCode.not_coordinator


def test_offsets_before_the_groups_have_a_coordinator_are_sent_to_find_it(broker: BrokerInMemory) -> None:
    """TxnOffsetCommit does not make `__consumer_offsets`."""
    broker.ask("find_coordinator", 3, key="teller", key_type=1)
    assert commit_offset(broker, producer_id=0, producer_epoch=0) is ErrorCode.not_coordinator


def test_offsets_that_are_added_to_a_transaction_make_the_groups_topic(broker: BrokerInMemory) -> None:
    broker.ask("find_coordinator", 3, key="teller", key_type=1)
    given = broker.ask("init_producer_id", 4, transactional_id="teller", transaction_timeout=MINUTE)
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    assert commit_offset(broker, **producer) is ErrorCode.not_coordinator
    added = broker.ask("add_offsets_to_txn", 3, transactional_id="teller", group_id="tellers", **producer)
    assert added.error_code is NONE
    assert commit_offset(broker, **producer) is NONE


def test_offsets_of_a_group_that_nobody_coordinates_begin_no_transaction(broker: BrokerInMemory) -> None:
    """TxnOffsetCommit v5 adds the group's partition by itself (KIP-890), and only where it can be written."""
    for key_type in (0, 1):
        broker.ask("find_coordinator", 3, key="teller", key_type=key_type)
    given = broker.ask("init_producer_id", 5, transactional_id="teller", transaction_timeout=MINUTE)
    topics = broker.core.topics
    for partition in topics.named("__consumer_offsets").partitions:
        topics.take_offline(partition, DamagedLogError("it is damaged"))
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    answer = broker.ask(
        "txn_offset_commit",
        5,
        transactional_id="teller",
        group_id="tellers",
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        topics=[{"name": TOPIC, "partitions": [offset]}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.not_coordinator
    listed = broker.ask("list_transactions", 1, state_filters=["Ongoing"], producer_id_filters=[])
    assert listed.transaction_states == ()


def commit_offset(broker: BrokerInMemory, **producer: int) -> ErrorCode:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [offset]}]
    answer = broker.ask(
        "txn_offset_commit", 2, transactional_id="teller", group_id="tellers", topics=topics, **producer
    )
    return answer.topics[0].partitions[0].error_code


def test_open_transaction_can_be_listed_and_described(broker: BrokerInMemory) -> None:
    producer = ProducerInMemory(broker, TV1)
    producer.write("a", 1)
    listed = broker.ask("list_transactions", 1, state_filters=["Ongoing", "Nonsense"], producer_id_filters=[])
    assert [state.transactional_id for state in listed.transaction_states] == ["teller"]
    assert listed.unknown_state_filters == ("Nonsense",)
    state = broker.ask("describe_transactions", 0, transactional_ids=["teller"]).transaction_states[0]
    assert (state.transaction_state, state.producer_id) == ("Ongoing", producer.producer_id)
    assert {(topic.topic, topic.partitions) for topic in state.topics} >= {(TOPIC, (0, 1))}
    missing = broker.ask("describe_transactions", 0, transactional_ids=["nobody"]).transaction_states[0]
    assert missing.error_code is ErrorCode.transactional_id_not_found


INTO_A_TRANSACTION = [
    (3, "__transaction_state", False),
    (3, "__consumer_offsets", False),
    (4, "__transaction_state", False),
    (4, "__consumer_offsets", True),
]


@pytest.mark.parametrize(("version", "topic", "is_added"), INTO_A_TRANSACTION)
def test_topic_of_a_coordinator_is_not_added_by_a_client(
    broker: BrokerInMemory, version: int, topic: str, is_added: bool
) -> None:
    """KafkaApis: internal topics are left out of those that a client may add to its transaction.

    From v4 on brokers ask, and a group's coordinator adds the partition that it is about to write offsets into (KIP-890).
    """
    producer = ProducerInMemory(broker, TV1)
    topics = [{"name": topic, "partitions": [0]}, {"name": TOPIC, "partitions": [0]}]
    if version < 4:
        answer = broker.ask(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        results = answer.results_by_topic_v3_and_below
    else:
        transaction = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "verify_only": False,
            "topics": topics,
        }
        answer = broker.ask("add_partitions_to_txn", version, transactions=[transaction])
        results = answer.results_by_transaction[0].topic_results
    refused = [ErrorCode.topic_authorization_failed, ErrorCode.operation_not_attempted]
    errors = [one.results_by_partition[0].partition_error_code for one in results]
    assert errors == ([NONE, NONE] if is_added else refused)

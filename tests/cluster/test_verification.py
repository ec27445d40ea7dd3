"""Whether a transaction has a partition, asked of its coordinator on another broker: KIP-890, part 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import (
    ADD_PARTITIONS,
    NO_TIME,
    TOPIC,
    WRITE_TXN_MARKERS,
    errors_of,
    known,
    led,
    produce_request,
    produced,
    records,
)
from oncelog.coordination import Promise
from oncelog.wire import ErrorCode, construct, message_module

BROKER, COORDINATOR = 0, 1
BOTH = (BROKER, COORDINATOR)
STATE, STATE_ID = "__transaction_state", UUID(int=0x57A7E)
PRODUCER = (4_000, 3)
NONE = ErrorCode.none


class Written:
    """A broker that leads the partition, and a played coordinator of all transactions."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        self.controller = PlayedController(self.cluster)
        self.coordinator = PlayedBroker(self.cluster, COORDINATOR)
        self.controller.members.append(self.coordinator.member)
        self.controller.starts(BROKER)
        self.controller.update(
            BROKER,
            known(BROKER, 0, BOTH),
            known(COORDINATOR, 0, (COORDINATOR,), indexes=(0, 1), topic=STATE, topic_id=STATE_ID),
        )
        self.lead(0)

    def lead(self, epoch: int, leader: int = BROKER) -> None:
        assert errors_of(self.controller.order(BROKER, led(leader, epoch, (BROKER,)))) == [NONE]

    def write(self, producer: tuple[int, int] = PRODUCER, **fields: Any) -> Promise[Any]:
        batch = records(b"a", producer=producer)
        return self.cluster.send(BROKER, produce_request(batch, acks=-1, transactional_id="teller", **fields))

    def written(self, waiting: Promise[Any]) -> ErrorCode:
        return produced(self.cluster.wait(waiting))[0]

    def until_asked(self) -> None:
        self.cluster.until(lambda: bool(self.coordinator.asked(ADD_PARTITIONS)))

    def mark(self, producer: tuple[int, int] = PRODUCER) -> None:
        """A marker of the producer's coordinator."""
        types = message_module(WRITE_TXN_MARKERS, 1, "request")
        topic = types.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(0,))
        marker = types.WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=0,
        )
        self.cluster.ask(BROKER, types.WriteTxnMarkersRequest(markers=(marker,)))

    @property
    def end(self) -> int:
        return self.cluster.partition(BROKER).log.log_end_offset


@pytest.fixture
def written() -> Written:
    return Written()


def says(error: ErrorCode = NONE, topmost: ErrorCode = NONE, topic: str = TOPIC) -> Callable[[Any], Any]:
    def answer(body: Any) -> Any:
        types = message_module(ADD_PARTITIONS, body.__version__, "response")
        one = types.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=error)
        result = types.AddPartitionsToTxnTopicResult(name=topic, results_by_partition=(one,))
        transaction = types.AddPartitionsToTxnResult(transactional_id="teller", topic_results=(result,))
        return construct(
            types.AddPartitionsToTxnResponse,
            throttle_time=NO_TIME,
            error_code=topmost,
            results_by_transaction=(transaction,),
        )

    return answer


def test_a_batch_is_appended_when_the_coordinator_says_that_the_transaction_has_the_partition(written: Written) -> None:
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write()) is NONE
    (asked,) = written.coordinator.asked(ADD_PARTITIONS)
    (transaction,) = asked.transactions
    assert transaction.verify_only
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("teller", *PRODUCER)
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [(TOPIC, (0,))]


@pytest.mark.parametrize("error", [ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_id_mapping])
def test_a_batch_of_no_open_transaction_is_refused(written: Written, error: ErrorCode) -> None:
    """KIP-890: TRANSACTION_ABORTABLE, and INVALID_TXN_STATE for producers that do not know it."""
    written.coordinator.answers[ADD_PARTITIONS] = says(error)
    assert written.written(written.write()) is not NONE
    assert written.end == 0


@pytest.mark.parametrize(
    "error", [ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress]
)
def test_a_coordinator_that_cannot_say_leaves_the_batch_to_be_sent_again(written: Written, error: ErrorCode) -> None:
    written.coordinator.answers[ADD_PARTITIONS] = says(topmost=error)
    refused = written.written(written.write())
    assert refused in (ErrorCode.not_enough_replicas, ErrorCode.coordinator_load_in_progress, error)
    assert written.end == 0
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write()) is NONE


def test_a_coordinator_that_says_nothing_of_the_partition_has_not_verified_it(written: Written) -> None:
    written.coordinator.answers[ADD_PARTITIONS] = says(topic="another")
    assert written.written(written.write()) is not NONE
    assert written.end == 0


def test_a_coordinator_that_hangs_up_has_verified_nothing(written: Written) -> None:
    waiting = written.write()
    written.until_asked()
    written.coordinator.hang_up()
    assert written.written(waiting) is not NONE
    assert written.end == 0


def test_a_coordinator_that_nobody_knows_of_has_verified_nothing(written: Written) -> None:
    written.controller.members = [one for one in written.controller.members if one.id != COORDINATOR]
    written.controller.update(BROKER)
    assert written.written(written.write()) is not NONE
    assert written.coordinator.heard == []
    assert written.end == 0


def test_what_has_begun_here_is_not_asked_for_again(written: Written) -> None:
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write()) is NONE
    assert written.written(written.write()) is NONE
    assert len(written.coordinator.asked(ADD_PARTITIONS)) == 1


class HeldAnswer:
    """A coordinator that says yes when the test likes it to."""

    def __init__(self, written: Written, **fields: Any) -> None:
        self.written = written
        self.waiting = written.write(**fields)
        written.until_asked()

    def comes(self) -> ErrorCode:
        self.written.coordinator.answer_last(says()(self.written.coordinator.asked(ADD_PARTITIONS)[-1]))
        return self.written.written(self.waiting)


def test_a_marker_between_the_answer_and_the_append_refuses_the_batch(written: Written) -> None:
    """KIP-890: the guard of a verification is taken away by the marker, for the batch would hang after it."""
    held = HeldAnswer(written)
    written.mark()
    assert held.comes() is not NONE
    assert written.end == 1


def test_a_marker_of_another_producer_refuses_nothing(written: Written) -> None:
    held = HeldAnswer(written)
    written.mark((PRODUCER[0] + 1, 0))
    assert held.comes() is NONE


def test_another_leader_between_the_answer_and_the_append_refuses_the_batch(written: Written) -> None:
    """It may have written the marker, and this broker has copied it by the time that it leads again."""
    held = HeldAnswer(written)
    written.lead(1, COORDINATOR)
    written.lead(2)
    assert held.comes() is ErrorCode.not_leader_or_follower
    assert written.end == 0


def test_a_newer_epoch_of_the_same_leader_refuses_nothing(written: Written) -> None:
    held = HeldAnswer(written)
    written.lead(1)
    assert held.comes() is NONE


def test_producer_of_the_second_generation_has_the_partition_added(written: Written) -> None:
    """KIP-890, part 2: from Produce v12 on the leader asks for it, once in each transaction."""
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write(version=12)) is NONE
    assert written.written(written.write(version=12)) is NONE
    written.mark((PRODUCER[0], PRODUCER[1] + 1))
    assert written.written(written.write((PRODUCER[0], PRODUCER[1] + 1), version=12)) is NONE
    asked = written.coordinator.asked(ADD_PARTITIONS)
    transactions = [transaction for one in asked for transaction in one.transactions]
    assert [(one.verify_only, one.producer_epoch) for one in transactions] == [
        (False, PRODUCER[1]),
        (False, PRODUCER[1] + 1),
    ]


@pytest.mark.parametrize("error", [ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted])
def test_coordinator_that_has_not_heard_of_the_partition_yet_is_asked_again(written: Written, error: ErrorCode) -> None:
    written.coordinator.answers[ADD_PARTITIONS] = says(error)
    assert written.written(written.write(version=12)) is ErrorCode.not_enough_replicas
    assert written.end == 0
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write(version=12)) is NONE


def test_marker_of_the_transaction_before_has_the_next_one_ask_again(written: Written) -> None:
    """The coordinator answers when that one is complete, and its marker came after this broker had asked."""
    held = HeldAnswer(written, version=12)
    written.mark()
    assert held.comes() is ErrorCode.concurrent_transactions
    written.coordinator.answers[ADD_PARTITIONS] = says()
    assert written.written(written.write(version=12)) is NONE

"""Requests of the first generation that come late, when their transaction is over and the next one is open (KAFKA-17754)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import BrokerInMemory, ClientConnection, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    MINUTE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.broker import Settings
from oncelog.broker.coordinators.session_guard import FixedPlace, Place, SessionGuard, TransactionalProducer
from oncelog.records import Record, build_batch

NONE = ErrorCode.none
OFF = {"transaction_session_guard_enable": "false"}


def started(**more: str) -> BrokerInMemory:
    broker = BrokerInMemory(SteppedDisk(), ManualClock(), **more)
    make_topic(broker)
    return broker


@contextmanager
def on(broker: BrokerInMemory, connection: ClientConnection) -> Iterator[ClientConnection]:
    """Send over another connection."""
    before, broker.connection = broker.connection, connection
    try:
        yield connection
    finally:
        broker.connection = before


def settled(broker: BrokerInMemory, reply: Reply) -> Reply:
    broker.settle()
    return reply


def end(producer: ProducerInMemory, committed: bool) -> Reply:
    return settled(producer.broker, producer.send_end(committed=committed))


def add_partitions(producer: ProducerInMemory) -> Reply:
    fields = {f"v3_and_below_{name}": value for name, value in producer._identity().items()}
    topics = [{"name": TOPIC, "partitions": [0]}]
    return settled(
        producer.broker,
        producer.broker.send("add_partitions_to_txn", 3, **fields, v3_and_below_topics=topics),
    )


def add_offsets(producer: ProducerInMemory) -> Reply:
    asked = producer.broker.send("add_offsets_to_txn", 3, **producer._identity(), group_id=GROUP)
    return settled(producer.broker, asked)


def commit_offset(producer: ProducerInMemory, offset: int) -> Reply:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    return settled(
        producer.broker,
        producer.broker.send("txn_offset_commit", 3, **producer._identity(), group_id=GROUP, topics=topics),
    )


def produce(producer: ProducerInMemory, value: str, sequence: int, *partitions: int) -> Reply:
    batch = build_batch(
        [Record(None, value.encode(), timestamp_ms=producer.broker.clock.now_ms())],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    data = [{"name": TOPIC, "partition_data": [{"index": one, "records": batch} for one in partitions or (0,)]}]
    return settled(
        producer.broker,
        producer.broker.send(
            "produce", 9, transactional_id=producer.transactional_id, acks=-1, timeout=MINUTE, topic_data=data
        ),
    )


def gone_on(broker: BrokerInMemory, first: ClientConnection, second: ClientConnection) -> ProducerInMemory:
    """One transaction was committed over the first connection, and the next is open over the second."""
    with on(broker, first):
        producer = ProducerInMemory(broker, TV1)
        producer.write("first", 1)
        assert end(producer, committed=True).message.error_code is NONE
    with on(broker, second):
        assert end(producer, committed=True).message.error_code is NONE, "it is asked again, for no answer came"
        producer.write("second", 2)
    return producer


# --- what comes late


def test_late_end_does_not_commit_the_next_transaction(caplog: pytest.LogCaptureFixture) -> None:
    broker, first, second = started(), ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    with on(broker, first):
        late = end(producer, committed=True)
    assert late.message is None
    assert first.closed is not None
    assert (
        f"teller: EndTxn of producer id {producer.producer_id}, epoch 0, came late on the connection of test:{first.number}, "
        f"which the producer has left for that of test:{second.number}" in caplog.text
    )
    with on(broker, second):
        assert end(producer, committed=False).message.error_code is NONE
    assert second.closed is None
    assert (visible(broker, 0), committed_offset(broker)) == (["first"], 1)


def test_without_the_guard_a_late_end_commits_the_next_transaction() -> None:
    broker, first, second = started(**OFF), ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    with on(broker, first):
        assert end(producer, committed=True).message.error_code is NONE
    with on(broker, second):
        assert end(producer, committed=False).message.error_code is ErrorCode.invalid_txn_state
    assert (visible(broker, 0), committed_offset(broker)) == (["first", "second"], 2)


LATE: dict[str, Callable[[ProducerInMemory], Reply]] = {
    "AddPartitionsToTxn": add_partitions,
    "AddOffsetsToTxn": add_offsets,
    "TxnOffsetCommit": lambda producer: commit_offset(producer, 1),
    "Produce": lambda producer: produce(producer, "late", 2),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_what_comes_late_for_a_transaction_is_no_part_of_the_next(late: Callable[[ProducerInMemory], Reply]) -> None:
    broker, first, second = started(), ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    with on(broker, first):
        assert late(producer).message is None
    assert first.closed is not None
    with on(broker, second):
        assert end(producer, committed=True).message.error_code is NONE
    assert (visible(broker, 0), committed_offset(broker)) == (["first", "second"], 2)


def test_without_the_guard_late_records_and_offsets_are_part_of_the_next_transaction() -> None:
    broker, first, second = started(**OFF), ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    with on(broker, first):
        assert commit_offset(producer, 1).message is not None
        assert produce(producer, "late", 2).message is not None
    with on(broker, second):
        assert end(producer, committed=True).message.error_code is NONE
    assert (visible(broker, 0), committed_offset(broker)) == (["first", "second", "late"], 1)


def test_late_request_between_two_transactions_begins_none() -> None:
    broker, first, second = started(), ClientConnection(), ClientConnection()
    with on(broker, first):
        producer = ProducerInMemory(broker, TV1)
        producer.write("first", 1)
        assert end(producer, committed=True).message.error_code is NONE
    with on(broker, second):
        assert end(producer, committed=True).message.error_code is NONE
    with on(broker, first):
        assert add_partitions(producer).message is None
    assert first.closed is not None
    described = broker.ask("describe_transactions", 0, transactional_ids=["teller"])
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


def test_first_request_of_a_connection_is_late_when_the_producer_has_left_it_before() -> None:
    """A client that has one connection for everything: it wrote on the first, and ended the transaction on the third."""
    broker, first, second, third = started(), ClientConnection(), ClientConnection(), ClientConnection()
    with on(broker, first):
        producer = ProducerInMemory(broker, TV1)
        producer.write("first", 1)
    with on(broker, third):
        assert end(producer, committed=True).message.error_code is NONE
        producer.write("second", 2)
    with on(broker, second):
        assert end(producer, committed=True).message is None
    assert second.closed is not None


def test_batch_is_late_before_the_next_transaction_has_written_anything() -> None:
    """The connection that the batch comes on was the one to the coordinator, too, and that is another one now."""
    broker, first, second = started(), ClientConnection(), ClientConnection()
    with on(broker, first):
        producer = ProducerInMemory(broker, TV1)
        producer.write("first", 1)
        assert end(producer, committed=False).message.error_code is NONE
    with on(broker, second):
        producer.add_partitions()
    with on(broker, first):
        assert produce(producer, "late", 1).message is None
    assert first.closed is not None


def test_batches_for_two_partitions_are_late_where_one_of_them_is_written_over_a_younger_connection() -> None:
    """The older connection was left nowhere, and is the youngest at the other partition still."""
    broker, older, younger, coordinator = started(), ClientConnection(), ClientConnection(), ClientConnection()
    with on(broker, coordinator):
        producer = ProducerInMemory(broker, TV1)
        producer.add_partitions()
    with on(broker, older):
        assert produce(producer, "first", 0, 0).message is not None
    with on(broker, younger):
        assert produce(producer, "first", 0, 1).message is not None
    with on(broker, coordinator):
        assert end(producer, committed=True).message.error_code is NONE
        producer.add_partitions()
    with on(broker, older):
        assert produce(producer, "late", 1, 1, 0).message is None
    assert older.closed is not None
    assert [broker.core.topics.partition(TOPIC, index).log.log_end_offset for index in (0, 1)] == [2, 2]


# --- what does not


def test_connection_to_the_leader_outlives_one_to_the_coordinator() -> None:
    """librdkafka has one for EndTxn and AddPartitionsToTxn, and another for Produce and TxnOffsetCommit."""
    broker, leader = started(), ClientConnection()
    with on(broker, ClientConnection()):
        producer = ProducerInMemory(broker, TV1)
    for number in range(4):
        with on(broker, ClientConnection()):
            producer.add_partitions()
        with on(broker, leader):
            assert produce(producer, f"{number}", number).message is not None
            assert commit_offset(producer, number).message is not None
        with on(broker, ClientConnection()):
            assert end(producer, committed=True).message.error_code is NONE
    assert leader.closed is None
    assert (visible(broker, 0), committed_offset(broker)) == (["0", "1", "2", "3"], 3)


def test_many_connections_that_share_a_producer_id_are_all_served() -> None:
    """Each transaction has an epoch of its own, and each partition one connection: it may be another in the next one."""
    broker, connections = started(), [ClientConnection() for _ in range(3)]
    with on(broker, connections[1]):
        producer = ProducerInMemory(broker, TV1)
    for number in range(6):
        with on(broker, connections[1] if number % 3 else ClientConnection()):
            producer.add_partitions()
        for partition in (0, 1):
            with on(broker, connections[(number + partition) % 3]):
                assert produce(producer, f"{number}", 0, partition).message is not None
        with on(broker, connections[1]):
            assert end(producer, committed=True).message.error_code is NONE
            bumped = broker.ask(
                "init_producer_id",
                4,
                transactional_id="teller",
                transaction_timeout=MINUTE,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
            )
            producer.epoch = bumped.producer_epoch
    assert [connection.closed for connection in connections] == [None] * 3
    assert visible(broker, 0) == visible(broker, 1) == [f"{number}" for number in range(6)]


def test_shared_producer_id_without_a_new_epoch_keeps_a_connection_for_each_partition() -> None:
    broker, driver, tasks = started(), ClientConnection(), [ClientConnection(), ClientConnection()]
    with on(broker, driver):
        producer = ProducerInMemory(broker, TV1)
    for number in range(4):
        with on(broker, driver):
            producer.add_partitions()
        for partition in (1, 0):
            with on(broker, tasks[partition]):
                assert produce(producer, f"{number}", number, partition).message is not None
        with on(broker, driver):
            assert end(producer, committed=True).message.error_code is NONE
    assert [connection.closed for connection in (driver, *tasks)] == [None] * 3


def test_second_generation_needs_no_guard() -> None:
    broker, first, second = started(), ClientConnection(), ClientConnection()
    with on(broker, first):
        producer = ProducerInMemory(broker, TV2)
        producer.write("first", 1)
        late = dict(producer._identity(), committed=True)
        producer.end(committed=True)
    with on(broker, second):
        producer.write("second", 2)
    with on(broker, first):
        answer = settled(broker, broker.send("end_txn", 5, **late)).message
        assert answer.error_code is ErrorCode.producer_fenced
    assert first.closed is None


def test_who_is_taken_for_late_is_served_on_its_next_connection() -> None:
    """Somebody else who speaks with this producer's id and epoch costs it a connection. He might as well abort for it."""
    broker, first, second = started(), ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    for _ in range(5):
        with on(broker, ClientConnection()):
            assert add_partitions(producer).message is not None
        with on(broker, second):
            assert add_partitions(producer).message is None
        assert second.closed is not None
        second = ClientConnection()
    with on(broker, second):
        assert end(producer, committed=True).message.error_code is NONE
    assert visible(broker, 0) == ["first", "second"]


# --- what is remembered


def test_stranger_leaves_nothing_to_remember() -> None:
    broker = started()
    producer = ProducerInMemory(broker, TV1)
    wrong_epoch = dict(producer._identity(), producer_epoch=7)
    wrong_id = dict(producer._identity(), producer_id=producer.producer_id + 1)
    for number in range(50):
        with on(broker, ClientConnection()):
            for who in (wrong_epoch, wrong_id, dict(producer._identity(), transactional_id=f"{number}")):
                broker.send("end_txn", 3, **who, committed=True)
    guard = broker.core.session_guard
    assert (guard._sessions, guard._left) == ({}, {})


def test_closed_connections_and_expired_ids_are_forgotten() -> None:
    broker = started(transactional_id_expiration_ms="1000")
    first, second = ClientConnection(), ClientConnection()
    producer = gone_on(broker, first, second)
    guard = broker.core.session_guard
    assert guard._left.keys() == {first.number, second.number}
    with on(broker, second):
        end(producer, committed=False)
    for connection in (first, second):
        guard.connection_closed(connection)
    broker.settle()
    broker.clock.advance(2_000)
    broker.core.transactions.expire_ids()
    assert (guard._sessions, guard._left) == ({}, {})


# --- any client, any network


@dataclass
class Client:
    """A client that has one connection at a time for each of its lines; `lines` says which places share one."""

    guard: SessionGuard
    lines: dict[Place, str]
    accepted: int = 0
    current: dict[str, Any] = field(default_factory=dict)
    sent: list[tuple[Any, Place]] = field(default_factory=list)
    spoken: dict[Place, int] = field(default_factory=dict)
    has_ended: bool = False

    def connect(self, line: str) -> None:
        self.accepted += 1
        self.current[line] = SimpleNamespace(
            number=self.accepted, peer_host="test", peer_port=1, close=lambda reason=None: None
        )

    def speak(self, place: Place, *, ends: bool) -> bool:
        """Send on the line of the place; what was sent before it on the same connection is there already."""
        line = self.lines[place]
        if line not in self.current:
            self.connect(line)
        self.sent.append((self.current[line], place))
        self.spoken[place] = self.current[line].number
        admitted = self._arrive(self.current[line], place, ends=ends)
        self.has_ended |= ends
        return admitted

    def late(self, connection: Any, place: Place) -> bool:
        """A copy of what was once sent, or was to be sent, there."""
        return self._arrive(connection, place, ends=False)

    def _arrive(self, connection: Any, place: Place, *, ends: bool) -> bool:
        request: Any = SimpleNamespace(connection=connection, body=None)
        return self.guard.admits(request, PRODUCER, [place], ends_transaction=ends)


PRODUCER = TransactionalProducer("teller", 1, 0)
PARTITIONS = [("ledger", 0), ("ledger", 1)]
PLACES: list[Place] = [*FixedPlace, *PARTITIONS]
SHAPES: list[dict[Place, str]] = [
    dict.fromkeys(PLACES, "everything"),
    {place: "leader" if place is FixedPlace.OFFSET_COMMIT else "coordinator" for place in FixedPlace}
    | dict.fromkeys(PARTITIONS, "leader"),
    dict.fromkeys(FixedPlace, "calls") | dict.fromkeys([FixedPlace.PARTITIONS, *PARTITIONS], "sending"),
    {place: str(place) for place in PLACES},
]


@given(st.data())
@settings(max_examples=200)
def test_what_a_client_sends_now_is_served_and_what_it_sent_before_it_went_on_elsewhere_is_not(
    data: st.DataObject,
) -> None:
    ids: Any = SimpleNamespace(metadata=lambda _: SimpleNamespace(producer_id=1, producer_epoch=0))
    client = Client(SessionGuard(Settings(), ids), data.draw(st.sampled_from(SHAPES)))
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(["speak", "end", "reconnect", "late"]))
        place = data.draw(st.sampled_from(PLACES))
        if step == "reconnect":
            client.connect(client.lines[place])
        elif step == "late" and client.sent and client.has_ended:
            connection, place = data.draw(st.sampled_from(client.sent))
            if connection.number < client.spoken[place]:
                assert not client.late(connection, place)
        elif step in ("speak", "end"):
            place = FixedPlace.END if step == "end" else place
            assert client.speak(place, ends=step == "end")

"""A disk that is full: producers are refused, transactions end in the room that is kept back, and nothing is lost."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.broker_in_memory import DIRECTORY, BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    GROUP,
    NONE,
    TOPIC,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from tests.broker.test_failing_directory import fetched, produced, told

pytestmark = pytest.mark.drawn(6)

STORAGE = ErrorCode.kafka_storage_error
RESERVE_BYTES = 64 * 1024
RESERVE = f"{DIRECTORY}/oncelog-reserve"
SETTINGS = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}


def started(reserve_bytes: int = RESERVE_BYTES, directories: tuple[str, ...] = (DIRECTORY,)) -> BrokerInMemory:
    clock = ManualClock()
    disk = SteppedDisk(0, clock.now_ms)
    settings = {"log_dir_reserve_bytes": str(reserve_bytes)}
    broker = BrokerInMemory(disk, clock, directories, **SETTINGS, **settings)
    make_topic(broker)
    return broker


def fill(broker: BrokerInMemory) -> None:
    """The disk is full, and a producer is the first to see it."""
    broker.disk.space_bytes = 0
    assert produced(broker, 0) is STORAGE


def has_room_again(broker: BrokerInMemory) -> None:
    broker.disk.space_bytes = 10 * RESERVE_BYTES
    broker.clock.advance(1000)
    broker.settle()


def state(broker: BrokerInMemory) -> str:
    return next(iter(broker.core.log_directories)).state.value


def reserve(broker: BrokerInMemory) -> int:
    return len(broker.disk.read_file(RESERVE)) if broker.disk.exists(RESERVE) else 0


def ended(broker: BrokerInMemory, producer: ProducerInMemory, *, committed: bool) -> ErrorCode:
    reply = producer.send_end(committed=committed)
    broker.settle()
    assert reply.came
    if reply.message.error_code is NONE:
        producer.take_epoch(reply)
    return reply.message.error_code


def test_producer_is_refused_and_readers_are_served() -> None:
    broker = started()
    assert produced(broker, 0) is NONE
    fill(broker)
    assert (state(broker), reserve(broker)) == ("full", RESERVE_BYTES), "a producer takes nothing of what is kept back"
    broker.disk.space_bytes = 100
    assert produced(broker, 1) is STORAGE, "small records would be written in the room of what ends transactions"
    assert told(fetched(broker, 0)) is NONE
    assert broker.core.topics.partition(TOPIC, 0).log.log_end_offset == 1
    has_room_again(broker)
    assert (state(broker), produced(broker, 0)) == ("online", NONE)
    assert broker.core.topics.partition(TOPIC, 0).log.log_end_offset == 2
    assert broker.failures == []


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("committed", [True, False])
def test_open_transaction_ends_in_the_room_that_is_kept_back(protocol: Protocol, committed: bool) -> None:
    broker = started()
    producer = ProducerInMemory(broker, protocol)
    producer.write("first", 5)
    fill(broker)
    assert ended(broker, producer, committed=committed) is NONE
    assert [visible(broker, index) for index in (0, 1)] == [["first"] if committed else []] * 2
    assert committed_offset(broker) == (5 if committed else -1)
    assert (state(broker), reserve(broker)) == ("full", RESERVE_BYTES // 2)
    has_room_again(broker)
    assert (state(broker), reserve(broker)) == ("online", RESERVE_BYTES)
    producer.write("second", 6)
    producer.end(committed=True)
    assert broker.failures == []


def test_offsets_of_an_open_transaction_are_committed_and_it_times_out() -> None:
    broker = started()
    producer = ProducerInMemory(broker, TV2)
    assert producer.produce("first", 0) is NONE
    fill(broker)
    producer.commit_offset(7)
    broker.clock.advance(120_000)
    broker.settle()
    assert visible(broker, 0) == []
    assert broker.core.topics.partition(TOPIC, 0).log.producers.open_transactions() == ()
    assert committed_offset(broker) == -1


def test_clients_leave_half_of_the_reserve_to_the_ends_of_transactions() -> None:
    broker = started(8 * 1024)
    producer = ProducerInMemory(broker, TV2)
    producer.write("first", 5)
    fill(broker)
    answers = [commit(broker, number) for number in range(200)]
    assert (answers[0], answers[-1]) == (NONE, ErrorCode.not_coordinator)
    assert reserve(broker) == 4 * 1024
    assert ended(broker, producer, committed=True) is NONE
    assert visible(broker, 0) == ["first"]
    assert broker.failures == []


def commit(broker: BrokerInMemory, offset: int) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    answer = broker.ask(
        "offset_commit",
        7,
        group_id=f"{GROUP}-2",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": TOPIC, "partitions": [partition]}],
    )
    return answer.topics[0].partitions[0].error_code


def test_broker_without_any_room_for_what_must_be_written_stops() -> None:
    broker = started(0)
    producer = ProducerInMemory(broker, TV2)
    producer.write("first", 5)
    broker.disk.space_bytes = 0
    producer.send_end(committed=True)
    broker.settle()
    assert len(broker.failures) == 1
    assert "no space left" in str(broker.failures[0])


def test_other_directory_on_the_same_disk_is_full_too() -> None:
    broker = started(directories=("/a", "/b"))
    broker.disk.space_bytes = 0
    assert (produced(broker, 1), produced(broker, 0)) == (STORAGE, STORAGE)
    assert {one.state.value for one in broker.core.log_directories} == {"full"}
    has_room_again(broker)
    assert {one.state.value for one in broker.core.log_directories} == {"online"}


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("after", ["room", "kill", "power cut", "kill and no room"])
def test_full_disk_at_any_write_loses_and_tears_nothing(protocol: Protocol, after: str) -> None:
    for changes in range(200):
        broker = started()
        broker.disk.fill_up(changes)
        seen = copied(broker, protocol)
        was_over = broker.disk.countdown_is_over
        go_on(broker, after)
        judge(broker, seen, changes)
        if not was_over:
            assert changes > 20
            return
    pytest.fail("the workload is longer than the writes that were tried")


def copied(broker: BrokerInMemory, protocol: Protocol) -> dict[str, bool]:
    """Some transactions; what became of each that was answered, and of records outside of them."""
    said: dict[str, bool] = {}
    try:
        producer = ProducerInMemory(broker, protocol)
    except AssertionError:
        return said
    for number in range(4):
        value, committed = f"{number}", number != 1
        try:
            producer.write(value, number)
        except AssertionError:
            committed = False
        error = ended(broker, producer, committed=committed)
        if error is not NONE:
            break
        said[value] = committed
    broker.core.durability.retire()
    broker.core.checkpoints.write()
    broker.settle()
    assert broker.failures == []
    return said


def go_on(broker: BrokerInMemory, after: str) -> None:
    if after == "room":
        broker.disk.work_again()
        broker.clock.advance(1000)
        broker.settle()
        return
    if after == "power cut":
        broker.disk.crash()
    else:
        broker.disk.kill()
    if after != "kill and no room":
        broker.disk.work_again()
    broker.disk.steps.clear()
    broker.restart()
    broker.settle()


def judge(broker: BrokerInMemory, said: dict[str, bool], changes: int) -> None:
    broker.clock.advance(120_000)
    broker.settle()
    assert broker.failures == [], changes
    assert broker.core.start_report.damage == (), changes
    seen = [visible(broker, index) for index in (0, 1)]
    assert seen[0] == seen[1], (changes, seen)
    for value, committed in said.items():
        assert (value in seen[0]) is committed, (changes, value, said, seen)
    has_room_again(broker)
    assert produced(broker, 0) is NONE, changes

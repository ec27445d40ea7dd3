"""A broker that dies at any step of a transaction's end, by kill or by power cut, comes back with all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

from harness.broker_in_memory import BrokerInMemory, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import (
    MINUTE,
    NONE,
    TV1,
    TV2,
    ProducerInMemory,
    Protocol,
    committed_offset,
    make_topic,
    visible,
)
from oncelog.broker.storage.topics import TRANSACTION_STATE

pytestmark = pytest.mark.drawn(3)

# More than the end of a transaction ever takes: the last cases crash a broker that has nothing left to do.
STEPS_MAX = 18
# So that a start has few logs to open.
FEW_PARTITIONS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}
Crash = Callable[[SteppedDisk], None]


def kill(disk: SteppedDisk) -> None:
    disk.kill()


def cut_power(disk: SteppedDisk) -> None:
    disk.crash()


class Way(Enum):
    """How what a commit needs is made durable."""

    NEW_FILES = "the files are new: each is synced"
    WRITE_AHEAD = "everything is small: one file is synced"
    LARGE = "the records are large: their files are synced, and one for the rest"
    RETIRED = "the one file is being retired: so is everything it stood for"

    @property
    def second(self) -> str:
        return "second" * 20_000 if self is Way.LARGE else "second"


def new_broker(seed: int) -> BrokerInMemory:
    """On one file system, or on two, each of which keeps what was not synced, or loses it, without regard to the other."""
    directories = ("/data", "/more") if seed // 2 % 2 else ("/data",)
    return BrokerInMemory(SteppedDisk(seed), ManualClock(), directories, **FEW_PARTITIONS)


def with_one_commit(seed: int, protocol: Protocol) -> tuple[BrokerInMemory, ProducerInMemory]:
    broker = new_broker(seed)
    make_topic(broker)
    producer = ProducerInMemory(broker, protocol)
    producer.write("first", 1)
    producer.end(committed=True)
    broker.settle()
    return broker, producer


def without_a_commit(seed: int, protocol: Protocol) -> tuple[BrokerInMemory, ProducerInMemory]:
    broker = new_broker(seed)
    make_topic(broker)
    return broker, ProducerInMemory(broker, protocol)


def amid_an_abort(seed: int, protocol: Protocol, steps: int) -> BrokerInMemory:
    """So many steps after a second transaction is to be aborted."""
    broker, producer = with_one_commit(seed, protocol)
    producer.write("second", 2)
    producer.send_end(committed=False)
    for _ in range(steps):
        broker.disk.take_step()
    return broker


def whole_or_absent(broker: BrokerInMemory, value: str, offset: int, before: tuple[str, ...] = ("first",)) -> bool:
    """Whether the transaction is there: in both partitions and in the group, or in none of them."""
    found = [visible(broker, partition) for partition in (0, 1)]
    assert found[0] == found[1], "a part of the transaction is visible"
    is_there = value in found[0]
    assert found[0] == ([*before, value] if is_there else [*before]), found
    previous = 1 if before else -1
    assert committed_offset(broker) == (offset if is_there else previous), "the offsets and the records disagree"
    return is_there


def no_transaction_is_open(broker: BrokerInMemory) -> None:
    for partition in broker.core.topics.partitions():
        assert partition.log.last_stable_offset == partition.log.high_watermark, str(partition)


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("crash", [kill, cut_power])
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
def test_commit_that_was_answered_survives_and_any_other_is_whole_or_absent(
    way: Way, protocol: Protocol, crash: Crash, steps: int
) -> None:
    is_first = way is Way.NEW_FILES
    for seed in range(6):
        broker, producer = without_a_commit(seed, protocol) if is_first else with_one_commit(seed, protocol)
        producer.write(way.second, 2)
        if way is Way.RETIRED:
            broker.core.durability.retire()
        reply = producer.send_end(committed=True)
        for _ in range(steps):
            broker.disk.take_step()
        was_answered = reply.came
        if was_answered:
            assert reply.message.error_code is NONE
        crash(broker.disk)
        broker.restart()
        broker.settle()
        if not was_answered and crash is kill:
            # What the operating system kept goes on where it was: the producer, or its timeout, ends it.
            broker.clock.advance(120_000)
            broker.settle()
        assert whole_or_absent(broker, way.second, 2, () if is_first else ("first",)) or not was_answered
        no_transaction_is_open(broker)


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("crash", [kill, cut_power])
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_aborted_transaction_never_comes_back(protocol: Protocol, crash: Crash, steps: int) -> None:
    for seed in range(8):
        broker = amid_an_abort(seed, protocol, steps)
        crash(broker.disk)
        broker.restart()
        broker.settle()
        broker.clock.advance(120_000)
        broker.settle()
        assert not whole_or_absent(broker, "second", 2)
        no_transaction_is_open(broker)


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_log_ends_after_a_power_cut_no_earlier_than_readers_of_committed_records_had_come(
    protocol: Protocol, steps: int
) -> None:
    """They go on over what was aborted. Were that lost, they would pass over the committed records that take its place."""
    for seed in range(8):
        broker = amid_an_abort(seed, protocol, steps)
        partitions = [one for one in broker.core.topics.partitions() if one.topic != TRANSACTION_STATE]
        seen = {str(one): one.log.last_stable_offset for one in partitions}
        cut_power(broker.disk)
        broker.restart()
        broker.settle()
        ends = {str(one): one.log.log_end_offset for one in broker.core.topics.partitions()}
        assert all(ends[name] >= offset for name, offset in seen.items()), (seed, seen, ends)


@pytest.mark.parametrize("between", range(5))
@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_transactions_whose_decisions_share_a_file_are_each_whole_or_absent(
    protocol: Protocol, steps: int, between: int
) -> None:
    """One decision makes those before it durable, and the next transaction begins while the last is completed."""
    for seed in range(6):
        broker, first = with_one_commit(seed, protocol)
        second = ProducerInMemory(broker, protocol, "auditor")
        first.write("a", 2)
        second.write("b", 3)
        replies = {"a": first.send_end(committed=True)}
        for _ in range(between):
            broker.disk.take_step()
        replies["b"] = second.send_end(committed=True)
        if replies["a"].came and protocol is TV2:
            first.take_epoch(replies["a"])
            first.write("c", 4)
        for _ in range(steps):
            broker.disk.take_step()
        broker.disk.crash()
        broker.restart()
        broker.settle()
        values = visible(broker, 0)
        assert values == visible(broker, 1), "a part of a transaction is visible"
        assert "c" not in values
        for value, reply in replies.items():
            assert value in values or not reply.came
        no_transaction_is_open(broker)


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_transaction_that_begins_at_once_after_a_commit_does_not_share_its_fate(protocol: Protocol, steps: int) -> None:
    for seed in range(12):
        broker, producer = with_one_commit(seed, protocol)
        producer.write("second", 2)
        producer.end(committed=True)
        producer.write("third", 3)
        for _ in range(steps):
            broker.disk.take_step()
        broker.disk.crash()
        broker.restart()
        broker.settle()
        assert whole_or_absent(broker, "second", 2)
        assert "third" not in visible(broker, 0)
        no_transaction_is_open(broker)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_second_power_cut_during_the_start_after_the_first_changes_nothing(protocol: Protocol) -> None:
    for seed in range(12):
        for steps in range(6):
            broker, producer = with_one_commit(seed, protocol)
            producer.write("second", 2)
            producer.end(committed=True)
            producer.write("third", 3)
            producer.send_end(committed=True)
            broker.disk.crash()
            broker.restart()
            there = visible(broker, 0)
            for _ in range(steps):
                broker.disk.take_step()
            broker.disk.crash()
            broker.restart()
            broker.settle()
            assert visible(broker, 0) == visible(broker, 1) == there
            assert "second" in there
            no_transaction_is_open(broker)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_producer_of_a_transaction_that_a_power_cut_interrupted_is_fenced(protocol: Protocol) -> None:
    """What it wrote may be gone, so that its commit would be one of a part."""
    for seed in range(8):
        broker, producer = with_one_commit(seed, protocol)
        producer.write("second", 2)
        broker.disk.crash()
        broker.restart()
        broker.settle()
        reply = producer.send_end(committed=True)
        broker.settle()
        assert reply.message.error_code is not NONE
        assert not whole_or_absent(broker, "second", 2)
        no_transaction_is_open(broker)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_producer_goes_on_after_the_broker_was_killed(protocol: Protocol) -> None:
    broker, producer = with_one_commit(0, protocol)
    producer.write("second", 2)
    broker.disk.kill()
    broker.restart()
    producer.end(committed=True)
    broker.settle()
    assert whole_or_absent(broker, "second", 2)


@pytest.mark.parametrize("steps", range(0, 36, 3))
@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_commit_and_its_producer_survive_the_retirement_of_the_write_ahead_log(protocol: Protocol, steps: int) -> None:
    for seed in range(8):
        broker, producer = with_one_commit(seed, protocol)
        producer.write("second", 2)
        producer.end(committed=True)
        broker.core.durability.retire()
        for _ in range(steps):
            broker.disk.take_step()
        if seed % 2:
            # As the operating system may at any time.
            broker.disk.commit_names()
        broker.disk.crash()
        broker.restart()
        broker.settle()
        assert whole_or_absent(broker, "second", 2)
        no_transaction_is_open(broker)
        again = ProducerInMemory(broker, protocol)
        assert again.producer_id == producer.producer_id
        assert again.epoch > producer.epoch


def test_first_epoch_of_a_producer_survives_a_power_cut() -> None:
    for seed in range(8):
        broker, first = without_a_commit(seed, TV1)
        broker.disk.crash()
        broker.restart()
        broker.settle()
        again = ProducerInMemory(broker, TV1)
        assert again.producer_id == first.producer_id
        assert again.epoch > first.epoch


def test_epoch_that_was_answered_survives_a_power_cut() -> None:
    """A zombie that a bump fenced must not come back to life with the epoch it had."""
    broker, _ = with_one_commit(0, TV1)
    newer = ProducerInMemory(broker, TV1)
    broker.disk.crash()
    broker.restart()
    broker.settle()
    assert ProducerInMemory(broker, TV1).epoch > newer.epoch


def test_producer_id_is_never_given_out_twice() -> None:
    broker = BrokerInMemory(SteppedDisk(), ManualClock())
    given: list[int] = []
    for _ in range(4):
        for _ in range(300):
            answer = broker.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=MINUTE)
            given.append(answer.producer_id)
        broker.disk.crash()
        broker.restart()
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=str)
def test_decision_in_files_that_two_retired_write_ahead_logs_vouched_for_is_not_cut_back(protocol: Protocol) -> None:
    """The second is about other logs; it has only the word for these, and no checkpoint was written since."""
    for seed in range(8):
        broker, producer = with_one_commit(seed, protocol)
        home = broker.core.transactions.coordinator.partition_for
        elsewhere = next(name for name in "abcdef" if home(name) != home(producer.transactional_id))
        other = ProducerInMemory(broker, protocol, elsewhere)
        broker.core.durability.retire()
        broker.settle()
        other.write("second", 2)
        other.end(committed=True)
        broker.core.durability.retire()
        broker.settle()
        broker.disk.crash()
        broker.restart()
        broker.settle()
        assert whole_or_absent(broker, "second", 2)
        assert ProducerInMemory(broker, protocol).epoch > producer.epoch

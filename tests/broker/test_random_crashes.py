"""Several producers, and a broker that is killed or loses its power at any step: each transaction is whole or absent.

What is drawn from the seed: who writes how much, when a transaction ends and how, when the write-ahead log is retired and a
checkpoint written, what becomes of another topic, how many steps the disk takes in between, how the broker dies, and what a power
cut takes of that which was not synced. ONCELOG_SEED chooses other runs, and ONCELOG_ROUNDS how many.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from enum import Enum

import pytest

from harness.broker_in_memory import BrokerInMemory, Reply, SteppedDisk
from harness.manual_clock import ManualClock
from harness.transaction_in_memory import MINUTE, NONE, TOPIC, TV1, TV2, ProducerInMemory, make_topic, visible

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
RUNS = int(os.environ.get("ONCELOG_ROUNDS", "40"))
CRASHES = 4
ACTIONS = 30
LARGE = "x" * 100_000
"""More than the write-ahead log takes."""
FEW_PARTITIONS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}
EVERY_TRANSACTION_IS_TIMED_OUT_MS = 120_000


class End(Enum):
    NONE = "nobody asked for its end"
    COMMIT = "a commit was asked for"
    ABORT = "an abort was asked for"


@dataclass
class Written:
    """One transaction, and what may be seen of it."""

    value: str
    offset: int
    end: End = End.NONE
    was_answered: bool = False


@dataclass
class Writer:
    """One transactional id: its producer while there is one, what it has written, and the end that it waits for."""

    name: str
    is_second_generation: bool
    producer: ProducerInMemory | None = None
    transactions: list[Written] = field(default_factory=list)
    ending: Reply | None = None

    @property
    def current(self) -> Written:
        return self.transactions[-1]


class Run:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        directories = ("/data", "/more") if self.draw.random() < 0.5 else ("/data",)
        self.disk = SteppedDisk(seed)
        self.broker = BrokerInMemory(self.disk, ManualClock(), directories, **FEW_PARTITIONS)
        make_topic(self.broker)
        self.writers = [Writer(f"writer-{number}", self.draw.random() < 0.5) for number in range(3)]

    def play(self) -> None:
        for _ in range(CRASHES):
            for _ in range(self.draw.randrange(ACTIONS)):
                self.act()
            self.crash()
            self.check()

    def act(self) -> None:
        writer = self.draw.choice(self.writers)
        action = self.draw.choice(
            [
                self.write,
                self.write,
                self.end,
                self.steps,
                self.steps,
                self.retire,
                self.checkpoint,
                self.change_another,
            ]
        )
        action(writer)
        self.take_answers()

    def write(self, writer: Writer) -> None:
        if writer.ending is not None:
            return
        if writer.producer is None:
            self.broker.settle()
            protocol = TV2 if writer.is_second_generation else TV1
            writer.producer = ProducerInMemory(self.broker, protocol, writer.name, group=writer.name)
        if not writer.transactions or writer.current.end is not End.NONE or writer.current.was_answered:
            number = len(writer.transactions) + 1
            padding = LARGE if self.draw.random() < 0.2 else ""
            writer.transactions.append(Written(f"{writer.name}-{number}{padding}", number))
            writer.producer.write(writer.current.value, number)

    def end(self, writer: Writer) -> None:
        if writer.ending is not None or writer.producer is None or not writer.transactions:
            return
        if writer.current.end is End.NONE:
            writer.current.end = End.COMMIT if self.draw.random() < 0.7 else End.ABORT
            writer.ending = writer.producer.send_end(committed=writer.current.end is End.COMMIT)

    def steps(self, _: Writer) -> None:
        for _ in range(self.draw.randrange(6)):
            self.disk.take_step()

    def retire(self, _: Writer) -> None:
        self.broker.core.durability.retire()

    def checkpoint(self, _: Writer) -> None:
        self.broker.core.checkpoints.write()

    def change_another(self, _: Writer) -> None:
        """Nobody waits for the answer: the broker may die before it, or go on with the next such change."""
        topic = {"name": "another", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        setting = {"name": "flush.messages", "value": "1", "config_operation": 0}
        match self.draw.randrange(5):
            case 0 | 1:
                self.broker.send("create_topics", 5, topics=[topic], timeout=MINUTE)
            case 2:
                self.broker.send("delete_topics", 4, topic_names=["another"], timeout=MINUTE)
            case 3:
                grown = {"name": "another", "count": self.draw.randrange(3, 6), "assignments": None}
                self.broker.send("create_partitions", 1, topics=[grown], timeout=MINUTE, validate_only=False)
            case 4:
                altered = {"resource_type": 2, "resource_name": "another", "configs": [setting]}
                self.broker.send("incremental_alter_configs", 1, resources=[altered], validate_only=False)

    def take_answers(self) -> None:
        for writer in self.writers:
            if writer.ending is not None and writer.ending.came:
                assert writer.ending.message.error_code is NONE, (writer.name, writer.ending.message)
                writer.current.was_answered = True
                assert writer.producer is not None
                writer.producer.take_epoch(writer.ending)
                writer.ending = None

    def crash(self) -> None:
        self.take_answers()
        if self.draw.random() < 0.6:
            self.disk.crash()
        else:
            self.disk.kill()
        self.broker.restart()
        for writer in self.writers:
            writer.producer = writer.ending = None
            if writer.transactions and writer.current.end is End.NONE:
                # It is aborted, by its timeout or by the next producer of its id.
                writer.current.end = End.ABORT

    def check(self) -> None:
        self.broker.settle()
        self.broker.clock.advance(EVERY_TRANSACTION_IS_TIMED_OUT_MS)
        self.broker.settle()
        assert not self.broker.failures
        for partition in self.broker.core.topics.partitions():
            assert partition.log.last_stable_offset == partition.log.high_watermark, str(partition)
        seen = [visible(self.broker, partition) for partition in (0, 1)]
        for writer in self.writers:
            there = [[value for value in values if value.startswith(f"{writer.name}-")] for values in seen]
            assert there[0] == there[1], f"{writer.name}: a part of a transaction is visible"
            self.check_writer(writer, there[0])

    def check_writer(self, writer: Writer, there: list[str]) -> None:
        expected = []
        for written in writer.transactions:
            is_there = written.value in there
            if written.end is End.COMMIT and written.was_answered:
                assert is_there, f"{written.value[:20]}: a commit that was answered is lost"
            if written.end is not End.COMMIT:
                assert not is_there, f"{written.value[:20]} was not committed, and is visible"
            if is_there:
                expected.append(written.value)
                # What it is now, it stays.
                written.was_answered = True
            elif written.end is End.COMMIT:
                written.end = End.ABORT
        assert there == expected, "twice, or in another order"
        last = max((written.offset for written in writer.transactions if written.end is End.COMMIT), default=-1)
        assert committed(self.broker, writer.name) == last, "the offsets and the records disagree"


def committed(broker: BrokerInMemory, group: str) -> int:
    if broker.core.topics.named("__consumer_offsets") is None:
        return -1
    topics = [{"name": TOPIC, "partition_indexes": [0]}]
    answer = broker.ask("offset_fetch", 7, group_id=group, topics=topics, require_stable=True)
    (found,) = answer.topics[0].partitions
    assert found.error_code is NONE, found
    return int(found.committed_offset)


@pytest.mark.parametrize("number", range(RUNS))
def test_whatever_crashes_each_transaction_is_whole_or_absent(number: int) -> None:
    Run(SEED * 1_000_000 + number).play()

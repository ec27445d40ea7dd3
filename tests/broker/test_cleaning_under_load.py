"""A broker compacts while producers write and consumers read from the beginning, and is killed in the middle of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import randbytes

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.oncelog_process import OncelogNode
from harness.waiting import until

pytestmark = pytest.mark.slow

TOPIC = "table"
KEYS, PER_TRANSACTION, TRANSACTIONS = 100, 50, 160
PASSES = 5
VALUE_BYTES = 1000
SETTINGS = {
    "log_cleaner_backoff_ms": "50",
    "log_cleaner_min_cleanable_ratio": "0.1",
    "log_cleaner_delete_retention_ms": "0",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "offsets_topic_segment_bytes": str(2**20),
    "log_segment_delete_delay_ms": "100",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OncelogNode]:
    node = OncelogNode(tmp_path, **SETTINGS)
    node.start()
    yield node
    node.stop()


class Writer:
    """Writes transactions of keyed records, aborts every fourth, and knows which value of each key counts."""

    def __init__(self, node: OncelogNode) -> None:
        self.committed: dict[bytes, bytes] = {}
        self.number = 0
        self._node = node
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._node.bootstrap_servers,
                "transactional.id": "writer",
                "compression.type": "lz4",
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        return producer

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            self._producer.begin_transaction()
            written = {}
            for _ in range(PER_TRANSACTION):
                self.number += 1
                key = b"%d" % (self.number * 7 % KEYS)
                written[key] = b"%d " % self.number + randbytes(VALUE_BYTES)
                self._producer.produce(TOPIC, key=key, value=written[key])
            if self.number // PER_TRANSACTION % 4 == 3:
                self._producer.flush(30)
                self._producer.abort_transaction(30)
            else:
                self._producer.commit_transaction(30)
                self.committed |= written

    def begin_again(self) -> None:
        self._producer = self._new_producer()


def read(node: OncelogNode, isolation: str) -> list[Message]:
    """Everything from the beginning to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[Message] = []
    while True:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                offsets = [one.offset() for one in found]
                assert offsets == sorted(set(offsets)), "each record comes once, in order"
                return found


def cleaned_offset(node: OncelogNode) -> int:
    checkpoint = node.data_directory / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return max((int(line.split(" ")[2]) for line in lines if line.startswith(TOPIC)), default=0)


def test_readers_find_the_last_values_while_the_log_is_cleaned_and_after_a_kill(node: OncelogNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    configs = {"cleanup.policy": "compact", "segment.bytes": str(2**20)}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(30)
    writer = Writer(node)
    is_over = threading.Event()
    passes: list[dict[bytes, int]] = []
    problems: list[BaseException] = []

    def keep_reading(isolation: str) -> None:
        try:
            while not is_over.is_set():
                passes.append({one.key(): int(one.value().split()[0]) for one in read(node, isolation)})
        except BaseException as problem:  # noqa: BLE001 - it is told on the test's own thread
            problems.append(problem)

    readers = [threading.Thread(target=keep_reading, args=(one,)) for one in ("read_committed", "read_uncommitted")]
    for reader in readers:
        reader.start()
    writer.write(TRANSACTIONS)
    # However fast the machine is: there is a load until enough was read, and cleaned meanwhile.
    while not problems and (len(passes) < PASSES or cleaned_offset(node) == 0):
        writer.write(5)
    before = cleaned_offset(node)
    is_over.set()
    for reader in readers:
        reader.join()
    assert not problems
    writer.write(40)
    node.kill()
    node.start()
    writer.begin_again()
    last = {one.key(): one.value() for one in read(node, "read_committed")}
    assert last == writer.committed
    writer.write(40)
    until(lambda: cleaned_offset(node) > before, 30)
    found = read(node, "read_committed")
    assert {one.key(): one.value() for one in found} == writer.committed
    assert len(found) < writer.number / 2, "most of it is gone"
    names = [path.name for path in (node.data_directory / f"{TOPIC}-0").iterdir()]
    assert not [name for name in names if name.endswith(".swap")]

"""What a cleaning costs producers who write meanwhile, how long it takes, and whether it leaves what Kafka's cleaner leaves.

python -m bench.compaction [--megabytes 2000]
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from zlib import crc32

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.measure import Measure, Side, at_most
from bench.nodes import KAFKA, Topics, new_node
from bench.program import Program, main
from harness.processes import BrokerProcess
from harness.shared_producer import until
from harness.watched_node import WatchedNode

MEGABYTES = 100
VALUE_BYTES = 1000
RECORDS_PER_TRANSACTION = 1000
ABORTED_EACH = 8
SEGMENT_BYTES = 64 * 1024 * 1024
HOUR_MS = 3_600_000
FLAT_OUT_S, PACED_S = 4.0, 6.0
TICK_S = 0.01
CLEANING_S_MAX = 900.0
DROP, CLEANED, LEFT, BLOCKED = "producers slower", "cleaned", "records left", "longest callback"


class Left(NamedTuple):
    """A record that a cleaning left."""

    offset: int
    key: bytes
    crc: int


class Load:
    """A producer on a topic of its own, at a pace or flat out, on a thread."""

    def __init__(self, bootstrap_servers: str, topic: str, records_per_s: float | None) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 5,
                "queue.buffering.max.messages": 20_000,
                "log_level": 0,
            }
        )
        self._topic, self._records_per_s = topic, records_per_s
        self._count = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._began_s = time.perf_counter()
        self._thread.start()

    def end(self) -> float:
        """Stop it; return how many records a second were acknowledged."""
        self._is_over.set()
        self._thread.join()
        return self._count / (time.perf_counter() - self._began_s)

    def _run(self) -> None:
        value, sent = bytes(VALUE_BYTES), 0
        while not self._is_over.is_set():
            due = sent + 500
            if self._records_per_s is not None:
                due = int((time.perf_counter() - self._began_s) * self._records_per_s)
            while sent < due:
                try:
                    self._producer.produce(self._topic, value, on_delivery=self._acknowledged)
                except BufferError:
                    break
                sent += 1
            self._producer.poll(0 if self._records_per_s is None else TICK_S)
        self._producer.flush(60)

    def _acknowledged(self, error: KafkaError | None, _: Any) -> None:
        self._count += error is None


class CompactionProgram(Program):
    name = "compaction"
    title = "Compaction of a log of which half is garbage, while producers write at half their speed"
    peer = KAFKA
    megabytes: ClassVar[int] = MEGABYTES
    measures = (
        Measure(DROP, "%", at_most(10)),
        Measure(CLEANED, "MB/s"),
        Measure(LEFT, "records"),
        Measure(BLOCKED, "ms", at_most(20)),
    )
    notes = (
        "transactions of 1,000 records of 1 KB, one in eight aborted. Both sides are given the same records, and what they leave",
        "is compared record by record. Ours runs with a watch on its event loop, which is asyncio's own.",
    )
    settings = MappingProxyType({"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": str(HOUR_MS)})

    def open(self, side: Side) -> None:
        directory = self.scratch / side.value
        self._left: list[Left] | None = None
        self.nodes[side] = (
            WatchedNode(directory, **{name.replace(".", "_"): value for name, value in self.settings.items()})
            if side is Side.OURS
            else new_node(side, directory, self.settings)
        )
        self.nodes[side].start()
        self.resources.callback(self.nodes[side].kill)
        self.topics[side] = Topics(self.nodes[side].bootstrap_servers)

    def run(self, side: Side) -> Mapping[str, float]:
        node, load_topic = self.nodes[side], self.topics[side].create("load")
        table = f"table-{time.time_ns()}"
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        config = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.ms": str(HOUR_MS)}
        config |= {"segment.bytes": str(SEGMENT_BYTES), "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0"}
        config |= {"message.timestamp.after.max.ms": str(100 * HOUR_MS)}
        admin.create_topics([NewTopic(table, 1, 1, config=config)])[table].result(30)
        records = max(2, self.effort.amount(self.megabytes * 1000) // (2 * RECORDS_PER_TRANSACTION)) * 2
        end = fill(node.bootstrap_servers, table, records * RECORDS_PER_TRANSACTION)
        half = self._rate(node, load_topic, None, FLAT_OUT_S) / 2
        before = self._rate(node, load_topic, half, PACED_S)
        if isinstance(node, WatchedNode):
            node.watched()
        load, began_s = Load(node.bootstrap_servers, load_topic, half), time.perf_counter()
        compact(admin, table)
        until(lambda: cleaned_offset(node, table) >= end, CLEANING_S_MAX, 0.02)
        took_s = time.perf_counter() - began_s
        time.sleep(max(0.0, PACED_S / 2 - took_s))
        during = load.end()
        found = {DROP: max(0.0, 1 - during / before) * 100, CLEANED: records * RECORDS_PER_TRANSACTION / 1000 / took_s}
        if isinstance(node, WatchedNode):
            found[BLOCKED] = node.watched().longest_ms
        left = what_is_left(node.bootstrap_servers, table)
        self._compare(side, left)
        for topic in (table, load_topic):
            self.topics[side].delete(topic)
        return found | {LEFT: len(left)}

    def _rate(self, node: BrokerProcess, topic: str, records_per_s: float | None, seconds: float) -> float:
        load = Load(node.bootstrap_servers, topic, records_per_s)
        time.sleep(seconds)
        return load.end()

    def _compare(self, side: Side, left: list[Left]) -> None:
        """Ours runs first."""
        if side is Side.OURS:
            self._left = left
        elif self._left is not None and self._left != left:
            differing = sorted(set(self._left) ^ set(left))
            raise RuntimeError(f"{len(differing)} records are in one of the two logs alone, the first: {differing[:3]}")


def fill(bootstrap_servers: str, topic: str, records: int) -> int:
    """Write each key twice, in transactions, and begin another segment; return the offset at which that begins."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": topic,
            "linger.ms": 50,
            "queue.buffering.max.messages": 10 * RECORDS_PER_TRANSACTION,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    keys = records // 2
    time_ms = int(time.time() * 1000)
    for number in range(0, records, RECORDS_PER_TRANSACTION):
        producer.begin_transaction()
        for one in range(number, number + RECORDS_PER_TRANSACTION):
            value = b"%d " % one + bytes(VALUE_BYTES - 12)
            producer.produce(topic, value, key=b"key %d" % (one % keys), timestamp=time_ms)
        if number // RECORDS_PER_TRANSACTION % ABORTED_EACH == ABORTED_EACH - 1:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    landed: list[int] = []
    last = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    last.produce(
        topic,
        b"",
        key=b"the last",
        timestamp=time_ms + 2 * HOUR_MS,
        on_delivery=lambda error, message: landed.append(message.offset()),
    )
    last.flush(60)
    return landed[0]


def compact(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def cleaned_offset(node: BrokerProcess, topic: str) -> int:
    path = node.data_directory / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(line.split(" ")[2]) for line in lines if line.startswith(f"{topic} ")), default=0)


def what_is_left(bootstrap_servers: str, topic: str) -> list[Left]:
    """Every committed record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Left] = []
    try:
        while True:
            for message in consumer.consume(5000, 1.0):
                error = message.error()
                if error is None:
                    found.append(Left(message.offset(), message.key(), crc32(message.value())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise RuntimeError(error.str())
    finally:
        consumer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    chosen, rest = parser.parse_known_args(sys.argv[1:])
    CompactionProgram.megabytes = chosen.megabytes
    main([CompactionProgram], rest)

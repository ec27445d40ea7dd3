"""Transactions with librdkafka: how long one takes, how many a second from many producers, and what they cost.

python -m bench.transactions
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.java_clients import produce
from bench.measure import Measure, Side, at_least, at_most
from bench.nodes import KAFKA, PARTITIONS
from bench.program import Program, main
from bench.usage import cpu_seconds

VALUE = b"x" * 100
TIMEOUT_SECONDS = 30
UNCOUNTED = 20
"""The first transactions of a producer find the coordinator and open connections."""

ONE_PRODUCER_TRANSACTIONS = 300
CONCURRENT_PRODUCERS = {10: 15.0, 50: 40.0}
"""How many producers at the same time, and the 99th percentile to reach, in ms."""
CONCURRENT_MS = 6000
RAMP_UP_MS = 2000
READER_RECORDS = 300
THROUGHPUT_RECORDS, THROUGHPUT_RECORD_BYTES, COMMIT_INTERVAL_MS = 400_000, 1000, 100

ONE_P50, ONE_P99 = "one-record transaction, p50", "one-record transaction, p99"
READER_P50 = "produced until a read_committed consumer has it, p50"
IDEMPOTENT, TRANSACTIONAL = "produce 1 KB, idempotent", "produce 1 KB, a commit each 100 ms"
TRANSACTIONAL_SHARE = "transactional against idempotent"


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _measures() -> tuple[Measure, ...]:
    concurrent = [
        measure
        for producers, p99_ms in CONCURRENT_PRODUCERS.items()
        for measure in (
            Measure(f"{producers} producers", "transactions/s", at_least(2500)),
            Measure(f"{producers} producers, p50", "ms"),
            Measure(f"{producers} producers, p99", "ms", at_most(p99_ms)),
            Measure(f"{producers} producers, broker", "CPU ms each"),
        )
    ]
    return (
        Measure(ONE_P50, "ms", at_most(1.5)),
        Measure(ONE_P99, "ms", at_most(6)),
        *concurrent,
        Measure(READER_P50, "ms"),
        Measure(IDEMPOTENT, "records/s"),
        Measure(TRANSACTIONAL, "records/s"),
        Measure(TRANSACTIONAL_SHARE, "", at_least(0.97)),
    )


class TransactionsProgram(Program):
    name = "transactions"
    title = "Transactions (librdkafka; throughput with the Java client)"
    peer = KAFKA
    measures = _measures()
    notes = (
        "oncelog answers a commit when its data, its offsets and its decision are on the disk (fsync);",
        "Apache Kafka answers when the page cache has them, as it is set up by default.",
    )
    has_warm_up = True

    def run(self, side: Side) -> Mapping[str, float]:
        node = self.nodes[side]
        topics = self.topics[side]
        topic = topics.create("transactions")
        latencies_ms = one_producer(node.bootstrap_servers, topic, self.effort.amount(ONE_PRODUCER_TRANSACTIONS))
        found = {ONE_P50: percentile(latencies_ms, 0.5), ONE_P99: percentile(latencies_ms, 0.99)}
        for producers in CONCURRENT_PRODUCERS:
            found |= self._concurrent(side, topic, producers)
        latencies_ms = until_read(
            node.bootstrap_servers, topics.create("reader", 1), self.effort.amount(READER_RECORDS)
        )
        return {**found, READER_P50: percentile(latencies_ms, 0.5), **self._throughput(side)}

    def _concurrent(self, side: Side, topic: str, producers: int) -> dict[str, float]:
        node = self.nodes[side]
        load = ConcurrentLoad(node.bootstrap_servers, topic, producers)
        duration_s = self.effort.amount(CONCURRENT_MS) / 1000
        time.sleep(self.effort.amount(RAMP_UP_MS) / 1000)
        load.count()
        cpu_before = cpu_seconds(node.pid)
        time.sleep(duration_s)
        cpu_s = cpu_seconds(node.pid) - cpu_before
        latencies_ms = load.stop()
        return {
            f"{producers} producers": len(latencies_ms) / duration_s,
            f"{producers} producers, p50": percentile(latencies_ms, 0.5),
            f"{producers} producers, p99": percentile(latencies_ms, 0.99),
            f"{producers} producers, broker": cpu_s * 1000 / len(latencies_ms),
        }

    def _throughput(self, side: Side) -> dict[str, float]:
        rates = {}
        topics = self.topics[side]
        for name, transaction_ms in ((IDEMPOTENT, None), (TRANSACTIONAL, COMMIT_INTERVAL_MS)):
            topic = topics.create("throughput")
            rates[name] = produce(
                self.nodes[side].bootstrap_servers,
                topic,
                records=self.effort.amount(THROUGHPUT_RECORDS),
                record_bytes=THROUGHPUT_RECORD_BYTES,
                transaction_ms=transaction_ms,
            ).records_per_second
            topics.delete(topic)
        return {**rates, TRANSACTIONAL_SHARE: rates[TRANSACTIONAL] / rates[IDEMPOTENT]}


def _producer(bootstrap_servers: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": f"bench-{uuid.uuid4().hex}", "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    return producer


def _transaction_ms(producer: Producer, topic: str, partition: int) -> float:
    """One record, from begin until commit has returned."""
    began = time.perf_counter()
    producer.begin_transaction()
    producer.produce(topic, VALUE, partition=partition)
    producer.commit_transaction(TIMEOUT_SECONDS)
    return (time.perf_counter() - began) * 1000


def one_producer(bootstrap_servers: str, topic: str, transactions: int) -> list[float]:
    """The durations of one transaction after the other, in ms."""
    producer = _producer(bootstrap_servers)
    durations_ms = [_transaction_ms(producer, topic, 0) for _ in range(UNCOUNTED + transactions)]
    return durations_ms[UNCOUNTED:]


class ConcurrentLoad:
    """Producers with transactional ids of their own that commit one record after the other, all at the same time.

    Transactions that end between `count` and `stop` are counted.
    """

    def __init__(self, bootstrap_servers: str, topic: str, producers: int) -> None:
        """Return when every producer has its id, and has begun."""
        self._is_counted = threading.Event()
        self._is_over = threading.Event()
        self._topic = topic
        self._threads = ThreadPoolExecutor(producers)
        ready = [_producer(bootstrap_servers) for _ in range(producers)]
        self._running = [self._threads.submit(self._commit, one, at % PARTITIONS) for at, one in enumerate(ready)]

    def count(self) -> None:
        self._is_counted.set()

    def stop(self) -> list[float]:
        """The durations of all counted transactions, in ms. Raises KafkaException when one of them failed."""
        self._is_over.set()
        durations_ms = [duration_ms for running in self._running for duration_ms in running.result()]
        self._threads.shutdown()
        return durations_ms

    def _commit(self, producer: Producer, partition: int) -> list[float]:
        durations_ms: list[float] = []
        while not self._is_over.is_set():
            duration_ms = _transaction_ms(producer, self._topic, partition)
            if self._is_counted.is_set() and not self._is_over.is_set():
                durations_ms.append(duration_ms)
        return durations_ms


def until_read(bootstrap_servers: str, topic: str, records: int) -> list[float]:
    """How long each of many records takes, one after the other, from `produce` to a consumer that waits for it, in ms."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "acks": "all"})
    durations_ms = []
    for _ in range(UNCOUNTED + records):
        began = time.perf_counter()
        producer.produce(topic, VALUE, partition=0)
        producer.poll(0)
        while (message := consumer.poll(TIMEOUT_SECONDS)) is None or message.error() is not None:
            if time.perf_counter() - began > TIMEOUT_SECONDS:
                raise TimeoutError(f"a record of {topic} was produced and did not come")
        durations_ms.append((time.perf_counter() - began) * 1000)
    producer.flush(TIMEOUT_SECONDS)
    consumer.close()
    return durations_ms[UNCOUNTED:]


if __name__ == "__main__":
    main([TransactionsProgram])

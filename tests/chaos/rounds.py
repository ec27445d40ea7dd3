"""A broker that crashes under a transactional load, again and again, and what has to be so after every start.

Each acknowledged commit is there whole, each other transaction is not there at all, and each group's offset is that of its last
committed transaction.
"""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, TopicPartition

from harness.conformance.clients import Confluent
from harness.processes import BrokerProcess
from harness.shared_producer import Cluster, until
from oncelog.client import OffsetAndMetadata, Producer
from oncelog.client import TopicPartition as OwnTopicPartition
from tests.chaos.load import LoadProducer, Outcome, Worker

PARTITIONS = 2


class OwnProducer:
    """Our client's producer, behind the face of the load."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = Producer(
            bootstrap, transactional_id=transactional_id, call_timeout_ms=20_000, delivery_timeout_ms=20_000
        )
        self.init, self.begin = self._producer.init_transactions, self._producer.begin_transaction
        self.commit, self.abort = self._producer.commit_transaction, self._producer.abort_transaction
        self.close = self._producer.close

    def send(self, topic: str, partition: int, key: str, value: str) -> None:
        self._producer.send(topic, value.encode(), key=key.encode(), partition=partition)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = OwnTopicPartition(topic, partition)
        self._producer.send_offsets_to_transaction({place: OffsetAndMetadata(offset)}, group)


class Reader:
    """Reads on from where it was, to the last stable offset of every partition."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self._bootstrap = bootstrap
        self._next = {(topic, partition): 0 for topic in topics for partition in range(PARTITIONS)}

    def news(self) -> Iterator[tuple[str, int, str]]:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])
        unfinished = set(self._next)
        while unfinished:
            for message in consumer.consume(1000, 0.2):
                place = (message.topic(), message.partition())
                if message.error() is None:
                    self._next[place] = message.offset() + 1
                    yield (*place, message.value().decode())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(place)
        consumer.close()


def run_rounds(node: BrokerProcess, rounds: int, seed: int, crash: Callable[[], None]) -> Counter[Outcome]:
    """Round after round; what came of the transactions."""
    chance = random.Random(seed)
    cluster = Cluster(node)
    topics = [cluster.create_topic(PARTITIONS) for _ in range(2)]
    source = cluster.create_topic(1)
    workers = list(make_workers(node, topics, source, seed))
    reader = Reader(node.bootstrap_servers, topics)
    seen: Counter[str] = Counter()
    settled: Counter[Outcome] = Counter()
    for number in range(rounds):
        for worker in workers:
            worker.settle()
        one_round(node, workers, chance, crash)
        for worker in workers:
            worker.settle()
        values = Counter(reader.news())
        problems = check_round(workers, values, settled) + check_offsets(node, workers, values)
        assert problems == [], f"seed {seed}, round {number}: {problems[:10]}"
        seen.update(value.split(":")[0] for _, _, value in values)
    assert min(seen[worker.name] for worker in workers) > 0, "every producer got something through"
    return settled


def make_workers(node: BrokerProcess, topics: list[str], source: str, seed: int) -> Iterator[Worker]:
    places = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    librdkafka = Confluent()

    def first_generation(name: str) -> LoadProducer:
        return librdkafka.producer(node.bootstrap_servers, name)

    def second_generation(name: str) -> LoadProducer:
        return OwnProducer(node.bootstrap_servers, name)

    for number, make in enumerate((first_generation, first_generation, second_generation, second_generation)):
        keeps = number % 2 == 0
        yield Worker(f"worker-{number}", make, places, (source, 0), seed * 100 + number, keeps)


def one_round(node: BrokerProcess, workers: list[Worker], chance: random.Random, crash: Callable[[], None]) -> None:
    """A load, a crash at a random moment of it, and a new start; every producer ends what it was doing."""
    stop = threading.Event()
    before = sum(worker.committed() for worker in workers)
    threads = [threading.Thread(target=worker.write_until, args=(stop,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    until(lambda: sum(worker.committed() for worker in workers) >= before + 3, timeout_seconds=60)
    threading.Event().wait(chance.uniform(0.0, 0.5))
    crash()
    stop.set()
    node.start()
    for worker, thread in zip(workers, threads, strict=True):
        thread.join(45)
        assert not thread.is_alive(), never_came_back(node, worker, thread)


def never_came_back(node: BrokerProcess, worker: Worker, thread: threading.Thread) -> str:
    """Where a producer is stuck, and what the broker makes of its transaction."""
    frame = sys._current_frames()[thread.ident or 0]
    state = Cluster(node).transaction_state(worker.name)
    return f"{worker.name} never came back, its transaction is {state}:\n{''.join(traceback.format_stack(frame))}"


def check_round(workers: list[Worker], values: Counter[tuple[str, int, str]], settled: Counter[Outcome]) -> list[str]:
    """What is wrong with the records of this round's transactions."""
    problems = [f"{record} is there {count} times" for record, count in values.items() if count > 1]
    by_transaction: dict[tuple[str, int], set[tuple[str, int, str]]] = defaultdict(set)
    for record in values:
        name, number, _ = record[2].split(":")
        by_transaction[name, int(number)].add(record)
    for worker in workers:
        for number, wanted in worker.wanted.items():
            outcome, got = worker.outcomes[number], by_transaction.pop((worker.name, number), set())
            settled[outcome] += 1
            allowed = {Outcome.COMMITTED: (wanted,), Outcome.ABSENT: (set(),), Outcome.UNKNOWN: (wanted, set())}
            if got not in allowed[outcome]:
                missing = len(wanted - got)
                problems.append(f"{worker.name} {number}, {outcome.value}: {len(got)} there, {missing} missing")
        worker.wanted.clear()
    return problems + [f"{one} was decided in an earlier round" for one in by_transaction]


def check_offsets(node: BrokerProcess, workers: list[Worker], values: Counter[tuple[str, int, str]]) -> list[str]:
    """Each group's offset is the number of the last transaction whose records are there."""
    last: dict[str, int] = {}
    for _, _, value in values:
        name, number, _ = value.split(":")
        last[name] = max(last.get(name, 0), int(number))
    cluster, problems = Cluster(node), []
    for worker in workers:
        code, offset, _ = cluster.fetch_offset(worker.group, *worker.source, stable=True)
        if worker.name in last and offset != last[worker.name]:
            problems.append(f"{worker.group} is at {offset} ({code.name}), its records at {last[worker.name]}")
    return problems

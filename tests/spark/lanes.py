"""A lane of the kill matrix: one pipeline from topic to topic behind a proxy of its own, and what should come out of it."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Protocol

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.cluster import Cluster, ClusterMember
from harness.kafka import KafkaNode
from harness.names import unique
from oncelog.client import Client
from oncelog.client.values import TransactionVersion
from oncelog.testing.proxy import Proxy
from tests.spark import topics
from tests.spark.driver import Form
from tests.spark.strikes import STEPS, Event, Fate, OlderCluster, Step, strike

OFFSETS_MAX = 20
WORKER_COMMAND = ["-m", "oncelog.spark.session.daemon", "pyspark.worker"]
PARTITIONS = 2
CELL_SECONDS = 240.0
SETTLED_SECONDS = 0.1


class Node(Protocol):
    """What a lane runs on: a broker, or several that are killed and started one at a time."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self) -> None: ...
    def start(self) -> None: ...


class ThreeBrokers:
    """A cluster whose brokers are killed in turn: each leads partitions, and is some lane's coordinator."""

    name = "three brokers"

    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self._turns = cycle(cluster.brokers.values())
        self._killed: ClusterMember | None = None
        self._is_whole = threading.Event()
        self._is_whole.set()

    def kill(self) -> None:
        """The next one, when the one before is back."""
        assert self._is_whole.wait(CELL_SECONDS)
        self._is_whole.clear()
        self._killed = next(self._turns)
        self._killed.kill()

    def start(self) -> None:
        assert self._killed is not None
        self._killed.start()
        self._is_whole.set()


@dataclass(frozen=True)
class Kind:
    """What makes one lane different from another of the same broker."""

    mode: str
    version: TransactionVersion
    form: Form = Form.QUERY

    @property
    def stateful(self) -> bool:
        return self.form is Form.STATEFUL


class Ledger:
    """What the lane's output has to be, key by key, and what a read_committed reader has seen of it as it came."""

    def __init__(self, servers: str, target: str, source: str, group: str) -> None:
        settings = {
            "bootstrap.servers": servers,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self.expected: dict[str, list[str]] = {}
        self.seen: dict[str, list[str]] = {}
        self._source = [TopicPartition(source, number) for number in range(PARTITIONS)]
        self._reader = Consumer(settings | {"group.id": unique("reader")})
        self._reader.assign([TopicPartition(target, number, 0) for number in range(PARTITIONS)])
        self._group = Consumer(settings | {"group.id": group})

    def close(self) -> None:
        self._reader.close()
        self._group.close()

    def outcome(self, seconds: float) -> str:
        """Wait until everything is there; say "exact", or what is wrong."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._read(0.05)
            if _count(self.seen) >= _count(self.expected) and self._offsets_are_at_the_end():
                self._read(SETTLED_SECONDS)
                return self._verdict()
        return f"stuck: {self._verdict()}, group at {self._committed()}"

    def _read(self, seconds: float) -> None:
        while (message := self._reader.poll(seconds)) is not None:
            if message.error() is None:
                self.seen.setdefault(message.key().decode(), []).append(message.value().decode())

    def _offsets_are_at_the_end(self) -> bool:
        try:
            ends = {item.partition: self._end(item) for item in self._source}
        except KafkaException:
            return False
        return self._committed() == ends

    def _end(self, item: TopicPartition) -> int:
        _, end = self._group.get_watermark_offsets(item, timeout=10)
        return int(end)

    def _committed(self) -> dict[int, int]:
        try:
            found = self._group.committed(self._source, timeout=10)
        except KafkaException:
            return {}
        return {item.partition: max(0, item.offset) for item in found if item.error is None}

    def _verdict(self) -> str:
        if self.seen == self.expected:
            return "exact"
        pairs = [(key, value) for key, values in self.seen.items() for value in values]
        wanted = {(key, value) for key, values in self.expected.items() for value in values}
        lost, strange = len(wanted - set(pairs)), len(set(pairs) - wanted)
        again = len(pairs) - len(set(pairs))
        return f"{lost} lost, {again} again, {strange} strange" if lost or again or strange else "out of order"


def _count(records: dict[str, list[str]]) -> int:
    return sum(len(values) for values in records.values())


class Lane:
    """One pipeline, and the matrix's cells in it. `about` tells it from others of its kind."""

    def __init__(self, node: Node, kind: Kind, directory: Path, seed: int, about: str = "") -> None:
        self.node, self.kind = node, kind
        parts = (node.name.split()[0], kind.mode, kind.version.name, kind.form.value, *about.split())
        self.name = "-".join(parts).lower()
        self.transactional_id = unique(self.name)
        self.source = topics.create(node.bootstrap_servers, unique("in"), PARTITIONS)
        self.target = topics.create(node.bootstrap_servers, unique("out"), PARTITIONS)
        older = kind.version is TransactionVersion.TV1
        self.proxy = OlderCluster(node.bootstrap_servers) if older else Proxy(node.bootstrap_servers)
        self.ledger = Ledger(node.bootstrap_servers, self.target, self.source, self.transactional_id)
        self._flag = directory / f"{self.name}.flag"
        self._checkpoint = directory / self.name
        self._random = random.Random(f"{seed} {self.name}")
        self._tasks_max = self._random.randint(1, PARTITIONS)
        self._producer = self._new_producer()
        self._written = 0

    @property
    def plan(self) -> dict[str, object]:
        return {
            "name": self.name,
            "servers": self.proxy.bootstrap_servers,
            "source": self.source,
            "target": self.target,
            "transactional_id": self.transactional_id,
            "checkpoint": str(self._checkpoint),
            "mode": self.kind.mode,
            "form": self.kind.form.value,
            "offsets_max": OFFSETS_MAX,
            "tasks_max": self._tasks_max,
            # Where tasks send, killing the worker that sends is worse.
            "flag": str(self._flag) if self.kind.mode == "driver-pump" and not self.kind.stateful else "",
        }

    def step(self, round_number: int) -> Step:
        return Step.END if self.kind.stateful else STEPS[self.kind.version][round_number]

    def fail_next_task(self) -> None:
        if self.plan["flag"]:
            self._flag.touch()

    def cell(self, event: Event, step: Step, gate: Callable[[], object], before: Callable[[], object]) -> str:
        """Strike once while records go through; return "exact", or what is wrong once everything has settled."""
        batches = 1 if self.kind.stateful else self._random.randint(1, 3)
        nth = 1 if step is Step.TAKE else self._random.randint(1, batches)
        fate = self._random.choice(_fates(event, step, self.kind))
        if event is Event.BROKER_KILLED and step is Step.END:
            gate = after_the_markers(self.node, self.transactional_id, gate)
        fired = strike(self.proxy, step, event, fate, nth, gate)
        before()
        self.produce_batches(batches)
        if not fired.wait(CELL_SECONDS):
            return f"never came to it (number {nth})"
        outcome = self.ledger.outcome(CELL_SECONDS)
        return outcome if outcome == "exact" else f"{outcome} ({fate.value}, number {nth})"

    def produce_batches(self, count: int) -> None:
        """As much as that many micro-batches read, the last of them perhaps less."""
        self._produce(count * OFFSETS_MAX - self._random.randint(0, OFFSETS_MAX // 2))

    def steady(self) -> str:
        """Let records go through without a strike of this lane's own; return "exact", or what is wrong."""
        self._produce(OFFSETS_MAX + self._random.randint(0, OFFSETS_MAX))
        return self.ledger.outcome(CELL_SECONDS)

    def close(self) -> None:
        self.ledger.close()
        self.proxy.close()

    def _new_producer(self) -> Producer:
        settings = {
            "bootstrap.servers": self.node.bootstrap_servers,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        if not self.kind.stateful:
            return Producer(settings)
        producer = Producer(settings | {"transactional.id": unique("input")})
        producer.init_transactions(30)
        return producer

    def _produce(self, count: int) -> None:
        """For a lane with state all at once, in one partition: a micro-batch then reads all of it or nothing."""
        records = topics.keyed_records(count, keys=5, start=self._written)
        self._written += count
        touched = dict.fromkeys(key for key, _ in records)
        for key, value in records:
            self.ledger.expected.setdefault(key, [])
            if not self.kind.stateful:
                self.ledger.expected[key].append(value.upper())
        for key in touched if self.kind.stateful else ():
            self.ledger.expected[key].append(str(_total(self._written, key)))
        if self.kind.stateful:
            self._producer.begin_transaction()
        for key, value in records:
            self._producer.produce(
                self.source, key=key, value=value, **({"partition": 0} if self.kind.stateful else {})
            )
        assert self._producer.flush(60) == 0
        if self.kind.stateful:
            self._producer.commit_transaction(60)


def after_the_markers(node: Node, transactional_id: str, gate: Callable[[], object]) -> Callable[[], object]:
    """Spare Apache Kafka one moment: killed between its answer and its markers, 4.3.1 may never write them.

    When it starts again it loads the transaction before it knows who leads the partitions, takes them for deleted, and
    notes CompleteCommit without a marker in them: an acknowledged commit that nobody sees. No client can mend that.
    """
    if node.name != KafkaNode.name:
        return gate

    def wait_and_go() -> object:
        with Client(node.bootstrap_servers) as client:
            while client.describe_transactions([transactional_id])[transactional_id].state == "PrepareCommit":
                pass
        return gate()

    return wait_and_go


def _total(written: int, key: str) -> int:
    return sum(found == key for found, _ in topics.keyed_records(written, keys=5))


def _fates(event: Event, step: Step, kind: Kind) -> list[Fate]:
    if event is Event.BROKER_KILLED:
        return [Fate.LOST, Fate.ANSWERED]
    if event is Event.TASK_FAILS:
        sent_by_task = step is Step.PRODUCE and kind.mode == "shared-producer"
        return [Fate.ARRIVES, Fate.LATE, Fate.LOST] if sent_by_task else [Fate.ARRIVES, Fate.ANSWERED]
    return [Fate.ARRIVES, Fate.LATE, Fate.LOST, Fate.ANSWERED]


@dataclass
class Driver:
    """The driver's process, and the one that takes its place."""

    plan: Path
    output: Path
    endings: Path
    program: str = "tests.spark.driver"
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.program, str(self.plan)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.starts += 1

    def kill(self) -> None:
        """kill -9 of the driver, Java and Python. Python workers end by themselves when their Java does."""
        assert self._process is not None
        family = self._family()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                if process.pid == self._process.pid or "java" in process.name():
                    process.kill()
        self._process.wait()
        # A worker that is paused notices nothing.
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        psutil.wait_procs(family, timeout=30)

    def pause(self) -> None:
        """SIGSTOP of the driver, Java, Python and its workers. A worker that is begun meanwhile is stopped too."""
        paused: set[psutil.Process] = set()
        while running := set(self._family()) - paused:
            for process in running:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            paused |= running

    def resume(self) -> None:
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def kill_workers(self) -> None:
        """kill -9 of every Python process that runs tasks, but for the one that starts them."""
        for process in self._descendants():
            with suppress(psutil.NoSuchProcess):
                parent = process.parent()
                if parent is None or process.cmdline()[1:] != WORKER_COMMAND:
                    continue
                if parent.cmdline()[1:] == WORKER_COMMAND:
                    process.kill()

    def restart_query(self, lane: Lane) -> None:
        self.say(f"restart {lane.name}")

    def say(self, line: str) -> None:
        """Write a line to the driver's standard input."""
        assert self._process is not None
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def why_queries_ended(self) -> list[tuple[str, str]]:
        if not self.endings.exists():
            return []
        lines = [json.loads(line) for line in self.endings.read_text().splitlines()]
        return [(line["lane"], line["ending"]) for line in lines]

    def _family(self) -> list[psutil.Process]:
        assert self._process is not None
        return [psutil.Process(self._process.pid), *self._descendants()]

    def _descendants(self) -> list[psutil.Process]:
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)


def kind_of_ending(ending: str) -> str:
    """The name of what ended a query, out of a Python error that went through Java."""
    known = ("ProducerFenced", "OutcomeUnknown", "AttemptsExhausted", "FenceError", "CheckpointError", "QueryError")
    named = re.findall(r"\b([A-Z]\w+(?:Error|Exception|Exhausted|Refused|Lost|Failed))\b", ending)
    return next((name for name in known if name in ending), named[-1] if named else ending[:60])

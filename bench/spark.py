"""Topic to topic through Spark: our source and exactly-once sink on oncelog, Spark's own connector on Apache Kafka.

python -m bench.spark
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.connector_jars import connector_jars
from bench.measure import Measure, Side, at_least, at_least_times_peer, at_most_times_peer
from bench.nodes import PARTITIONS
from bench.program import Effort, Program, main
from bench.spark_job import RESULT, Job, Work
from bench.usage import cpu_seconds

RECORDS = 2_000_000
RECORD_BYTES = 100
MICRO_BATCHES = 10
LATENCY_SAMPLES = 100
LATENCY_SAMPLES_MIN = 20
TIMEOUT_SECONDS = 600

READ = "batch read, warm"
UPPER = "topic to upper case to topic, after the first micro-batch"
JSON = "topic to JSON to topic, after the first micro-batch"
LATENCY_P50, LATENCY_P99 = "one record in to out, p50", "one record in to out, p99"


class JobError(Exception):
    """A Spark job did not do what it was to do."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """A job from topic to topic, and the measures it gives."""

    work: Work
    rate: str
    label: str


STREAMS = (_Stream(Work.UPPER, UPPER, "upper case"), _Stream(Work.JSON, JSON, "JSON"))


def _measures() -> tuple[Measure, ...]:
    streams = [
        measure
        for stream in STREAMS
        for measure in (
            Measure(stream.rate, "records/s", at_least_times_peer(1.2)),
            Measure(f"{stream.label}: first micro-batch", "ms"),
            Measure(f"{stream.label}: Spark", "CPU s/M records"),
            Measure(f"{stream.label}: broker", "CPU s/M records"),
        )
    ]
    return (
        Measure(READ, "records/s", at_least(1_200_000)),
        *streams,
        Measure(LATENCY_P50, "ms", at_most_times_peer(1.0)),
        Measure(LATENCY_P99, "ms"),
    )


class SparkProgram(Program):
    name = "spark"
    title = "Spark, local[2], 100 B records, 4 partitions"
    peer = "Spark's connector on Kafka"
    measures = _measures()
    notes = (
        "oncelog: exactly once. Spark's own connector (max.poll.records 10000, fetch.max.wait.ms 5, batch.size 131072,",
        "linger.ms 5): at least once.",
    )

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        super().__init__(effort, scratch, resources)
        self._inputs: dict[Side, str] = {}
        self._numbers = itertools.count()

    def open(self, side: Side) -> None:
        if side is Side.PEER:
            connector_jars()
        super().open(side)
        self._inputs[side] = self.topics[side].create("input")
        fill(self.nodes[side].bootstrap_servers, self._inputs[side], self.effort.amount(RECORDS))

    def run(self, side: Side) -> Mapping[str, float]:
        records = self.effort.amount(RECORDS)
        found = {READ: self._do(side, Work.READ, self._inputs[side], records)["records_per_second"]}
        for stream in STREAMS:
            found |= self._stream(side, stream)
        samples = max(LATENCY_SAMPLES_MIN, self.effort.amount(LATENCY_SAMPLES))
        latency = self._do(side, Work.LATENCY, self.topics[side].create("latency"), samples)
        return {**found, LATENCY_P50: latency["p50_ms"], LATENCY_P99: latency["p99_ms"]}

    def _stream(self, side: Side, stream: _Stream) -> dict[str, float]:
        records = self.effort.amount(RECORDS)
        cpu_before = cpu_seconds(self.nodes[side].pid)
        found = self._do(side, stream.work, self._inputs[side], records)
        broker_cpu_s = cpu_seconds(self.nodes[side].pid) - cpu_before
        millions = records / 1e6
        return {
            stream.rate: found["records_per_second"],
            f"{stream.label}: first micro-batch": found["first_batch_ms"],
            f"{stream.label}: Spark": found["cpu_seconds"] / millions,
            f"{stream.label}: broker": broker_cpu_s / millions,
        }

    def _do(self, side: Side, work: Work, source: str, records: int) -> dict[str, float]:
        """Run a job, and check that what came out of it is complete. Raises JobError."""
        node = self.nodes[side]
        target = self.topics[side].create("output")
        job = Job(
            work=work.value,
            side=side.value,
            bootstrap_servers=node.bootstrap_servers,
            source=source,
            target=target,
            checkpoint=str(self.scratch / f"checkpoint-{next(self._numbers)}"),
            partitions=PARTITIONS,
            records=records,
            batch_records=max(1, records // MICRO_BATCHES),
        )
        found = run_job(job)
        if work in (Work.UPPER, Work.JSON):
            written = count(node.bootstrap_servers, target)
            if written != records:
                raise JobError(f"{self.title}, {side.value}: {records} records went in, {written} came out")
        self.topics[side].delete(target)
        return found


def run_job(job: Job) -> dict[str, float]:
    """A job in a process, and a JVM, of its own. Raises JobError."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark_job", job.to_json()],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    results = [line.removeprefix(RESULT) for line in done.stdout.splitlines() if line.startswith(RESULT)]
    if not results:
        raise JobError(f"{job.work} on {job.side}: {(done.stdout + done.stderr)[-3000:]}")
    found: dict[str, float] = json.loads(results[-1])
    return found


def fill(
    bootstrap_servers: str, topic: str, records: int, partitions: int = PARTITIONS, record_bytes: int = RECORD_BYTES
) -> None:
    """JSON documents of `record_bytes`, each with a key of ten digits, the same number in every partition."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "batch.size": 262_144, "log_level": 0}
    )
    padding = "x" * (record_bytes - len(_document(0, "")))
    for number in range(records):
        while True:
            try:
                producer.produce(topic, _document(number, padding), f"{number:010d}", number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(TIMEOUT_SECONDS)
    if left:
        raise JobError(f"{left} records of the input were not delivered")


def _document(number: int, padding: str) -> str:
    return (
        f'{{"id":1{number:010d},"user":"u{number % 10_000:04d}","amount":{10 + number % 90}.{number % 100:02d},'
        f'"pad":"{padding}"}}'
    )


def count(bootstrap_servers: str, topic: str, partitions: int = PARTITIONS) -> int:
    """How many records a read_committed consumer finds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = 0, set()
    while len(ended) < partitions:
        for message in consumer.consume(10_000, 1):
            if message.error() is None:
                found += 1
            else:
                ended.add(message.partition())
    consumer.close()
    return found


if __name__ == "__main__":
    main([SparkProgram])

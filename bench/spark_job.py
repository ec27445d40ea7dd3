"""One load in a Spark of its own: a process that takes a `Job` as JSON and prints what it found as JSON.

Every run has a new JVM, so that none is warm from another.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.measure import Side
from bench.spark_connectors import Connector, connector
from oncelog.spark import build_session

RESULT = "RESULT "
JSON_SCHEMA = "id long, user string, amount double, pad string"
CORES = 2
PATIENCE_SECONDS = 60
UNCOUNTED_SAMPLES = 20


class Work(Enum):
    """What a job does."""

    READ = "read"
    UPPER = "upper"
    JSON = "json"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Job:
    """`records` are in the topic `source`, or come one by one for LATENCY; `batch_records` go into a micro-batch."""

    work: str
    side: str
    bootstrap_servers: str
    source: str
    target: str
    checkpoint: str
    partitions: int
    records: int
    batch_records: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def session_for(job: Job, through: Connector) -> SparkSession:
    settings = {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
    session = build_session(
        app_name="bench", master=f"local[{CORES}]", settings={**settings, **through.session_settings()}
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def transformed(rows: DataFrame, work: Work) -> DataFrame:
    text = F.col("value").cast("string")
    value: Column = F.to_json(F.from_json(text, JSON_SCHEMA)) if work is Work.JSON else F.upper(text)
    return rows.select("key", value.alias("value"))


def spark_cpu_seconds() -> float:
    """What this process, its JVM and all Python workers have used so far. What has ended is in its parent's times."""
    own = psutil.Process()
    seconds = 0.0
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])
    return seconds


def read(job: Job, session: SparkSession, through: Connector) -> dict[str, float]:
    """The whole topic as a batch, three times; the first pays for class loading and is not counted."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        found = through.read(session, job.source).agg(F.sum(F.length("value")), F.count("*")).first()
        seconds.append(time.perf_counter() - began)
        assert found is not None
        assert found[1] == job.records, f"{found[1]} of {job.records} records were read"
    return {"records_per_second": job.records / statistics.median(seconds[1:])}


def stream(job: Job, session: SparkSession, through: Connector) -> dict[str, float]:
    """The whole topic through a query in several micro-batches; the first pays for what is done once."""
    rows = transformed(through.read_stream(session, job.source, batch_records=job.batch_records), Work(job.work))
    cpu_before = spark_cpu_seconds()
    query = through.start(rows, job.target, job.checkpoint, availableNow=True)
    query.awaitTermination()
    cpu_seconds = spark_cpu_seconds() - cpu_before
    batches = [one for one in query.recentProgress if one.numInputRows]
    durations_ms = [one.durationMs["triggerExecution"] for one in batches]
    later_records = sum(one.numInputRows for one in batches[1:])
    return {
        "records_per_second": later_records / sum(durations_ms[1:]) * 1000,
        "first_batch_ms": durations_ms[0],
        "cpu_seconds": cpu_seconds,
        **_phases(batches[1:]),
    }


def latency(job: Job, session: SparkSession, through: Connector) -> dict[str, float]:
    """One record after the other, from `produce` until a read_committed consumer has what became of it."""
    rows = transformed(through.read_stream(session, job.source, batch_records=None), Work.UPPER)
    query = through.start(rows, job.target, job.checkpoint, processingTime="0 seconds")
    consumer = _reader_of(job)
    producer = Producer({"bootstrap.servers": job.bootstrap_servers, "linger.ms": 0, "acks": "all"})
    pause = random.Random(1)
    durations_ms = []
    for number in range(UNCOUNTED_SAMPLES + job.records):
        began = time.perf_counter()
        producer.produce(job.source, f'{{"id":{number}}}', key=str(number), partition=number % job.partitions)
        producer.poll(0)
        _wait_for(consumer, f'{{"ID":{number}}}'.encode(), query)
        durations_ms.append((time.perf_counter() - began) * 1000)
        time.sleep(pause.uniform(0.02, 0.1))
    batches = [one for one in query.recentProgress if one.numInputRows]
    query.stop()
    consumer.close()
    counted = sorted(durations_ms[UNCOUNTED_SAMPLES:])
    return {
        "p50_ms": statistics.median(counted),
        "p99_ms": counted[int((len(counted) - 1) * 0.99)],
        **_phases(batches[-50:]),
    }


def _reader_of(job: Job) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(job.target, number, 0) for number in range(job.partitions)])
    return consumer


def _wait_for(consumer: Consumer, value: bytes, query: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None and message.value() == value:
            return
        if query.exception() is not None:
            raise query.exception()
    raise TimeoutError(f"{value!r} did not come out in {PATIENCE_SECONDS} s")


def _phases(batches: list[Any]) -> dict[str, float]:
    """The median of each part of a micro-batch, as Spark reports them, in ms."""
    names = {name for one in batches for name in one.durationMs}
    return {f"{name}_ms": statistics.median(one.durationMs.get(name, 0) for one in batches) for name in sorted(names)}


LOADS: Mapping[Work, Callable[[Job, SparkSession, Connector], dict[str, float]]] = {
    Work.READ: read,
    Work.UPPER: stream,
    Work.JSON: stream,
    Work.LATENCY: latency,
}


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    through = connector(Side(job.side), job.bootstrap_servers)
    session = session_for(job, through)
    found = LOADS[Work(job.work)](job, session, through)
    print(RESULT + json.dumps(found), flush=True)
    session.stop()


if __name__ == "__main__":
    main()

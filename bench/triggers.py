"""The sink beside the same writes without a transaction, at several triggers.

python -m bench.triggers
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Consumer, TopicPartition

from bench.measure import Measure, Side, at_least
from bench.nodes import KAFKA, PARTITIONS
from bench.program import Effort, Program, main
from bench.spark import JobError, fill
from bench.trigger_job import RESULT, Guarantee, TriggerJob

INPUT_MB_PER_SECOND = 10
"""How fast the input is taken to grow: so a trigger says how large a micro-batch is."""
TRIGGERS: Mapping[str, tuple[float, int]] = {"100 ms": (0.1, 30), "1 s": (1.0, 10), "30 s": (30.0, 2)}
"""How many seconds of input a micro-batch has, and how many micro-batches there are; the first is not counted."""
TIMEOUT_SECONDS = 900


def rate_of(guarantee: Guarantee, trigger: str) -> str:
    return f"{guarantee.value}, trigger {trigger}"


def share_of(trigger: str) -> str:
    return f"exactly once against at least once, trigger {trigger}"


def _measures(published: Mapping[str, float]) -> tuple[Measure, ...]:
    """With the least share of the throughput that was published for Kafka Streams at some of the triggers."""
    targets = {trigger: at_least(share) for trigger, share in published.items()}
    return tuple(
        measure
        for trigger in TRIGGERS
        for measure in (
            *(Measure(rate_of(guarantee, trigger), "records/s") for guarantee in Guarantee),
            Measure(share_of(trigger), "", targets.get(trigger)),
        )
    )


class TriggersProgram(Program):
    """Records of 100 bytes, for which 30 % less were published at 100 ms."""

    name = "triggers"
    title = "Spark, local[2], 100 B records, 4 partitions: topic to upper case to topic"
    peer = KAFKA
    record_bytes: ClassVar[int] = 100
    measures = _measures({"100 ms": 0.70})
    notes = (
        "At least once: the same source, encoding and sending, by an idempotent producer that has no transaction and commits",
        f"no offsets. A micro-batch has what comes in during the trigger at {INPUT_MB_PER_SECOND} MB/s.",
    )

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        super().__init__(effort, scratch, resources)
        self._inputs: dict[tuple[Side, str], str] = {}
        self._records: dict[str, int] = {}
        """How many an input has."""
        self._numbers = itertools.count()
        self._orders = {side: itertools.cycle((list(Guarantee), list(Guarantee)[::-1])) for side in Side}

    def open(self, side: Side) -> None:
        super().open(side)
        for trigger, (seconds, micro_batches) in TRIGGERS.items():
            topic = self.topics[side].create("input")
            records = self._batch_records(seconds) * micro_batches
            fill(self.nodes[side].bootstrap_servers, topic, records, record_bytes=self.record_bytes)
            self._records[topic] = records
            self._inputs[side, trigger] = topic

    def run(self, side: Side) -> Mapping[str, float]:
        order = next(self._orders[side])
        asked = [(trigger, guarantee) for trigger in TRIGGERS for guarantee in order]
        warm_up = [self._job(side, next(iter(TRIGGERS)), guarantee) for guarantee in order]
        jobs = [self._job(side, *one) for one in asked]
        rates = dict(zip(asked, self._do([*warm_up, *jobs])[len(warm_up) :], strict=True))
        for job in (*warm_up, *jobs):
            self._check(side, job)
        found = {rate_of(guarantee, trigger): rate for (trigger, guarantee), rate in rates.items()}
        shares = {
            share_of(trigger): rates[trigger, Guarantee.EXACTLY_ONCE] / rates[trigger, Guarantee.AT_LEAST_ONCE]
            for trigger in TRIGGERS
        }
        return {**found, **shares}

    def _check(self, side: Side, job: TriggerJob) -> None:
        """What came out is as much as went in: a transaction leaves a marker in each partition. Raises JobError."""
        records = self._records[job.source]
        is_transactional = Guarantee(job.guarantee) is Guarantee.EXACTLY_ONCE
        markers = math.ceil(records / job.batch_records) * PARTITIONS if is_transactional else 0
        written = _end_offsets(job.bootstrap_servers, job.target)
        if written != records + markers:
            raise JobError(f"{job.guarantee}: {records} records went in, {written - markers} came out")
        self.topics[side].delete(job.target)

    def _batch_records(self, seconds: float) -> int:
        return self.effort.amount(int(INPUT_MB_PER_SECOND * 1_000_000 * seconds) // self.record_bytes)

    def _job(self, side: Side, trigger: str, guarantee: Guarantee) -> TriggerJob:
        return TriggerJob(
            guarantee=guarantee.value,
            bootstrap_servers=self.nodes[side].bootstrap_servers,
            source=self._inputs[side, trigger],
            target=self.topics[side].create("output"),
            checkpoint=str(self.scratch / f"checkpoint-{next(self._numbers)}"),
            batch_records=self._batch_records(TRIGGERS[trigger][0]),
        )

    def _do(self, jobs: list[TriggerJob]) -> list[float]:
        """All jobs in one JVM, which is warm when the first is counted. Raises JobError."""
        done = subprocess.run(
            [sys.executable, "-m", "bench.trigger_job", *(job.to_json() for job in jobs)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        results = [line.removeprefix(RESULT) for line in done.stdout.splitlines() if line.startswith(RESULT)]
        if not results:
            raise JobError((done.stdout + done.stderr)[-3000:])
        found: list[float] = json.loads(results[-1])
        return found


class LargerTriggersProgram(TriggersProgram):
    """Records of a kilobyte, for which 15 % less were published at 100 ms, and nothing at 30 s."""

    name = "triggers_1_kb"
    title = "Spark, local[2], 1 KB records, 4 partitions: topic to upper case to topic"
    record_bytes = 1000
    measures = _measures({"100 ms": 0.85, "30 s": 1.0})


def _end_offsets(bootstrap_servers: str, topic: str) -> int:
    """Of all partitions together."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "nobody"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30) for index in range(PARTITIONS)]
    consumer.close()
    return sum(end for _, end in ends)


if __name__ == "__main__":
    main([TriggersProgram, LargerTriggersProgram])

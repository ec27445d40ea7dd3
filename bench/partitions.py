"""Topic to topic through Spark with many partitions and with few, as many records in a micro-batch.

python -m bench.partitions
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.connector_jars import connector_jars
from bench.measure import Measure, Side, at_most
from bench.program import Effort, Program, main
from bench.spark import JobError, count, fill, run_job
from bench.spark_job import Job, Work

MANY, FEW = 1_000, 4
BATCH_RECORDS = 20_000
MICRO_BATCHES = 7
"""The first of them is not counted among the others."""


def usual(partitions: int) -> str:
    return f"{partitions:,} partitions: a micro-batch after the first"


def first(partitions: int) -> str:
    return f"{partitions:,} partitions: the first micro-batch"


def cpu(partitions: int) -> str:
    return f"{partitions:,} partitions: Spark, all micro-batches"


class PartitionsProgram(Program):
    name = "partitions"
    title = f"Spark, local[2], 100 B records, {BATCH_RECORDS:,} in a micro-batch, from as many partitions to as many"
    peer = "Spark's connector on Kafka"
    measures = (
        Measure(usual(MANY), "ms", at_most(4_000)),
        Measure(first(MANY), "ms"),
        Measure(cpu(MANY), "CPU s"),
        Measure(usual(FEW), "ms"),
        Measure(first(FEW), "ms"),
        Measure(cpu(FEW), "CPU s"),
    )
    notes = (
        "oncelog: exactly once. Spark's own connector: at least once, with the settings of python -m bench.spark.",
    )

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        super().__init__(effort, scratch, resources)
        self._inputs: dict[tuple[Side, int], str] = {}
        self._numbers = itertools.count()

    @property
    def _batch_records(self) -> int:
        return self.effort.amount(BATCH_RECORDS)

    def open(self, side: Side) -> None:
        if side is Side.PEER:
            connector_jars()
        super().open(side)
        for partitions in (MANY, FEW):
            topic = self.topics[side].create("input", partitions)
            fill(self.nodes[side].bootstrap_servers, topic, self._batch_records * MICRO_BATCHES, partitions)
            self._inputs[side, partitions] = topic

    def run(self, side: Side) -> Mapping[str, float]:
        return {**self._copy(side, MANY), **self._copy(side, FEW)}

    def _copy(self, side: Side, partitions: int) -> dict[str, float]:
        """Raises JobError if what came out is not what went in."""
        node, topics = self.nodes[side], self.topics[side]
        target = topics.create("output", partitions)
        records = self._batch_records * MICRO_BATCHES
        job = Job(
            work=Work.UPPER.value,
            side=side.value,
            bootstrap_servers=node.bootstrap_servers,
            source=self._inputs[side, partitions],
            target=target,
            checkpoint=str(self.scratch / f"checkpoint-{next(self._numbers)}"),
            partitions=partitions,
            records=records,
            batch_records=self._batch_records,
        )
        found = run_job(job)
        written = count(node.bootstrap_servers, target, partitions)
        if written != records:
            raise JobError(f"{partitions} partitions, {side.value}: {records} records went in, {written} came out")
        topics.delete(target)
        return {
            usual(partitions): found["triggerExecution_ms"],
            first(partitions): found["first_batch_ms"],
            cpu(partitions): found["cpu_seconds"],
        }


if __name__ == "__main__":
    main([PartitionsProgram])

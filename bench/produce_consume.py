"""Records in and out with Kafka's Java clients: how many a second, and what they cost the broker.

python -m bench.produce_consume
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.java_clients import AssignedConsumer, Throughput, produce
from bench.measure import Measure, Side, at_least_times_peer, at_most
from bench.nodes import KAFKA, Topics
from bench.program import Program, main
from bench.usage import cpu_seconds
from harness.processes import BrokerProcess

RECORDS_PER_SECOND = "records/s"
CPU_PER_GB = "CPU s/GB"


PAYLOADS = 10_000
"""So many values of different lengths are drawn from."""


class Size(NamedTuple):
    """How large records are on average, and how many of them a run has. Without a shortest one all are of one size."""

    label: str
    record_bytes: int
    records: int
    shortest_bytes: int | None = None


SIZES = (Size("1 KB", 1000, 600_000), Size("100 B", 100, 3_000_000), Size("50 to 150 B", 100, 3_000_000, 50))


def _measures() -> tuple[Measure, ...]:
    targets = {("produce", "1 KB"): at_most(2.0), ("consume", "1 KB"): at_most(1.0)}
    return tuple(
        measure
        for verb in ("produce", "consume")
        for size in SIZES
        for measure in (
            Measure(f"{verb} {size.label}", RECORDS_PER_SECOND, at_least_times_peer(1.0)),
            Measure(f"{verb} {size.label}, broker", CPU_PER_GB, targets.get((verb, size.label))),
        )
    )


class ProduceConsumeProgram(Program):
    name = "produce_consume"
    title = "Produce (acks=all, idempotent) and consume, Java clients"
    peer = KAFKA
    measures = _measures()
    has_warm_up = True

    def open(self, side: Side) -> None:
        self._consumer = AssignedConsumer(self.scratch)
        super().open(side)

    def run(self, side: Side) -> Mapping[str, float]:
        node = self.nodes[side]
        found: dict[str, float] = {}
        for size in SIZES:
            found |= self._run_size(node, self.topics[side], size)
        return found

    def _run_size(self, node: BrokerProcess, topics: Topics, size: Size) -> dict[str, float]:
        records = self.effort.amount(size.records)
        topic = topics.create(f"{size.record_bytes}")
        payloads = None if size.shortest_bytes is None else _payloads(self.scratch, size, size.shortest_bytes)

        def send() -> Throughput:
            return produce(
                node.bootstrap_servers, topic, records=records, record_bytes=size.record_bytes, payloads=payloads
            )

        def receive() -> Throughput:
            return self._consumer.consume(node.bootstrap_servers, topic, records=records)

        found: dict[str, float] = {}
        for verb, load in (("produce", send), ("consume", receive)):
            throughput, cpu_per_gb = _with_cpu(node, load, size.record_bytes)
            found[f"{verb} {size.label}"] = throughput.records_per_second
            found[f"{verb} {size.label}, broker"] = cpu_per_gb
        topics.delete(topic)
        return found


def _payloads(directory: Path, size: Size, shortest_bytes: int) -> Path:
    """A file of values, a line each: as many are as much longer than the average as others are shorter."""
    chosen = random.Random(size.label)
    spread = size.record_bytes - shortest_bytes
    lengths = (size.record_bytes + chosen.randint(-spread, spread) for _ in range(PAYLOADS))
    file = directory / f"{size.record_bytes}.txt"
    file.write_text("\n".join("".join(chosen.choices("0123456789", k=length)) for length in lengths))
    return file


def _with_cpu(node: BrokerProcess, load: Callable[[], Throughput], record_bytes: int) -> tuple[Throughput, float]:
    """What a load saw, and the broker's CPU seconds for each GB of it."""
    before = cpu_seconds(node.pid)
    throughput = load()
    gigabytes = throughput.records * record_bytes / 1e9
    return throughput, (cpu_seconds(node.pid) - before) / gigabytes


if __name__ == "__main__":
    main([ProduceConsumeProgram])

"""What exactly once costs a producer beside weaker guarantees, and how large small batches are in each message format.

python -m bench.guarantees
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Producer
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from bench.java_clients import produce
from bench.measure import Measure, Side, at_least, at_most
from bench.nodes import KAFKA
from bench.program import Program, main

RECORDS, RECORD_BYTES, COMMIT_INTERVAL_MS = 1_000_000, 1000, 100
TRANSACTIONAL = "a commit each 100 ms"
WEAKER: Mapping[str, Mapping[str, str]] = {
    "idempotent": {},
    "at least once, in order (1 in flight)": {
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
    },
    "acks=1 (5 in flight)": {"enable.idempotence": "false", "acks": "1"},
}
PUBLISHED: Mapping[str, float] = {"at least once, in order (1 in flight)": 0.97, "acks=1 (5 in flight)": 0.80}
"""The share of the throughput that was published for Apache Kafka when it got transactions."""

SMALL_RECORDS, SMALL_BYTES = 7, 10
SEGMENT, FORMATS = "segment with seven records of 10 B", (0, 1)
PUBLISHED_SIZE = 0.65
TIMEOUT_SECONDS = 30


def share_of(weaker: str) -> str:
    return f"transactional against {weaker}"


class GuaranteesProgram(Program):
    name = "guarantees"
    title = "A producer with transactions beside weaker ones (Java client, 1 KB)"
    peer = KAFKA
    measures = (
        Measure(TRANSACTIONAL, "records/s"),
        *(Measure(weaker, "records/s") for weaker in WEAKER),
        *(Measure(share_of(weaker), "", at_least(PUBLISHED.get(weaker, 0.97))) for weaker in WEAKER),
    )
    has_warm_up = True

    def run(self, side: Side) -> Mapping[str, float]:
        rates = {name: self._rate(side, settings) for name, settings in WEAKER.items()}
        transactional = self._rate(side, {}, COMMIT_INTERVAL_MS)
        shares = {share_of(name): transactional / rate for name, rate in rates.items()}
        return {TRANSACTIONAL: transactional, **rates, **shares}

    def _rate(self, side: Side, settings: Mapping[str, str], transaction_ms: int | None = None) -> float:
        topic = self.topics[side].create("guarantees")
        throughput = produce(
            self.nodes[side].bootstrap_servers,
            topic,
            records=self.effort.amount(RECORDS),
            record_bytes=RECORD_BYTES,
            transaction_ms=transaction_ms,
            settings=settings,
        )
        self.topics[side].delete(topic)
        return throughput.records_per_second


class FormatProgram(Program):
    name = "formats"
    title = "A small batch in format 2 beside the message formats before it"
    peer = KAFKA
    measures = (
        Measure(SEGMENT, "B"),
        *(Measure(f"beside format {magic}", "", at_most(PUBLISHED_SIZE)) for magic in FORMATS),
    )

    def run(self, side: Side) -> Mapping[str, float]:
        topic = self.topics[side].create("formats", 1)
        producer = Producer({"bootstrap.servers": self.nodes[side].bootstrap_servers, "linger.ms": 1000})
        for _ in range(SMALL_RECORDS):
            producer.produce(topic, bytes(SMALL_BYTES), partition=0)
        producer.flush(TIMEOUT_SECONDS)
        (segment,) = (self.nodes[side].data_directory / f"{topic}-0").glob("*.log")
        size_bytes = segment.stat().st_size
        return {
            SEGMENT: size_bytes,
            **{f"beside format {magic}": size_bytes / legacy_bytes(magic) for magic in FORMATS},
        }


def legacy_bytes(magic: int) -> int:
    """The size of the same records in a message format before 2, without compression."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=2**20)
    for offset in range(SMALL_RECORDS):
        assert builder.append(offset, 0 if magic else None, None, bytes(SMALL_BYTES)) is not None, "a batch has room"
    return len(builder.build())


if __name__ == "__main__":
    main([GuaranteesProgram, FormatProgram])

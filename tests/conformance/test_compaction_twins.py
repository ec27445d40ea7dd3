"""oncelog and Apache Kafka clean the same log in the same way: record by record, at the same offsets, pass by pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kio.schema.errors import ErrorCode

from harness.dump_log import dump
from harness.kafka import KafkaNode
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from harness.shared_producer import TV1, Cluster, Driver, until
from oncelog.records import BatchHeader, Codec, Record, batches, build_batch, decode_batch

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]

TOPIC = "table"
HOUR_MS = 3_600_000
SETTINGS = {"log_cleaner_backoff_ms": "100", "log_cleaner_min_cleanable_ratio": "0"}
CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.ms": str(HOUR_MS),
    "delete.retention.ms": "0",
    "message.timestamp.after.max.ms": str(1000 * HOUR_MS),
}
EVENTS = 120
NOW_MS = int(time.time() * 1000)


class Seen(NamedTuple):
    """What counts of a batch; producer ids are numbered in the order in which they come."""

    base_offset: int
    last_offset: int
    attributes: int
    producer: int
    epoch: int
    base_sequence: int
    max_timestamp_ms: int
    records: tuple[Record, ...]


class Side:
    """One of the two brokers, and the producers that write there."""

    def __init__(self, node: BrokerProcess) -> None:
        self.node = node
        self.cluster = Cluster(node)
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        self.admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIGS)])[TOPIC].result(60)
        self.cluster._wait_for_leaders(TOPIC, 1)
        self.end = 0
        self.connection = self.cluster.connect()
        answer = self._init(None)
        self.idempotent = (answer.producer_id, answer.producer_epoch)
        self.drivers = [Driver(self.cluster, TV1, f"writer-{number}").init() for number in range(2)]
        self.sequences: dict[int, int] = {}

    def _init(self, transactional_id: str | None) -> Any:
        found: list[Any] = []

        def done() -> bool:
            found[:] = [
                self.connection.ask(
                    "init_producer_id",
                    4,
                    transactional_id=transactional_id,
                    transaction_timeout=timedelta(seconds=60),
                    producer_id=-1,
                    producer_epoch=-1,
                )
            ]
            return bool(found[0].error_code is ErrorCode.none)

        until(done)
        return found[0]

    def produce(self, records: list[Record], codec: Codec, producer: tuple[int, int], driver: Driver | None) -> None:
        sequence = self.sequences.get(producer[0], 0) if producer[0] >= 0 else -1
        batch = build_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=driver is not None,
            codec=codec,
        )

        def done() -> bool:
            answer = self.connection.ask(
                "produce",
                9,
                transactional_id=None if driver is None else driver.transactional_id,
                acks=-1,
                timeout=timedelta(seconds=30),
                topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
            )
            found = answer.responses[0].partition_responses[0]
            if found.error_code is ErrorCode.none:
                self.end = found.base_offset + len(records)
            return bool(found.error_code is ErrorCode.none)

        until(done)
        if producer[0] >= 0:
            self.sequences[producer[0]] = sequence + len(records)

    def write(self, seed: int) -> None:
        """What the seed says, the same on both sides: plain, idempotent and transactional batches of all codecs."""
        random = Random(seed)
        timestamp_ms = NOW_MS - 100 * HOUR_MS
        is_open = [False, False]
        for _ in range(EVENTS):
            timestamp_ms += random.randrange(HOUR_MS // 4)
            kind, count, codec = random.randrange(4), random.randrange(1, 8), Codec(random.randrange(5))
            records = [
                Record(
                    b"key-%d" % random.randrange(25),
                    random.choice([None, random.randbytes(random.randrange(200))]),
                    (("header", b"%d" % number),) if number % 3 else (),
                    timestamp_ms + random.randrange(1000),
                )
                for number in range(count)
            ]
            which = random.randrange(2)
            if kind == 0:
                self.produce(records, codec, (-1, -1), None)
            elif kind == 1:
                self.produce(records, codec, self.idempotent, None)
            elif kind == 2 or not is_open[which]:
                driver = self.drivers[which]
                if not is_open[which]:
                    driver.add(TOPIC, [0])
                is_open[which] = True
                self.produce(records, codec, (driver.pid, driver.epoch), driver)
            else:
                self.drivers[which].complete(commit=bool(random.randrange(3)))
                is_open[which] = False
        for driver, has_open in zip(self.drivers, is_open, strict=True):
            if has_open:
                driver.complete(commit=True)

    def compact(self) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            TOPIC,
            incremental_configs=[ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)],
        )
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def roll(self, number: int) -> None:
        """One record that is so much later that it begins another segment; wait until all before it is cleaned."""
        later = Record(b"later", b"%d" % number, timestamp_ms=NOW_MS + 3 * number * HOUR_MS)
        self.produce([later], Codec.NONE, (-1, -1), None)
        if number > 1:
            self.wait_for_the_cleaner()

    def wait_for_the_cleaner(self) -> None:
        checkpoint = self.node.data_directory / "cleaner-offset-checkpoint"  # type: ignore[attr-defined]

        def done() -> bool:
            line = f"{TOPIC} 0 {self.end - 1}"
            return checkpoint.exists() and line in checkpoint.read_text().splitlines()

        until(done, pause_seconds=0.05)

    def files(self, suffix: str = ".log") -> list[Path]:
        return sorted((self.node.data_directory / f"{TOPIC}-0").glob(f"*{suffix}"))  # type: ignore[attr-defined]

    def seen(self) -> list[Seen]:
        numbers = {-1: -1}
        found: list[Seen] = []
        for file in self.files():
            data = file.read_bytes()
            for position, header in batches(data):
                producer = numbers.setdefault(header.producer_id, len(numbers))
                found.append(_seen(data, position, header, producer))
        return found


def _seen(data: bytes, position: int, header: BatchHeader, producer: int) -> Seen:
    # The time at which a marker was written, and the coordinator's epoch, are each broker's own.
    records = () if header.is_control else tuple(decode_batch(data, position))
    return Seen(
        header.base_offset,
        header.last_offset,
        header.attributes,
        producer,
        header.producer_epoch,
        header.base_sequence,
        0 if header.is_control else header.max_timestamp_ms,
        records,
    )


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    kafka = {name.replace("_", "."): value for name, value in SETTINGS.items()}
    nodes = [
        KafkaNode(tmp_path_factory.mktemp("kafka"), **kafka),
        OncelogNode(tmp_path_factory.mktemp("oncelog"), **SETTINGS),
    ]
    for node in nodes:
        node.start()
    yield nodes
    for node in nodes:
        node.stop()


def test_both_leave_the_same_records(nodes: list[BrokerProcess]) -> None:
    kafka, ours = sides = [Side(node) for node in nodes]
    for side in sides:
        side.write(seed=1)
        side.roll(1)
    written = kafka.seen()
    assert ours.seen() == written
    for side in sides:
        side.compact()
        side.wait_for_the_cleaner()
    for number in range(2, 8):
        expected, found = kafka.seen(), ours.seen()
        # Here the last batch of each segment stays, if need be empty, so that no segment ends before the next begins.
        assert [batch for batch in found if batch in expected or batch.records] == expected, number
        assert all(not batch.records for batch in found if batch not in expected)
        assert sum(len(batch.records) for batch in found) < sum(len(batch.records) for batch in written) / 2
        for side in sides:
            side.roll(number)
    shown = dump(ours.files(), "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in shown
    assert "Found" not in shown, "the tool finds fault with the file"
    for suffix in (".index", ".timeindex"):
        assert "ismatch" not in dump(ours.files(suffix)), "the tool finds fault with an index"

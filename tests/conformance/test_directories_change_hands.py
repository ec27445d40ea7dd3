"""A data directory that Apache Kafka wrote is read by oncelog, and a partition's directory that oncelog wrote by Apache Kafka.

In both there are transactions of both ends, every codec, and a compacted log.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.kafka import KafkaNode
from harness.oncelog_process import OncelogNode
from harness.processes import BrokerProcess
from harness.shared_producer import until
from oncelog.client import (
    Client,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]

ORDERS, TABLE = TopicPartition("orders", 0), TopicPartition("table", 0)
GROUP = "readers"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
IDS = ("tx-0", "tx-1", "tx-2")
SEGMENT = {"segment.bytes": str(2**20)}
COMPACTED = SEGMENT | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "100",
}


@dataclass(frozen=True)
class Seen:
    """What readers of committed records get: beginning, end, and offset, key, value, headers and time of every record."""

    beginning: int
    end: int
    records: list[tuple[Any, ...]]
    first_at_last_time: int


@dataclass(frozen=True)
class Stopped:
    node: KafkaNode
    seen: dict[TopicPartition, Seen]
    copy: Path


def use(node: BrokerProcess) -> int:
    """Return how many records of the table were committed."""
    count = 0
    servers, random = node.bootstrap_servers, Random(1)
    # Kafka finds markers by their times, too: the last records are later than any marker.
    later_ms = int(time.time() * 1000) + 60_000
    with Client(servers) as client:
        client.create_topics([NewTopic("orders", 1, 1, SEGMENT), NewTopic("table", 1, 1, COMPACTED)])
    for number, codec in enumerate(CODECS * 2):
        with Producer(servers, transactional_id=IDS[number % 3], compression=codec) as producer:
            producer.init_transactions()
            for is_committed in (number % 3 != 1, True):
                producer.begin_transaction()
                for line in range(60):
                    value = f"{codec} {number} {line} {is_committed} ".encode() * 60
                    producer.send("orders", value, key=b"k%d" % line, partition=0, headers=[("n", b"%d" % number)])
                    producer.send("table", random.randbytes(4000), key=b"k%d" % (line % 20), partition=0)
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(number, "in it")}, GROUP)
                producer.flush()
                if is_committed:
                    count += 60
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        with Producer(servers, compression=codec) as producer:
            for _ in range(20):
                producer.send("orders", None, key=b"plain", partition=0, timestamp_ms=later_ms + number)
    checkpoint = node.data_directory / "cleaner-offset-checkpoint"
    until(lambda: "table 0 " in (checkpoint.read_text() if checkpoint.exists() else ""), 60)
    return count


def seen(node: BrokerProcess, place: TopicPartition) -> Seen:
    records: list[tuple[Any, ...]] = []
    with Client(node.bootstrap_servers) as client:
        beginning, end = client.beginning_offsets([place])[place], client.end_offsets([place])[place]
        with Consumer(node.bootstrap_servers, isolation_level=IsolationLevel.READ_COMMITTED) as consumer:
            consumer.assign({place: beginning})
            while consumer.position(place) < end:
                records += [
                    (one.offset, one.key, one.value, tuple(one.headers), one.timestamp_ms) for one in consumer.poll(500)
                ]
        time_ms = max(record[-1] for record in records)
        found = client.list_offsets({place: time_ms})[place]
    return Seen(beginning, end, records, found.offset)


def check_same(node: BrokerProcess, expected: dict[TopicPartition, Seen]) -> None:
    assert seen(node, ORDERS) == expected[ORDERS]
    found, before = seen(node, TABLE), expected[TABLE]
    assert (found.beginning, found.end) == (before.beginning, before.end)
    # A cleaner may have gone on meanwhile.
    assert set(found.records) <= set(before.records)
    assert {one[1]: one for one in found.records} == {one[1]: one for one in before.records}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A node that has stopped, what was read from it, and a copy of its directory."""
    directory = tmp_path_factory.mktemp("kafka")
    node = KafkaNode(directory, **SETTINGS)
    node.start()
    written = use(node)
    found = {place: seen(node, place) for place in (ORDERS, TABLE)}
    node.stop()
    assert len(found[TABLE].records) < written, "the table was cleaned"
    # The metadata of its controller is no topic.
    shutil.copytree(node.data_directory, directory / "copy", ignore=shutil.ignore_patterns("__cluster_metadata-*"))
    yield Stopped(node, found, directory / "copy")
    node.kill()


def new_oncelog(directory: Path) -> OncelogNode:
    return OncelogNode(directory, **{name.replace(".", "_"): value for name, value in SETTINGS.items()})


def test_directory_of_kafka_is_taken_over(kafka: Stopped, tmp_path: Path) -> None:
    expected, node = kafka.seen, new_oncelog(tmp_path)
    shutil.copytree(kafka.copy, node.data_directory, dirs_exist_ok=True)
    command = [OncelogNode.program(), "log", "repair", str(node.data_directory), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lost = [line for line in done.stdout.splitlines() if line.startswith("LOST")]
    assert all("the settings of topic" in line for line in lost), lost
    node.start()
    try:
        check_same(node, expected)
        with Client(node.bootstrap_servers) as client:
            (committed,) = client.committed_offsets(GROUP).values()
            assert (committed.offset, committed.metadata) == (9, "in it")
            before = client.describe_transactions(IDS)
        for name in IDS:
            with Producer(node.bootstrap_servers, transactional_id=name) as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send("orders", name.encode(), partition=0)
                producer.commit_transaction()
        after = seen(node, ORDERS).records
        assert after[: len(expected[ORDERS].records)] == expected[ORDERS].records
        assert [record[2] for record in after[len(expected[ORDERS].records) :]] == [name.encode() for name in IDS]
        with Client(node.bootstrap_servers) as client:
            for name, found in client.describe_transactions(IDS).items():
                assert (found.producer_id, found.producer_epoch) > (
                    before[name].producer_id,
                    before[name].producer_epoch,
                )
    finally:
        node.kill()


def test_kafka_reads_partitions_of_oncelog(kafka: Stopped, tmp_path: Path) -> None:
    theirs = kafka.node
    node = new_oncelog(tmp_path)
    node.start()
    try:
        use(node)
        expected = {place: seen(node, place) for place in (ORDERS, TABLE)}
    finally:
        node.stop()
    for place in expected:
        name = f"{place.topic}-{place.partition}"
        source, target = node.data_directory / name, theirs.data_directory / name
        metadata = (target / "partition.metadata").read_bytes()
        shutil.rmtree(target)
        shutil.copytree(source, target)
        (target / "partition.metadata").write_bytes(metadata)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (theirs.data_directory / name).unlink()
    theirs.start()
    check_same(theirs, expected)

"""The data directory of a real broker that was used for all that leaves its own kind of bytes: segments, codecs, transactions
that were committed and aborted, groups of both protocols.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from harness.oncelog_process import OncelogNode
from oncelog.client import Client, Consumer, IsolationLevel, NewTopic, OffsetAndMetadata, Producer, TopicPartition

TOPIC = "orders"
PARTITIONS = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_MS = 250_000
STEP_MS = 100_000
"""So much later in the day each step writes, that segments are rolled."""
SETTINGS = {"offsets_topic_num_partitions": "2", "transaction_state_log_num_partitions": "2"}

Content = dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None]]]
"""By topic and partition: offset, key and value of every record that a reader of committed ones gets."""


class UsedDirectory:
    """Starts a broker on `directory`, uses it, and stops it."""

    def __init__(self, directory: Path) -> None:
        self.node = OncelogNode(directory, **SETTINGS)
        self.node.start()
        try:
            self._use()
            self.content = content(self.node)
        finally:
            self.node.stop()
        self.path = self.node.data_directory

    def copy(self, directory: Path) -> OncelogNode:
        """A broker that is not started yet, on a copy of the directory."""
        node = OncelogNode(directory, **SETTINGS)
        shutil.copytree(self.path, node.data_directory)
        return node

    def _use(self) -> None:
        servers = self.node.bootstrap_servers
        with Client(servers) as client:
            client.create_topics(
                [NewTopic(TOPIC, PARTITIONS, 1, {"segment.ms": str(SEGMENT_MS), "index.interval.bytes": "4096"})]
            )
        start_ms = int(time.time() * 1000)
        for slot in range(12):
            if slot == 6:
                self.node.kill()
                self.node.start()
            self._plain(servers, slot, start_ms + slot * STEP_MS)
            self.transaction(servers, slot, start_ms + slot * STEP_MS + 10)
        with Client(servers) as client:
            client.commit_offsets("plain", {TopicPartition(TOPIC, 1): OffsetAndMetadata(5, "by hand")})
        for protocol in ("classic", "consumer"):
            self._group(servers, protocol)

    def _plain(self, servers: str, slot: int, now_ms: int) -> None:
        with Producer(servers, compression=CODECS[slot % len(CODECS)], batch_bytes=4000) as producer:
            for partition in range(PARTITIONS):
                for number in range(20):
                    value = f"plain {slot} {number} ".encode() * 40
                    producer.send(TOPIC, value, key=b"k%d" % number, partition=partition, timestamp_ms=now_ms)

    def transaction(self, servers: str, slot: int, now_ms: int | None = None) -> None:
        with Producer(servers, transactional_id=f"tx-{slot % 2}", compression=CODECS[slot % len(CODECS)]) as producer:
            producer.init_transactions()
            for number in range(2):
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    value = f"in transaction {slot} {number}".encode()
                    producer.send(TOPIC, value, key=b"t", partition=partition, timestamp_ms=now_ms)
                producer.send_offsets_to_transaction(
                    {TopicPartition(TOPIC, 0): OffsetAndMetadata(slot)}, "in-transaction"
                )
                if (slot + number) % 3:
                    producer.commit_transaction()
                else:
                    producer.flush()
                    producer.abort_transaction()

    def _group(self, servers: str, protocol: str) -> None:
        with Consumer(servers, group_id=f"{protocol}-group", group_protocol=protocol) as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.poll(500):
                pass
            consumer.commit()


def content(node: OncelogNode) -> Content:
    """What a reader of committed records gets from every partition of the topic."""
    found: Content = {}
    with Client(node.bootstrap_servers) as client:
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        beginnings, ends = client.beginning_offsets(places), client.end_offsets(places)
    with Consumer(node.bootstrap_servers, isolation_level=IsolationLevel.READ_COMMITTED) as consumer:
        for place in places:
            records: list[tuple[int, bytes | None, bytes | None]] = []
            consumer.assign({place: beginnings[place]})
            while consumer.position(place) < ends[place]:
                records += [(one.offset, one.key, one.value) for one in consumer.poll(500)]
            found[place.topic, place.partition] = records
    return found

"""Batches that are small when they are sent and much when they are read: they keep nobody waiting and take little memory."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kio.schema.errors import ErrorCode

from harness.watched_node import WatchedNode
from harness.wire import Connection
from oncelog.records import Codec, Record, build_batch
from oncelog.records.batch import read_header, seal
from oncelog.records.record import varint
from tests.broker.test_event_loop import create, nobody_is_blocked

MIB = 1024 * 1024
RECORDS = 900_000
"""Whose lengths differ: nothing tells where one begins but the one before it."""
SENT_BYTES_MAX = 1_000_000
RESIDENT_BYTES_MAX = 600 * MIB
"""A batch may decompress to 128 MiB; one of that size is worked on at a time, and its codec and its check each have a copy."""
GREEDY = 4


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    node = WatchedNode(tmp_path_factory.mktemp("watched"))
    node.start()
    create(node, NewTopic("plain", 4, 1), NewTopic("unpacked", 1, 1, config={"compression.type": "uncompressed"}))
    create(node, NewTopic("packed", 1, 1, config={"compression.type": "zstd", "compression.zstd.level": "22"}))
    create(node, NewTopic("keyed", 1, 1, config={"cleanup.policy": "compact"}))
    yield node
    # A clean stop would make a thousand partitions durable, one after the other.
    node.kill()
    assert "Traceback" not in node.tail()


def small_record(number: int) -> bytes:
    delta = varint(number)
    value = bytes(number % 2)
    return bytes((2 * (5 + len(delta) + len(value)), 0, 0)) + delta + bytes((1, 2 * len(value))) + value + b"\0"


def many_records(codec: Codec, count: int = RECORDS) -> bytes:
    body = b"".join(map(small_record, range(count)))
    header = read_header(build_batch([Record(None, None)]))
    header = header._replace(record_count=count, last_offset_delta=count - 1, attributes=int(codec))
    header = header._replace(base_timestamp_ms=NOW_MS, max_timestamp_ms=NOW_MS)
    return seal(header, body)


NOW_MS = int(time.time() * 1000)
BOMB = build_batch([Record(b"k", bytes(120 * MIB), timestamp_ms=NOW_MS)], codec=Codec.ZSTD)


def produce(connection: Connection, topic: str, *batches: bytes) -> list[ErrorCode]:
    answer = connection.ask(
        "produce",
        11,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=5),
        topic_data=[
            {
                "name": topic,
                "partition_data": [{"index": index, "records": batch} for index, batch in enumerate(batches)],
            }
        ],
    )
    return [one.error_code for one in answer.responses[0].partition_responses]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("topic", ["plain", "unpacked", "keyed"])
def test_batch_of_very_many_records_blocks_nobody(node, topic):
    batch = many_records(Codec.ZSTD)
    assert len(batch) < SENT_BYTES_MAX

    def send(_: int) -> None:
        heavy, light = Connection(node.bootstrap_servers), Connection(node.bootstrap_servers)
        thread = threading.Thread(target=produce, args=(heavy, topic, batch))
        thread.start()
        while thread.is_alive():
            began = time.monotonic()
            assert produce(light, "plain", build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)])) == [ErrorCode.none]
            time.sleep(max(0, 0.02 - (time.monotonic() - began)))
        thread.join()
        heavy.close()
        light.close()

    nobody_is_blocked(node, send)


@pytest.mark.drawn(6)
def test_batches_of_many_small_records_block_nobody(node):
    """As many as fit into a batch, without a codec; and a topic whose codec is slow."""
    largest = many_records(Codec.NONE, 100_000)

    def send(_: int) -> None:
        connection = Connection(node.bootstrap_servers)
        assert set(produce(connection, "plain", *[largest] * 4)) == {ErrorCode.none}
        assert produce(connection, "packed", largest) == [ErrorCode.none]
        connection.close()

    nobody_is_blocked(node, send)


def test_many_batches_in_one_request_block_nobody(node):
    create(node, NewTopic("wide", 1000, 1))
    batch = many_records(Codec.NONE, 100)

    def send(_: int) -> None:
        connection = Connection(node.bootstrap_servers)
        assert set(produce(connection, "wide", *[batch] * 1000)) == {ErrorCode.none}
        connection.close()

    nobody_is_blocked(node, send)


@pytest.mark.parametrize("topic", ["plain", "unpacked"])
def test_batches_that_decompress_to_much_are_worked_on_one_at_a_time(node, topic):
    most = MostMemory(node)
    connections = [Connection(node.bootstrap_servers) for _ in range(GREEDY)]
    threads = [threading.Thread(target=produce, args=(one, topic, BOMB)) for one in connections]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most.look()
        time.sleep(0.005)
    assert most.size_bytes < RESIDENT_BYTES_MAX
    for one in connections:
        one.close()


@pytest.mark.drawn(6)
def test_work_for_a_client_that_has_left_is_not_begun(node):
    """A client may come again and again, and leave before the work for it is done."""
    batch = many_records(Codec.ZSTD)
    for _ in range(20):
        gone = Connection(node.bootstrap_servers)
        gone.socket.settimeout(0.05)
        with suppress(TimeoutError):
            produce(gone, "plain", batch)
        gone.close()
    connection = Connection(node.bootstrap_servers, timeout_seconds=20)
    assert produce(connection, "plain", batch) == [ErrorCode.none]
    connection.close()


class MostMemory:
    def __init__(self, node: WatchedNode) -> None:
        self._node = node
        self.size_bytes = 0

    def look(self) -> None:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self._node.pid}/status").read_text())
        assert found is not None
        self.size_bytes = max(self.size_bytes, int(found[1]) * 1024)

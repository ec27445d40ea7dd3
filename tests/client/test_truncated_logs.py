"""A log that was cut back below what was read of it, and has grown again: nothing that came in its place is passed over."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.oncelog_process import OncelogNode
from oncelog.client import Client, LogTruncated, NewTopic, Producer, TopicPartition
from oncelog.log.names import offset_name
from oncelog.records import batches

ORDERS = TopicPartition("orders", 0)
DEADLINE_SECONDS = 30


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OncelogNode]:
    made = OncelogNode(tmp_path)
    made.start()
    with Client(made.bootstrap_servers) as client:
        client.create_topics([NewTopic(ORDERS.topic, 1, 1)])
    yield made
    if made.is_running:
        made.stop()


def write(node: OncelogNode, *values: str) -> None:
    """Each in a batch of its own."""
    with Producer(node.bootstrap_servers) as producer:
        for value in values:
            producer.send(ORDERS.topic, value=value.encode(), partition=0).result()


def cut_back(node: OncelogNode, offset: int) -> None:
    """The node goes, with what a power cut takes that came after the offset, and comes again."""
    node.kill()
    path = node.data_directory / str(ORDERS) / offset_name(0, ".log")
    data = path.read_bytes()
    os.truncate(path, next(position for position, header in batches(data) if header.base_offset == offset))
    node.start()


def poll(consumer, until: int) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < until:
        assert time.monotonic() < deadline, found
        found += [record.value.decode() for record in consumer.poll(100)]
    return found


def test_reader_goes_back_to_where_the_log_was_cut(node, face):
    write(node, "one", "two", "three", "four")
    with face.consumer(node.bootstrap_servers, auto_offset_reset="latest") as consumer:
        consumer.assign({ORDERS: 0})
        assert poll(consumer, 4) == ["one", "two", "three", "four"]
        cut_back(node, 1)
        write(node, "five", "six", "seven", "eight")
        assert poll(consumer, 4) == ["five", "six", "seven", "eight"]
        assert consumer.position(ORDERS) == 5


def test_reader_that_resets_nothing_is_told_each_time(node, face):
    write(node, "one", "two", "three", "four")
    with face.consumer(node.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign({ORDERS: 0})
        poll(consumer, 4)
        cut_back(node, 1)
        write(node, "five", "six", "seven", "eight")
        for _ in range(2):
            with pytest.raises(LogTruncated, match="orders-0 was read up to offset 4, and then cut back to 1") as told:
                poll(consumer, 1)
            assert (told.value.partition, told.value.position, told.value.offset) == (ORDERS, 4, 1)
        consumer.seek(ORDERS, told.value.offset)
        assert poll(consumer, 4) == ["five", "six", "seven", "eight"]

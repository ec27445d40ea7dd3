"""Requests that few clients send: both brokers answer them alike."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise

import pytest
from kio.schema.errors import ErrorCode

from harness.processes import BrokerProcess
from harness.waiting import until
from harness.wire import Connection
from oncelog.records import HEADER_BYTES, Record, build_batch, crc32c

pytestmark = pytest.mark.one_broker

NONE, INVALID = ErrorCode.none, ErrorCode.invalid_request
LATEST, EARLIEST, NEVER = -1, -2, -99
GZIP = 1
LENGTH_AT, CRC_AT, ATTRIBUTES_AT = 8, 17, 21


@pytest.fixture
def connection(log: BrokerProcess) -> Iterator[Connection]:
    connection = Connection(log.bootstrap_servers)
    yield connection
    connection.close()


def listed(connection: Connection, *topics: tuple[str, list[tuple[int, int]]]) -> list[tuple[str, int, ErrorCode, int]]:
    """What each partition that a ListOffsets names is answered, in the order of the answer."""
    asked = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
                for index, timestamp in partitions
            ],
        }
        for name, partitions in topics
    ]
    answer = connection.ask("list_offsets", 8, replica_id=-1, isolation_level=0, topics=asked)
    return sorted(
        (topic.name, one.partition_index, one.error_code, one.offset)
        for topic in answer.topics
        for one in topic.partitions
    )


def test_partition_that_is_named_twice_is_refused_once_and_the_others_are_told(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    refused = (topic, 0, INVALID, -1)
    until(lambda: listed(connection, (topic, [(1, LATEST)])) == [(topic, 1, NONE, 0)])
    found = listed(connection, (topic, [(0, LATEST), (1, LATEST), (0, EARLIEST)]))
    assert found == [refused, (topic, 1, NONE, 0)]
    found = listed(connection, (topic, [(0, LATEST)]), (topic, [(0, LATEST), (1, EARLIEST)]))
    assert found == [refused, (topic, 1, NONE, 0)]
    found = listed(connection, (topic, [(0, NEVER), (0, LATEST), (7, LATEST), (7, LATEST)]))
    assert found == [refused, (topic, 7, INVALID, -1)]
    assert listed(connection, (topic, [])) == []


@pytest.mark.parametrize("count", [2, 500])
def test_gzip_batch_of_many_members_is_taken_and_read_by_who_reads_all_of_them(
    connection: Connection, log: BrokerProcess, new_topic: Callable[..., str], count: int
) -> None:
    """RFC 1952: "a gzip file consists of a series of members". librdkafka reads the first alone."""
    topic = new_topic()
    assert produced(connection, topic, gzip_batch([b"%04d" % number * 8 for number in range(100)], count)) is NONE
    assert produced(connection, topic, gzip_batch([b"after"], 1)) is NONE
    assert listed(connection, (topic, [(0, LATEST)])) == [(topic, 0, NONE, 101)]
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}
    answer = connection.ask(
        "fetch",
        11,
        max_wait=timedelta(seconds=10),
        min_bytes=1,
        isolation_level=0,
        topics=[{"topic": topic, "partitions": [asked]}],
        forgotten_topics_data=[],
    )
    records = bytes(answer.responses[0].partitions[0].records)
    (length,) = struct.unpack_from(">i", records, LENGTH_AT)
    payload = records[HEADER_BYTES : LENGTH_AT + 4 + length]
    assert gzip.decompress(payload).count(b"0042") == 8
    assert payload.count(gzip.compress(b"")[:3]) >= count


def produced(connection: Connection, topic: str, batch: bytes) -> ErrorCode:
    answer = connection.ask(
        "produce",
        9,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=10),
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
    )
    error: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return error


def gzip_batch(values: list[bytes], count: int) -> bytes:
    """A batch whose records are in `count` members of a gzip stream, which end anywhere."""
    plain = build_batch([Record(None, value) for value in values])
    records = plain[HEADER_BYTES:]
    ends = [len(records) * number // count for number in range(count + 1)]
    members = (gzip.compress(records[begin:end]) for begin, end in pairwise(ends))
    batch = bytearray(plain[:HEADER_BYTES] + b"".join(members))
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - LENGTH_AT - 4)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, GZIP)
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)

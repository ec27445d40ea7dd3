"""Bytes in, answers out: however they are cut, in the order of the requests, and no connection harms another."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.wire import Connection, batch, frame, parse, request_payload
from oncelog.coordination import Promise
from oncelog.server.connection import LENGTH_BYTES
from oncelog.server.connection import Connection as ConnectionOfBroker
from oncelog.server.memory import MemoryBudget
from oncelog.server.receive_buffer import RECEIVE_BYTES, ReceiveBuffer
from oncelog.testing import broker

REQUEST_BYTES_MAX = 200_000
MANY = 300


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with broker(socket_request_max_bytes=REQUEST_BYTES_MAX) as running:
        yield running.bootstrap_servers


@pytest.fixture
def connection(node) -> Iterator[Connection]:
    made = Connection(node, timeout_seconds=10)
    yield made
    made.close()


def versions_frame(correlation_id: int = 0) -> bytes:
    payload = request_payload("api_versions", 0, {}, "tests", correlation_id)
    return struct.pack(">i", len(payload)) + payload


def correlation_id(answer: bytes) -> int:
    return int(struct.unpack_from(">i", answer)[0])


def produce_frame(topic: str, value_bytes: int, correlation_id: int = 0, acks: int = -1) -> bytes:
    partition = {"index": 0, "records": batch(-1, -1, -1, ["x" * value_bytes], attributes=0)}
    fields = {
        "transactional_id": None,
        "acks": acks,
        "timeout": timedelta(seconds=5),
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    payload = request_payload("produce", 9, fields, "tests", correlation_id)
    return struct.pack(">i", len(payload)) + payload


def fetch_frame(topic: str, wait_ms: int) -> bytes:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    fields = {
        "replica_id": -1,
        "max_wait": timedelta(milliseconds=wait_ms),
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return frame("fetch", 11, fields)


def is_closed(connection: Connection) -> bool:
    try:
        return connection.socket.recv(1) == b""
    except ConnectionResetError:
        return True


def make_topic(node: str, name: str) -> None:
    with suppress(ConnectionError):
        Connection(node).ask("metadata", 9, **metadata_fields(name))


def metadata_fields(name: str) -> dict[str, object]:
    return {
        "topics": [{"name": name}],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_frame_in_pieces_is_a_frame(connection, size):
    whole = versions_frame(5)
    for start in range(0, len(whole), size):
        connection.socket.sendall(whole[start : start + size])
    assert correlation_id(connection.receive_frame()) == 5


def test_frames_in_one_piece_are_answered_one_by_one_in_order(connection):
    connection.socket.sendall(b"".join(map(versions_frame, range(100))))
    assert [correlation_id(connection.receive_frame()) for _ in range(100)] == list(range(100))


def test_thousands_of_frames_in_one_piece_are_answered_in_order_also_behind_one_that_waits(node, connection):
    make_topic(node, "many")
    sender = threading.Thread(
        target=lambda: [
            connection.socket.sendall(
                b"".join(versions_frame(number) for number in range(10_000 * part, 10_000 * part + 10_000))
                + fetch_frame("many", wait_ms=20)
                + produce_frame("many", 100_000, correlation_id=part)
            )
            for part in range(3)
        ]
    )
    sender.start()
    for part in range(3):
        expected = list(range(10_000 * part, 10_000 * part + 10_000))
        assert [correlation_id(connection.receive_frame()) for _ in range(10_000)] == expected
        connection.receive_frame()
        assert correlation_id(connection.receive_frame()) == part
    sender.join()


def test_broken_length_behind_hundreds_of_frames_closes_the_connection_when_they_are_answered(connection):
    connection.socket.sendall(b"".join(map(versions_frame, range(1000))) + struct.pack(">i", -1))
    assert [correlation_id(connection.receive_frame()) for _ in range(1000)] == list(range(1000))
    assert is_closed(connection)


def test_piece_that_ends_inside_the_next_frame_loses_nothing(connection):
    stream = b"".join(map(versions_frame, range(50)))
    for start in range(0, len(stream), 61):
        connection.socket.sendall(stream[start : start + 61])
    assert [correlation_id(connection.receive_frame()) for _ in range(50)] == list(range(50))


@pytest.mark.parametrize("value_bytes", [65_000, 65_400, 65_536, 66_000, 190_000])
def test_frame_around_and_above_the_receive_buffer_is_read_whole(node, connection, value_bytes):
    make_topic(node, "large")
    stream = versions_frame(1) + produce_frame("large", value_bytes, 2) + versions_frame(3)
    connection.socket.sendall(stream[:70_000])
    connection.socket.sendall(stream[70_000:])
    answers = [connection.receive_frame() for _ in range(3)]
    assert list(map(correlation_id, answers)) == [1, 2, 3]
    assert parse("produce", 9, answers[1]).responses[0].partition_responses[0].error_code is ErrorCode.none


def test_large_and_small_frames_in_one_piece_are_answered_in_order(node, connection):
    make_topic(node, "mixed")
    sizes = [10, 70_000, 10, 150_000, 65_000, 10, 66_000, 190_000]
    connection.socket.sendall(
        b"".join(
            versions_frame(2 * at) + produce_frame("mixed", size, correlation_id=2 * at + 1)
            for at, size in enumerate(sizes)
        )
    )
    assert [correlation_id(connection.receive_frame()) for _ in range(2 * len(sizes))] == list(range(2 * len(sizes)))


def test_memory_of_large_frames_that_came_in_one_piece_is_given_back():
    with broker(queued_max_request_bytes=300_000) as running:
        make_topic(running.bootstrap_servers, "t")
        first, second = (Connection(running.bootstrap_servers, timeout_seconds=10) for _ in range(2))
        for at in range(20):
            # Together they are more than there may be at a time.
            for each in (first, second):
                each.socket.sendall(b"".join(produce_frame("t", 100_000, correlation_id=at) for _ in range(2)))
            for each in (first, second):
                assert [correlation_id(each.receive_frame()) for _ in range(2)] == [at, at]


@pytest.mark.parametrize("size_bytes", range(RECEIVE_BYTES - LENGTH_BYTES - 1, RECEIVE_BYTES + 2))
@pytest.mark.parametrize("pieces", [1, 2])
def test_frames_at_the_limit_leave_the_memory_to_others(size_bytes, pieces):
    with broker(queued_max_request_bytes=300_000) as running:
        make_topic(running.bootstrap_servers, "t")
        first, second = (Connection(running.bootstrap_servers, timeout_seconds=10) for _ in range(2))
        overhead = len(produce_frame("t", 60_000)) - LENGTH_BYTES - 60_000
        frames = produce_frame("t", size_bytes - overhead), produce_frame("t", 250_000)
        assert len(frames[0]) == LENGTH_BYTES + size_bytes
        for _ in range(10):
            in_pieces(first, frames[0], pieces)
        # If the first one had not given back what it had, it would be closed for the second.
        in_pieces(second, frames[1], 5)
        in_pieces(first, frames[0], pieces)


def in_pieces(connection: Connection, frame: bytes, count: int) -> None:
    size = -(-len(frame) // count)
    for start in range(0, len(frame), size):
        connection.socket.sendall(frame[start : start + size])
        time.sleep(0.002)
    assert correlation_id(connection.receive_frame()) == 0


def test_answers_are_sent_before_a_request_that_waits(node, connection):
    make_topic(node, "nothing-comes")
    connection.socket.sendall(versions_frame(1) + versions_frame(2) + fetch_frame("nothing-comes", wait_ms=600_000))
    assert [correlation_id(connection.receive_frame()) for _ in range(2)] == [1, 2]


def test_request_that_waits_holds_back_those_behind_it(node, connection):
    """Kafka serves one request of a connection at a time: an answer never overtakes another."""
    make_topic(node, "waiting")
    connection.socket.sendall(fetch_frame("waiting", wait_ms=300) + versions_frame(2))
    assert parse("fetch", 11, connection.receive_frame()).error_code is ErrorCode.none
    assert correlation_id(connection.receive_frame()) == 2


def test_request_without_an_answer_does_not_hold_back_the_next(node, connection):
    make_topic(node, "silent")
    connection.socket.sendall(produce_frame("silent", 10, 1, acks=0) + versions_frame(2))
    assert correlation_id(connection.receive_frame()) == 2


@pytest.mark.parametrize("size", [0, -1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1])
def test_length_that_no_request_has_closes_the_connection_and_no_other(node, connection, size):
    other = Connection(node)
    connection.socket.sendall(struct.pack(">i", size))
    assert is_closed(connection)
    other.socket.sendall(versions_frame(1))
    assert correlation_id(other.receive_frame()) == 1


@pytest.mark.parametrize("payload", [b"\0", b"\x7f\xff\0\0\0\0\0\1\xff\xff", b"\0\3\0\4\0\0\0\1\0\xff", bytes(20)])
def test_bytes_that_are_no_request_close_the_connection(connection, payload):
    connection.socket.sendall(struct.pack(">i", len(payload)) + payload)
    assert is_closed(connection)


def test_answers_before_a_broken_request_are_sent(connection):
    connection.socket.sendall(versions_frame(1) + versions_frame(2) + struct.pack(">i", -5))
    assert [correlation_id(connection.receive_frame()) for _ in range(2)] == [1, 2]
    assert is_closed(connection)


def test_many_connections_are_served_side_by_side(node):
    made = [Connection(node) for _ in range(MANY)]
    for number, one in enumerate(made):
        one.socket.sendall(versions_frame(number))
    assert [correlation_id(one.receive_frame()) for one in made] == list(range(MANY))
    for one in made:
        one.close()


def test_client_that_leaves_while_its_request_waits_leaves_nothing_behind(node):
    """The transaction that its request waited for ends; nobody is there to be answered, and everybody else is."""
    make_topic(node, "left")
    other = Connection(node)
    for _ in range(20):
        gone = Connection(node)
        gone.socket.sendall(produce_frame("left", 100, 1)[:-1])
        gone.close()
        reset = Connection(node)
        reset.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.socket.sendall(produce_frame("left", 100, 1) * 3)
        reset.close()
    other.socket.sendall(produce_frame("left", 100, 9))
    answer = other.receive_frame()
    assert correlation_id(answer) == 9
    assert parse("produce", 9, answer).responses[0].partition_responses[0].error_code is ErrorCode.none


def test_client_that_reads_no_answers_is_not_read_from(node):
    """What it sends stays in its own sockets' buffers; the others go on."""
    make_topic(node, "deaf")
    deaf, other = Connection(node), Connection(node)
    other.socket.sendall(produce_frame("deaf", 190_000))
    other.receive_frame()
    deaf.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        say_for_ever(deaf, fetch_frame("deaf", wait_ms=0))
    other.socket.sendall(versions_frame(1))
    assert correlation_id(other.receive_frame()) == 1
    deaf.close()


def say_for_ever(connection: Connection, request: bytes) -> None:
    while True:
        connection.socket.sendall(request * 100)


class ClosedTransport:
    """Of a client that has gone while its connection has not been told yet: uvloop raises for whatever is asked of it."""

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def refuse(self, *_: object) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")

    write = writelines = close = is_reading = pause_reading = resume_reading = refuse


def test_answer_to_a_client_that_has_just_gone_is_dropped():
    async def test() -> None:
        loop = asyncio.get_running_loop()
        later: Promise[list[bytes] | None] = Promise()
        bugs: list[BaseException] = []
        memory = MemoryBudget(loop, lambda callback: callback(), 2**28)
        made = ConnectionOfBroker(
            1, "L", lambda *_: later, 2**20, ReceiveBuffer(), memory, lambda _: None, lambda _: None, bugs.append
        )
        made.connection_made(ClosedTransport())  # type: ignore[arg-type]
        made.get_buffer(-1)[:5] = struct.pack(">ib", 1, 0)
        made.buffer_updated(5)
        assert made.reserve(10_000_000, 0).is_resolved
        later.resolve([bytes(10_000_000)])
        made.room_made()
        made.abort()
        made.connection_lost(None)
        assert bugs == []
        assert memory.size_bytes == 0

    asyncio.run(test())


def test_stop_does_not_wait_for_a_client_that_does_not_take_its_answers():
    """What it was answered may never be sent, and nobody closes a connection before."""
    with broker() as running:
        connection = Connection(running.bootstrap_servers, timeout_seconds=10)
        make_topic(running.bootstrap_servers, "large")
        connection.socket.sendall(produce_frame("large", 900_000))
        connection.receive_frame()
        connection.socket.sendall(fetch_frame("large", wait_ms=0) * 20)
        connection.socket.recv(1)
    received = 0
    while data := connection.socket.recv(1_000_000):
        received += len(data)
    assert received < 20 * 900_000, "what it does not take is not sent"
    connection.close()

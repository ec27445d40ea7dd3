"""Memory and threads that the operating system does not give: the request that needs them is refused, and the broker goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import pytest
from kio.schema.errors import ErrorCode

from harness import fetching_clients
from harness.batches import resealed
from harness.oncelog_process import OncelogNode
from harness.wire import Connection, frame, parse
from harness.wire import batch as new_batch
from oncelog.environment import RefusedError
from oncelog.records import HEADER_BYTES, Codec
from oncelog.records.compression import compress
from oncelog.server.workers import WorkerThreads
from tests.server.test_sync_threads import RefusedThread

MIB = 1024 * 1024
WARM_UP_S = 1.5
"""A second after it began, a broker loads what its start left out."""
VALUE_BYTES = 90_000_000
"""More than an allocator keeps at hand: an arena that it has reserved is address space, too."""


class NodeWithLimit(OncelogNode):
    """`oncelog serve` with an address space that is not larger than this."""

    address_space_bytes: int | None = None

    def command(self) -> list[str]:
        if self.address_space_bytes is None:
            return super().command()
        limit = f'ulimit -v {self.address_space_bytes // 1024}; exec "$@"'
        return ["sh", "-c", limit, "sh", *super().command()]

    def start(self) -> None:
        super().start()
        time.sleep(WARM_UP_S)

    def address_space(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[0]) * fetching_clients.PAGE_BYTES


@pytest.fixture
def node(tmp_path) -> Iterator[Callable[[int], NodeWithLimit]]:
    made = NodeWithLimit(tmp_path, message_max_bytes="200000000")
    made.start()
    fetching_clients.fill(made.bootstrap_servers, 1)
    used_bytes = made.address_space()
    made.stop()

    def with_so_much_more(size_bytes: int) -> NodeWithLimit:
        made.address_space_bytes = used_bytes + size_bytes
        made.start()
        return made

    yield with_so_much_more
    made.kill()


def produce_frame(records: bytes) -> bytes:
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout": timedelta(seconds=5),
        "topic_data": [{"name": fetching_clients.TOPIC, "partition_data": [{"index": 0, "records": records}]}],
    }
    return frame("produce", 9, fields)


def produced(connection: Connection, records: bytes) -> ErrorCode:
    connection.socket.sendall(produce_frame(records))
    error: ErrorCode = parse("produce", 9, connection.receive_frame()).responses[0].partition_responses[0].error_code
    return error


def serves(node: NodeWithLimit) -> bool:
    """What it has, and what is new."""
    connection = Connection(node.bootstrap_servers)
    connection.socket.sendall(fetching_clients.fetch_frame(MIB))
    has_read = len(connection.receive_frame()) >= fetching_clients.BATCH_BYTES - 100
    is_written = produced(connection, new_batch(-1, -1, -1, ["x"], attributes=0)) is ErrorCode.none
    connection.close()
    return has_read and is_written


@pytest.mark.parametrize("size_bytes", [2 * MIB, 16 * MIB])
def test_request_that_there_is_no_memory_for_is_refused_and_the_broker_goes_on(node, size_bytes):
    limited = node(size_bytes)
    connection = Connection(limited.bootstrap_servers)
    with pytest.raises(ConnectionError):
        produced(connection, new_batch(-1, -1, -1, ["x" * VALUE_BYTES], attributes=0))
    assert serves(limited), limited.tail()
    limited.stop()
    assert limited.wait() == 0
    assert "Traceback" not in limited.tail(), limited.tail(6000)
    assert "ERROR" not in limited.tail()


def test_batch_that_there_is_no_memory_to_decompress_is_refused_and_not_called_invalid(node):
    """INVALID_RECORD would end its producer for good."""
    limited = node(8 * MIB)
    raw = new_batch(-1, -1, -1, ["x" * VALUE_BYTES], attributes=0)
    packed = compress(Codec.ZSTD, raw[HEADER_BYTES:])
    batch = resealed(raw[:HEADER_BYTES] + packed, batch_length=HEADER_BYTES + len(packed) - 12, attributes=Codec.ZSTD)
    connection = Connection(limited.bootstrap_servers)
    with pytest.raises(ConnectionError):
        produced(connection, batch)
    assert serves(limited), limited.tail()
    limited.stop()
    assert limited.wait() == 0
    assert "Traceback" not in limited.tail(), limited.tail(6000)


@pytest.mark.parametrize("is_long", [False, True])
def test_work_is_refused_while_there_is_no_thread_and_done_when_there_is(monkeypatch, is_long):
    bugs: list[BaseException] = []
    workers = WorkerThreads(lambda callback: callback(), bugs.append)
    done: SimpleQueue[int] = SimpleQueue()
    with monkeypatch.context() as refusing:
        refusing.setattr("oncelog.server.workers.threading.Thread", RefusedThread)
        with pytest.raises(RefusedError, match="no thread"):
            workers.run(lambda: 1, done.put, is_long=is_long)
    workers.run(lambda: 2, done.put, is_long=is_long)
    assert done.get(timeout=30) == 2
    workers.stop()
    assert done.empty()
    assert bugs == []

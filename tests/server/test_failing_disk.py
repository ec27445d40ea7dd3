"""A disk that refuses, or a bug: the broker says where, answers nothing any more, and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.shared_producer import Cluster
from harness.wire import Connection, batch
from oncelog.client import ClientError, Producer
from oncelog.environment import DiskError
from oncelog.server import disk as real_disk
from oncelog.server.main import EXIT_FAILED
from oncelog.testing import broker
from oncelog.transactions import TransactionCoordinator

VALUE_BYTES = 1000
FILE_BYTES_MAX = 64 * 1024


def refuse_append(monkeypatch: pytest.MonkeyPatch, name: str, nth: int) -> threading.Event:
    """Let the nth append to a log of topic `name`, from now on, meet a full disk; the event tells that it has."""
    seen = 0
    refused = threading.Event()
    append: Callable = real_disk.RealFile.append

    def refusing(file, chunks, *share):
        nonlocal seen
        if f"/{name}-" in file.path and file.path.endswith(".log"):
            seen += 1
            if seen >= nth:
                refused.set()
                raise DiskError(f"cannot append to {file.path}: No space left on device")
        return append(file, chunks, *share)

    monkeypatch.setattr(real_disk.RealFile, "append", refusing)
    return refused


@pytest.mark.parametrize("nth", [1, 2, 3, 4], ids=["init", "ongoing", "prepare", "complete"])
def test_transaction_log_that_cannot_be_written_stops_the_broker(monkeypatch, nth):
    """Prepare and Complete are written when a sync reports back, where no request is at hand to fail."""
    refused = refuse_append(monkeypatch, "__transaction_state", nth)
    with pytest.raises(DiskError, match=r"__transaction_state-\d+ at offset \d+: .*No space left"):
        write_until(refused)


def test_bug_while_nobody_asks_stops_the_broker(monkeypatch):
    """Its transaction would never be complete, and the next one would wait for ever."""
    reached = threading.Event()

    def broken(*_):
        reached.set()
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(TransactionCoordinator, "complete", broken)
    with pytest.raises(ZeroDivisionError):
        write_until(reached)


def write_until(struck: threading.Event) -> None:
    with broker() as node:
        while not struck.is_set():
            write_two_transactions(node.bootstrap_servers)


def write_two_transactions(bootstrap_servers: str) -> None:
    timeouts = {"call_timeout_ms": 1000, "request_timeout_ms": 300, "delivery_timeout_ms": 1000}
    with Producer(bootstrap_servers, transactional_id="tx", **timeouts) as producer, suppress(ClientError):
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send("t", b"v")
            producer.commit_transaction()


def test_broker_process_whose_file_cannot_grow_names_it_and_ends(tmp_path):
    """A limit on the size of a file refuses as a full disk does, and the next start has everything that was answered."""
    node = LimitedNode(tmp_path, log_dir_reserve_bytes="0")
    node.start()
    topic = Cluster(node).create_topic(1)
    connection = Connection(node.bootstrap_servers)
    acknowledged: list[str] = []
    with suppress(ConnectionError):
        while len(acknowledged) < 2 * FILE_BYTES_MAX // VALUE_BYTES:
            value = f"{len(acknowledged):0{VALUE_BYTES}}"
            assert produce(connection, topic, value) is ErrorCode.none
            acknowledged.append(value)
    assert node.wait() == EXIT_FAILED
    assert f"{topic}-0 at offset {len(acknowledged)}: " in node.tail()
    assert "Traceback" not in node.tail()
    node.is_limited = False
    node.start()
    assert [value for _, _, value in Cluster(node).read(topic, 1)] == acknowledged
    node.stop()


class LimitedNode(OncelogNode):
    """`oncelog serve` under `ulimit -f`."""

    is_limited = True

    def command(self) -> list[str]:
        blocks = FILE_BYTES_MAX // 1024
        limit = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "limited"] if self.is_limited else []
        return [*limit, *super().command()]


def produce(connection: Connection, topic: str, value: str, index: int = 0) -> ErrorCode:
    partition = {"index": index, "records": batch(-1, -1, -1, [value], attributes=0)}
    answer = connection.ask(
        "produce",
        11,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=5),
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )
    error: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return error

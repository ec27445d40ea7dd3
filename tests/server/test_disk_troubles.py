"""A real disk that is full, and data directories that are taken away from a running broker."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.shared_producer import Cluster
from harness.wire import Connection
from oncelog.client import Client, NewTopic, Producer
from oncelog.server.files import LOOKED_AT_AFTER_S
from oncelog.server.main import EXIT_FAILED
from tests.server.test_failing_disk import produce

TOPIC = "ledger"
RESERVE_BYTES = 256 * 1024
STORAGE = ErrorCode.kafka_storage_error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> Path:
    """Take all the room that a disk has left."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def test_full_disk_refuses_producers_ends_transactions_and_goes_on_with_room(tmp_path, small_disk):
    node = OncelogNode(tmp_path, log_dirs=str(small_disk / "data"), log_dir_reserve_bytes=str(RESERVE_BYTES))
    node.start()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, 1)])
    with Producer(node.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"in time").result()
        filler = fill(small_disk)
        connection = Connection(node.bootstrap_servers)
        assert produce(connection, TOPIC, "x" * 100_000) is STORAGE
        assert produce(connection, TOPIC, "x") is STORAGE
        producer.commit_transaction()
        node.kill()
        node.start()
        assert committed(node) == ["in time"]
        filler.unlink()
        producer.begin_transaction()
        producer.send(TOPIC, b"with room").result()
        producer.commit_transaction()
    assert committed(node) == ["in time", "with room"]
    assert "is full: producers are refused" in node.tail(100_000)
    node.stop()


def committed(node: OncelogNode) -> list[str]:
    return [value for _, _, value in Cluster(node).read(TOPIC, 1)]


@pytest.mark.parametrize("how", ["removed", "moved away"])
def test_data_directory_that_vanishes_is_noticed_by_the_next_write(tmp_path, how):
    first, second = tmp_path / "first", tmp_path / "second"
    node = OncelogNode(tmp_path, log_dirs=f"{first},{second}")
    node.start()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, 2)])
    connection = Connection(node.bootstrap_servers)
    assert [produce(connection, TOPIC, "before", index) for index in (0, 1)] == [ErrorCode.none] * 2
    take_away(second, how)
    time.sleep(2 * LOOKED_AT_AFTER_S)
    assert [produce(connection, TOPIC, "after", index) for index in (1, 0)] == [STORAGE, ErrorCode.none]
    take_away(first, how)
    time.sleep(2 * LOOKED_AT_AFTER_S)
    with pytest.raises(ConnectionError):
        produce(connection, TOPIC, "after", 0)
    assert node.wait() == EXIT_FAILED
    assert str(first) in node.tail()
    assert "Traceback" not in node.tail()


def take_away(path: Path, how: str) -> None:
    if how == "removed":
        shutil.rmtree(path)
    else:
        path.rename(path.with_name(f"{path.name} elsewhere"))

"""A real disk that is full, and data directories that are taken away from a running broker."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.oncelog_process import OncelogNode
from harness.shared_producer import Cluster
from harness.waiting import until
from harness.wire import Connection
from oncelog.client import Client, NewTopic, Producer
from oncelog.environment import DiskFullError
from oncelog.server.disk import RealDisk
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


def fill(path: Path, name: str = "filler") -> Path:
    """Take all the room that a disk has left."""
    filler = path / name
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


def test_room_that_cannot_be_kept_back_is_not_taken_for_kept(small_disk):
    """A broker that is killed takes the length of the file for what it has in reserve."""
    path = small_disk / "reserve"
    with RealDisk(lambda callback: callback(), pytest.fail) as disk:
        disk.allocate(str(path), RESERVE_BYTES)
        fill(small_disk)
        disk.allocate(str(path), RESERVE_BYTES // 2)
        fill(small_disk, "other filler")
        with pytest.raises(DiskFullError):
            disk.allocate(str(path), RESERVE_BYTES)
        assert path.stat().st_size == RESERVE_BYTES // 2
        disk.allocate(str(path), RESERVE_BYTES // 4)
        assert path.stat().st_size == path.stat().st_blocks * 512 == RESERVE_BYTES // 4


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


MINUTE = timedelta(minutes=1)
NEEDED = (".lock", "oncelog-metadata.jsonl", "meta.properties")


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("name", NEEDED)
def test_file_that_is_taken_from_a_running_broker_is_noticed_before_a_commit_is_answered(tmp_path, name, how):
    with running(tmp_path) as node:
        connection = Connection(node.bootstrap_servers)
        producer = begun(connection)
        commit(connection, producer)
        path = node.data_directory / name
        take(path, how)
        with pytest.raises(ConnectionError):
            commit(connection, producer)
        assert_stopped_for(node, path)


@pytest.mark.parametrize("name", NEEDED)
def test_file_that_is_taken_is_noticed_before_a_topic_is_made(tmp_path, name):
    with running(tmp_path) as node:
        connection = Connection(node.bootstrap_servers)
        take(node.data_directory / name, "removed")
        topic = {"name": "another", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        with pytest.raises(ConnectionError):
            connection.ask("create_topics", 5, topics=[topic], timeout=MINUTE, validate_only=False)
        assert_stopped_for(node, node.data_directory / name)


@pytest.mark.parametrize("name", NEEDED)
def test_file_that_is_taken_is_noticed_by_a_stop_which_is_no_clean_one(tmp_path, name):
    with running(tmp_path) as node:
        connection = Connection(node.bootstrap_servers)
        commit(connection, begun(connection))
        take(node.data_directory / name, "removed")
        node.send_signal(signal.SIGTERM)
        assert_stopped_for(node, node.data_directory / name)
        assert not (node.data_directory / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("name", NEEDED)
def test_file_that_is_taken_is_noticed_before_a_record_that_is_synced_is_acknowledged(tmp_path, name):
    with running(tmp_path, log_flush_interval_messages="1") as node:
        connection = Connection(node.bootstrap_servers)
        assert produce(connection, TOPIC, "before") is ErrorCode.none
        take(node.data_directory / name, "removed")
        with pytest.raises(ConnectionError):
            produce(connection, TOPIC, "after")
        assert_stopped_for(node, node.data_directory / name)


def test_record_is_acknowledged_by_one_of_two_brokers_that_a_lock_file_let_in(tmp_path):
    with running(tmp_path) as first:
        connection = Connection(first.bootstrap_servers)
        assert produce(connection, TOPIC, "before") is ErrorCode.none
        (first.data_directory / ".lock").unlink()
        second = OncelogNode(tmp_path / "second", log_dirs=str(first.data_directory))
        second.start()
        assert produce(Connection(second.bootstrap_servers), TOPIC, "second") is ErrorCode.none
        with pytest.raises(ConnectionError):
            produce(connection, TOPIC, "first")
        assert_stopped_for(first, first.data_directory / ".lock")
        assert committed(second) == ["before", "second"]
        second.stop()


def test_lock_of_another_log_directory_that_is_taken_takes_that_one_offline(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    node = OncelogNode(tmp_path, log_dirs=f"{first},{second}", log_flush_interval_messages="1")
    node.start()
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, 2)])
    connection = Connection(node.bootstrap_servers)
    assert [produce(connection, TOPIC, "before", index) for index in (0, 1)] == [ErrorCode.none] * 2
    (second / ".lock").unlink()
    # What the write-ahead log has of it meanwhile is safe at home.
    time.sleep(2 * LOOKED_AT_AFTER_S)
    assert [produce(connection, TOPIC, "after", index) for index in (1, 0)] == [STORAGE, ErrorCode.none]
    assert f"{second}/.lock was removed by somebody else" in node.tail(100_000)
    node.stop()


def test_data_directory_that_is_removed_is_noticed_by_the_next_record(tmp_path):
    with running(tmp_path) as node:
        connection = Connection(node.bootstrap_servers)
        assert produce(connection, TOPIC, "before") is ErrorCode.none
        subprocess.run(["rm", "-r", str(node.data_directory)], check=True)
        with pytest.raises(ConnectionError):
            produce(connection, TOPIC, "after")
        assert_stopped_for(node, node.data_directory)


@contextmanager
def running(tmp_path: Path, **settings: str) -> Iterator[OncelogNode]:
    """A broker that has the topic, and is made to end."""
    node = OncelogNode(tmp_path, **settings)
    node.start()
    try:
        with Client(node.bootstrap_servers) as client:
            client.create_topics([NewTopic(TOPIC, 1)])
        yield node
    finally:
        node.kill()


def begun(connection: Connection) -> dict[str, Any]:
    """A producer, whose requests fail as soon as the broker is gone."""

    def asked() -> Any:
        connection.ask("find_coordinator", 3, key="tx", key_type=1)
        return connection.ask(
            "init_producer_id",
            4,
            transactional_id="tx",
            transaction_timeout=MINUTE,
            producer_id=-1,
            producer_epoch=-1,
        )

    until(lambda: asked().error_code is ErrorCode.none)
    answer = asked()
    return {"transactional_id": "tx", "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def commit(connection: Connection, producer: dict[str, Any]) -> None:
    """An empty transaction."""
    fields = {f"v3_and_below_{name}": value for name, value in producer.items()}
    topics = [{"name": TOPIC, "partitions": [0]}]

    def added() -> ErrorCode:
        answer = connection.ask("add_partitions_to_txn", 3, **fields, v3_and_below_topics=topics)
        error: ErrorCode = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return error

    until(lambda: added() is ErrorCode.none)
    assert connection.ask("end_txn", 3, **producer, committed=True).error_code is ErrorCode.none


def take(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if how == "replaced":
        path.with_name("copy").write_bytes(content)
        path.with_name("copy").rename(path)


def assert_stopped_for(node: OncelogNode, path: Path) -> None:
    """With one sentence, which names the path."""
    assert node.wait() == EXIT_FAILED
    assert str(path) in node.tail()
    assert "Traceback" not in node.tail(100_000)

"""One process on several log directories: taking them all or none, leaving them clean, coming back after it was not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.oncelog_process import OncelogNode
from harness.shared_producer import Cluster
from oncelog.client import Client, ClientError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from oncelog.environment import DiskError
from oncelog.server import disk as real_disk
from oncelog.server.main import EXIT_FAILED
from oncelog.testing import broker

TOPIC, PARTITIONS = "orders", 4


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def node(tmp_path: Path, directories: list[Path]):
    made = OncelogNode(tmp_path / "node", log_dirs=",".join(map(str, directories)))
    made.start()
    yield made
    made.kill()


def refused(*paths: Path | str) -> subprocess.CompletedProcess[str]:
    """Serve on directories that cannot be served on: one sentence, and the end."""
    command = [
        OncelogNode.program(),
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--set",
        f"log.dirs={','.join(map(str, paths))}",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended


def write(node: OncelogNode, value: bytes) -> None:
    """One transaction in every partition, with an offset of a group."""
    with Producer(node.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(TOPIC, value, partition=partition)
        producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): OffsetAndMetadata(len(value), "")}, "g")
        producer.commit_transaction()


def values(node: OncelogNode) -> list[list[str]]:
    """What each partition has."""
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for partition, _, value in sorted(Cluster(node).read(TOPIC, PARTITIONS)):
        found[partition].append(value)
    return found


def partitions_in(directory: Path, topic: str = TOPIC) -> set[str]:
    return {path.name for path in directory.glob(f"{topic}-*")}


def test_kill_and_stop_leave_every_directory_as_the_next_start_needs_it(node, directories):
    with Client(node.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic("gone", 2)])
    write(node, b"a")
    placed = [partitions_in(directory) for directory in directories]
    assert [len(names) for names in placed] == [2, 2]
    node.kill()
    node.start()
    assert "after a crash" in node.said()
    write(node, b"bb")
    with Client(node.bootstrap_servers) as client:
        client.delete_topics(["gone"])
    node.stop()
    for directory in directories:
        assert (directory / ".kafka_cleanshutdown").exists()
        assert (directory / "meta.properties").exists()
        points = (directory / "recovery-point-offset-checkpoint").read_text()
        assert {f"{TOPIC}-{index}" for index in range(PARTITIONS) if f"{TOPIC} {index} " in points} == partitions_in(
            directory
        )
    node.start()
    assert node.said().rstrip().endswith(f"data in {directories[0]}, {directories[1]}")
    assert values(node) == [["a", "bb"]] * PARTITIONS
    assert [partitions_in(directory) for directory in directories] == placed
    assert not [path for directory in directories for path in directory.glob("gone-*")]
    with Client(node.bootstrap_servers) as client:
        assert client.committed_offsets("g")[TopicPartition(TOPIC, 0)].offset == 2


def test_process_that_has_one_of_them_is_named_and_the_others_are_not_kept(node, directories, tmp_path):
    second = refused(tmp_path / "own", directories[1])
    assert second.returncode == EXIT_FAILED
    assert f"the data directory {directories[1]} is in use by another process" in second.stderr
    with broker(str(tmp_path / "own")):
        pass


def test_directory_that_cannot_be_made_is_named_with_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    ended = refused(tmp_path / "a", tmp_path / "file" / "b")
    assert ended.returncode == EXIT_FAILED
    assert f"cannot make the directory {tmp_path}/file/b: Not a directory" in ended.stderr
    assert f"let the broker make and write the log directory {tmp_path}/file/b, or name another one" in ended.stderr


def test_directory_that_cannot_be_written_is_named_with_what_to_do(tmp_path):
    (tmp_path / "b" / ".lock").mkdir(parents=True)
    ended = refused(tmp_path / "a", tmp_path / "b")
    assert ended.returncode == EXIT_FAILED
    assert f"cannot open the lock file {tmp_path}/b/.lock" in ended.stderr
    assert f"let the broker make and write the log directory {tmp_path}/b, or name another one" in ended.stderr


def test_partition_in_two_of_them_is_one_sentence(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "t-0").mkdir(parents=True)
    ended = refused(tmp_path / "a", tmp_path / "b")
    assert ended.returncode == EXIT_FAILED
    assert f"partition t-0 is in two log directories, {tmp_path}/a and {tmp_path}/b: move the one" in ended.stderr


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (("a", "a/"), "are the same directory"),
        (("a", "link"), "are the same directory"),
        (("a", "b", "a/inner"), "is inside"),
    ],
)
def test_same_directory_twice_or_inside_another_is_a_wrong_value(tmp_path, names, what):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ValueError, match=what), broker(log_dirs=",".join(f"{tmp_path}/{name}" for name in names)):
        pass
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"data_dir": ""}, "data_dir is empty"),
        ({"log_dirs": ""}, "log.dirs= is not allowed"),
        ({"log_dir": " , "}, "log.dir= is not allowed"),
        ({"listen": ""}, "'' is not an address"),
    ],
)
def test_empty_value_does_not_stand_for_what_is_taken_without_one(arguments, what):
    with pytest.raises(ValueError, match=what), broker(**arguments):
        pass


@pytest.mark.parametrize("failing", [0, 1], ids=["home", "the other one"])
def test_disk_that_fails_stops_the_broker_only_if_home_is_on_it(monkeypatch, directories, failing):
    append = real_disk.RealFile.append

    def refusing(file, chunks, *share):
        if file.path.startswith(f"{directories[failing]}/t-{failing}/"):
            raise DiskError(f"cannot append to {file.path}: Input/output error", file.path)
        return append(file, chunks, *share)

    monkeypatch.setattr(real_disk.RealFile, "append", refusing)
    log_dirs = ",".join(map(str, directories))
    if failing:
        write_to_one(log_dirs, failing)
    else:
        with pytest.raises(DiskError, match=r"t-0 at offset 0: .*Input/output error"):
            write_to_one(log_dirs, failing)
    monkeypatch.setattr(real_disk.RealFile, "append", append)
    with broker(log_dirs=log_dirs) as node, Producer(node.bootstrap_servers) as producer:
        producer.send("t", b"v", partition=failing)
        producer.flush()


def write_to_one(log_dirs: str, failing: int) -> None:
    """A record for the partition whose disk fails, and then, if there is still somebody, one for the other."""
    with broker(log_dirs=log_dirs) as node:
        with Client(node.bootstrap_servers) as client:
            client.create_topics([NewTopic("t", 2)])
        with Producer(node.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=1000) as producer:
            producer.send("t", b"v", partition=failing)
            with pytest.raises(ClientError):
                producer.flush()
        if failing:
            with Producer(node.bootstrap_servers) as producer:
                producer.send("t", b"v", partition=0)
                producer.flush()

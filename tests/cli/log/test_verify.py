"""What `oncelog log verify` finds in directories that brokers left, whole and damaged in every way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from harness.used_directory import TOPIC
from oncelog.broker.storage.journal import FILE_NAME, BecameMember, encode_line
from oncelog.client import Producer
from tests.cli.log.damages import damage, files_of

SEEDS = range(60)
CANNOT_BE_TOLD = ("meta.properties", "log-start-offset-checkpoint")
"""Another cluster id is as good as this one, and records may have been deleted up to any offset."""


def verify(cli, *paths) -> tuple[int, list[dict]]:
    ended = cli("log", "verify", "--json", *paths)
    assert ended.errors == ""
    return ended.status, [json.loads(line) for line in ended.lines]


def the_one(data: Path, pattern: str, number: int = 0) -> Path:
    return sorted(path for path in data.glob(pattern) if path.stat().st_size)[number]


def test_nothing_is_found_where_nothing_is_wrong(cli, data):
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    ended = cli("log", "verify", data)
    assert ended.status == 0
    (line,) = ended.lines
    assert line.endswith(": nothing is wrong")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_directory_of_a_member_of_a_cluster_is_refused_and_not_repaired(cli, data):
    """Repaired, it would be that of a broker that is alone."""
    with open(data / FILE_NAME, "ab") as journal:
        journal.write(encode_line(BecameMember()))
    before = (data / FILE_NAME).read_bytes()
    for command in (["verify"], ["repair"], ["repair", "--yes"]):
        ended = cli("log", *command, data)
        assert ended.status == 2
        assert ended.sentence.startswith(f"{data} is that of a member of a cluster, which has its topics in ZooKeeper")
    assert (data / FILE_NAME).read_bytes() == before


def test_what_a_killed_broker_leaves_is_no_damage(cli, used, node):
    node.start()
    with Producer(node.bootstrap_servers, transactional_id="tx-0", call_timeout_ms=1_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, b"left open", partition=0)
        producer.flush()
        used.transaction(node.bootstrap_servers, 1)
        node.kill()
    status, found = verify(cli, node.data_directory)
    assert status == 0
    assert {row["severity"] for row in found} <= {"pending"}
    segment = the_one(node.data_directory, "orders-0/*.log", -1)
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:40])
    status, found = verify(cli, node.data_directory)
    assert status == 0
    (torn,) = [row for row in found if row["file"] == str(segment)]
    assert torn["severity"] == "pending"
    assert torn["at_start"] == "a start cuts it off"


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("orders-0/*.log", "CRC"),
        ("__transaction_state-*/*.log", "CRC"),
        ("__consumer_offsets-*/*.log", "CRC"),
        ("orders-0/*.index", "entry"),
        ("orders-0/*.timeindex", "timestamp"),
        ("orders-0/*.txnindex", "markers"),
        ("orders-0/*.snapshot", "CRC"),
        ("orders-0/leader-epoch-checkpoint", "epoch"),
        ("orders-0/partition.metadata", "topic"),
        ("recovery-point-offset-checkpoint", ""),
        ("replication-offset-checkpoint", ""),
        ("meta.properties", ""),
        ("oncelog-metadata.jsonl", "no record"),
    ],
)
def test_a_changed_byte_is_found_in_the_file_that_has_it(cli, data, pattern, what):
    path = the_one(data, pattern)
    content = bytearray(path.read_bytes())
    content[-2] ^= 4
    path.write_bytes(content)
    status, found = verify(cli, data)
    assert status == 1
    assert any(row["file"] == str(path) and row["severity"] == "damage" and what in row["what"] for row in found), found


@pytest.mark.parametrize("field", ["base offset", "length", "leader epoch", "magic"])
def test_what_the_checksum_does_not_cover_is_checked_too(cli, data, field):
    path = the_one(data, "orders-0/*.log", 1)
    position = {"base offset": 6, "length": 10, "leader epoch": 14, "magic": 16}[field]
    content = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(content[8:12], "big")
    content[size + position] ^= 2
    path.write_bytes(content)
    status, found = verify(cli, data)
    assert status == 1
    damaged = [row for row in found if row["file"] == str(path)]
    assert [row["position"] for row in damaged] == [size]
    assert {row["file"] for row in found} <= {str(path), str(path.parent / "leader-epoch-checkpoint")}


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_a_missing_file_is_found(cli, data, suffix):
    path = the_one(data, f"orders-0/*{suffix}", 1)
    path.unlink()
    status, found = verify(cli, data)
    assert status == 1
    assert str(path) in {row["file"] for row in found}


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_two_files_that_changed_places_are_found(cli, data, suffix):
    one, other = the_one(data, f"orders-0/*{suffix}", -1), the_one(data, f"orders-0/*{suffix}", -2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    status, found = verify(cli, data)
    assert status == 1
    assert {str(one), str(other)} <= {row["file"] for row in found}


def test_a_missing_partition_is_found_and_one_that_is_nobodys(cli, data):
    (data / "orders-1").rename(data / "orders-7")
    status, found = verify(cli, data)
    assert status == 1
    assert {str(data / "orders-1"), str(data / "orders-7")} <= {row["file"] for row in found}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_damage_is_never_missed(cli, used, tmp_path, seed):
    random = Random(seed)
    data = tmp_path / "data"
    shutil.copytree(used.path, data)
    newest = sorted(path.name for path in data.glob("orders-0/*.snapshot"))[-1]
    # A snapshot that is not the newest may be missing.
    path = random.choice([path for path in files_of(data) if path.suffix != ".snapshot" or path.name == newest])
    if not damage(path, random):
        return
    status, found = verify(cli, data)
    if path.name in CANNOT_BE_TOLD and status == 0:
        return
    assert status == 1, path
    assert str(path) in {row["file"] for row in found}


@pytest.mark.parametrize("seed", range(20))
def test_damage_everywhere_is_no_traceback(cli, used, tmp_path, seed):
    random = Random(seed)
    data = tmp_path / "data"
    shutil.copytree(used.path, data)
    for path in files_of(data):
        if random.random() < 0.5:
            damage(path, random)
    status, _ = verify(cli, data)
    assert status == 1


def test_one_partition_and_one_file_are_verified_alone(cli, data):
    for pattern in ("orders-0/*.index", "orders-1/*.log"):
        path = the_one(data, pattern)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    status, found = verify(cli, data / "orders-0")
    assert status == 1
    assert not any("orders-1" in row["file"] for row in found)
    index = the_one(data, "orders-0/*.index")
    status, found = verify(cli, index)
    assert status == 1
    assert {row["file"] for row in found} == {str(index)}
    assert verify(cli, the_one(data, "orders-0/*.log")) == (0, [])


def test_a_directory_of_a_running_broker_is_one_sentence(cli, node):
    node.start()
    ended = cli("log", "verify", node.data_directory)
    assert ended.status == 2
    assert ended.sentence == f"a broker runs on {node.data_directory}: stop it first"


def test_what_is_no_log_directory_is_one_sentence(cli, tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        ended = cli("log", "verify", path)
        assert ended.status == 2
        assert str(path) in ended.sentence


def test_an_interrupted_record_of_the_journal_is_pending_after_a_kill(cli, node):
    node.start()
    node.kill()
    path = node.data_directory / "oncelog-metadata.jsonl"
    with path.open("ab") as file:
        file.write(b'0123abcd {"type":')
    status, found = verify(cli, node.data_directory)
    assert status == 0
    assert [row["severity"] for row in found if row["file"] == str(path)] == ["pending"]


def test_a_lost_marker_leaves_a_transaction_that_is_nobodys(cli, data):
    path = the_one(data, "orders-1/*.log", -1)
    content = path.read_bytes()
    batches, position = [], 0
    while position < len(content):
        batches.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    path.write_bytes(content[: batches[-1]])
    status, found = verify(cli, data)
    assert status == 1
    assert [row["file"] for row in found][:1] == [str(path)]


def test_a_broker_started_and_stopped_leaves_nothing_to_find(cli, node):
    node.start()
    node.kill()
    node.start()
    node.stop()
    assert verify(cli, node.data_directory) == (0, [])

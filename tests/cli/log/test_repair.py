"""What `oncelog log repair` makes of damaged directories: nothing is left to find, a broker serves what is not lost, and what is
lost was named before.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from harness import dump_log
from harness.used_directory import TOPIC, UsedDirectory, content
from oncelog.client import Client, Producer, TopicPartition
from tests.cli.log.damages import damage, files_of

pytestmark = pytest.mark.drawn(6)

LOST = re.compile(r"^LOST \S*/(\S+)-(\d+)(?:/\d+\.log)?: offsets (\d+) to (\d+)", re.MULTILINE)


def repaired(cli, data: Path) -> str:
    """Repair; return what was said. Nothing may be left to find, and a second repair has nothing to do."""
    ended = cli("log", "repair", "--yes", data)
    assert ended.status == 0, ended.output + ended.errors
    assert "damaged" not in ended.lines[-1]
    assert cli("log", "verify", data).status == 0
    assert cli("log", "repair", data).output.startswith("there is nothing to repair")
    return ended.output


def check_served(used: UsedDirectory, node, said: str) -> None:
    """A broker serves everything but what was said to be lost, and takes more."""
    node.start()
    lost = {
        (topic, int(partition), offset)
        for topic, partition, first, last in LOST.findall(said)
        for offset in range(int(first), int(last) + 1)
    }
    for (topic, partition), records in content(node).items():
        before = used.content[topic, partition]
        assert records == [one for one in before if (topic, partition, one[0]) not in lost]
    places = [TopicPartition(TOPIC, partition) for partition in range(2)]
    with Client(node.bootstrap_servers) as client:
        ends = client.end_offsets(places)
    with Producer(node.bootstrap_servers, transactional_id="tx-0") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        first = [producer.send(TOPIC, b"more", partition=place.partition) for place in places]
        producer.commit_transaction()
    assert [one.result().offset for one in first] == [ends[place] for place in places]
    node.stop()


def batch_positions(path: Path) -> list[int]:
    data, position, found = path.read_bytes(), 0, []
    while position < len(data):
        found.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def test_what_follows_from_the_batches_is_made_anew_without_a_loss(cli, used, node, data):
    for number, path in enumerate(sorted((data / "orders-0").iterdir())):
        if path.suffix == ".log":
            continue
        if number % 2 and path.suffix != ".snapshot":
            path.unlink()
        elif path.stat().st_size:
            flip(path, path.stat().st_size - 2)
    said = repaired(cli, data)
    assert "LOST" not in said
    assert "without a loss" in said
    check_served(used, node, said)


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "meta.properties",
    ],
)
def test_files_of_the_directory_are_made_anew(cli, used, node, data, name):
    (data / name).write_bytes(b"\0" * 50)
    said = repaired(cli, data)
    assert "LOST" not in said
    check_served(used, node, said)


def test_directory_of_kafka_over_zookeeper_becomes_that_of_a_broker_that_is_alone(cli, used, node, data):
    properties = data / "meta.properties"
    cluster_id = next(line for line in properties.read_text().splitlines() if line.startswith("cluster.id="))
    properties.write_text(f"version=0\n{cluster_id}\nbroker.id=1\n")
    assert "it is that of a broker of Apache Kafka over ZooKeeper" in cli("log", "verify", data).output
    said = repaired(cli, data)
    assert cluster_id in properties.read_text()
    check_served(used, node, said)


def test_headers_get_back_what_they_had(cli, used, node, data):
    """Base offset, length, leader epoch and magic, in turn."""
    path = sorted((data / "orders-0").glob("*.log"))[1]
    before = path.read_bytes()
    for number, position in enumerate(batch_positions(path)):
        if number % 2 == 1:
            flip(path, position + (6, 10, 14, 16)[number // 2 % 4])
    said = repaired(cli, data)
    assert "LOST" not in said
    assert path.read_bytes() == before
    check_served(used, node, said)


def test_a_damaged_batch_is_left_out_and_the_others_are_served(cli, used, node, data):
    path = sorted((data / "orders-0").glob("*.log"))[1]
    original = path.read_bytes()
    flip(path, batch_positions(path)[3] + 65)
    damaged = path.read_bytes()
    refused = cli("log", "repair", data)
    assert refused.status == 2
    assert "--yes" in refused.errors
    assert path.read_bytes() == damaged
    said = repaired(cli, data)
    assert len(LOST.findall(said)) == 1
    (kept,) = data.glob("oncelog-repaired.1/orders-0/*.log")
    assert kept.read_bytes() == damaged != original
    check_served(used, node, said)


@pytest.mark.parametrize("place", ["first", "in the middle", "last"])
def test_a_missing_segment_leaves_the_others_readable(cli, used, node, data, place):
    paths = sorted((data / "orders-1").glob("*.log"))
    path = {"first": paths[0], "in the middle": paths[2], "last": paths[-1]}[place]
    path.unlink()
    said = repaired(cli, data)
    assert LOST.findall(said)
    check_served(used, node, said)


@pytest.mark.parametrize("end", ["cut", "garbage", "again"])
def test_ends_that_are_wrong_are_put_right(cli, used, node, data, end):
    path = sorted((data / "orders-1").glob("*.log"))[-1]
    position = batch_positions(path)[-3]
    whole = path.read_bytes()
    path.write_bytes(
        {"cut": whole[: position + 30], "garbage": whole + b"x" * 999, "again": whole + whole[position:]}[end]
    )
    said = repaired(cli, data)
    assert bool(LOST.findall(said)) == (end == "cut")
    check_served(used, node, said)


@pytest.mark.parametrize("has_marker", ["COMMIT", "ABORT"])
def test_a_lost_marker_is_written_again(cli, used, node, data, has_marker):
    """Without it an aborted transaction would be seen, or a committed one hidden by the next."""
    before = used.content["orders", 0]
    found = []
    for path in sorted((data / "orders-0").glob("*.log")):
        content_ = path.read_bytes()
        for position in batch_positions(path):
            is_control = int.from_bytes(content_[position + 21 : position + 23], "big") & 0x20
            if is_control and (content_[position + 61 + 8] == 1) == (has_marker == "COMMIT"):
                found.append((path, position))
    path, position = found[2]
    flip(path, position + 61 + 12)
    said = repaired(cli, data)
    assert f"{has_marker} of producer" in said
    node.start()
    assert content(node)["orders", 0] == before
    node.stop()


def test_the_journal_is_put_together_from_the_directories(cli, used, node, data):
    (data / "oncelog-metadata.jsonl").unlink()
    said = repaired(cli, data)
    assert "LOST the settings of topic orders" in said
    check_served(used, node, said)


def test_a_missing_partition_begins_anew_where_it_ended(cli, used, node, data):
    (end,) = re.findall(r"^orders 1 (\d+)$", (data / "recovery-point-offset-checkpoint").read_text(), re.MULTILINE)
    shutil.rmtree(data / "orders-1")
    said = repaired(cli, data)
    assert f"the partition begins anew at offset {end}" in said
    node.start()
    place = TopicPartition("orders", 1)
    with Client(node.bootstrap_servers) as client:
        assert client.end_offsets([place])[place] == client.beginning_offsets([place])[place] == int(end)
    node.stop()


def test_a_killed_brokers_write_ahead_log_is_put_back_first(cli, used, node, data):
    node.start()
    for slot in range(20, 24):
        used.transaction(node.bootstrap_servers, slot)
    expected = content(node)
    node.kill()
    assert list(data.glob("oncelog-wal-*"))
    first = sorted((data / "orders-0").glob("*.log"))[0]
    flip(first, batch_positions(first)[1] + 70)
    last = sorted((data / "orders-0").glob("*.log"))[-1]
    # What the power took of the end is in the write-ahead log.
    taken = batch_positions(last)[-1]
    last.write_bytes(last.read_bytes()[:taken])
    said = repaired(cli, data)
    ((_, _, first_lost, last_lost),) = LOST.findall(said)
    node.start()
    served = content(node)
    assert served["orders", 0] == [
        one for one in expected["orders", 0] if not int(first_lost) <= one[0] <= int(last_lost)
    ]
    assert served["orders", 1] == expected["orders", 1]
    node.stop()


@pytest.mark.drawn(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_damages_are_repaired(cli, used, node, data, seed):
    random = Random(seed)
    for path in random.sample(files_of(data), random.choice((1, 1, 2, 4))):
        damage(path, random)
    ended = cli("log", "repair", "--yes", data)
    assert ended.status == 0, ended.output + ended.errors
    assert cli("log", "verify", data).status == 0
    if seed % 8 == 0:
        node.start()
        for place, records in content(node).items():
            before = used.content[place]
            assert [one for one in records if one not in before] == []
        node.stop()


@pytest.mark.chaos
def test_a_repair_that_is_killed_at_any_step_is_finished_by_the_next(cli, used, tmp_path):
    """The process kills itself before its nth change of a file."""
    program = (
        "import os, signal, sys\n"
        "from oncelog.server.disk import RealDisk\n"
        "left = int(sys.argv[1])\n"
        "def dying(method):\n"
        "    def step(*arguments):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return method(*arguments)\n"
        "    return step\n"
        "for name in ('rename', 'replace_file', 'remove'): setattr(RealDisk, name, dying(getattr(RealDisk, name)))\n"
        "from oncelog.cli.application import run_application\n"
        "sys.exit(run_application(sys.argv[2:]))\n"
    )
    statuses = []
    for left in (0, 3, 8, 100):
        node = used.copy(tmp_path / str(left))
        data = node.data_directory
        for path in sorted((data / "orders-0").glob("*.log")):
            flip(path, batch_positions(path)[1] + 70)
        done = subprocess.run(
            [sys.executable, "-c", program, str(left), "log", "repair", "--yes", str(data)],
            capture_output=True,
            text=True,
            check=False,
        )
        statuses.append(done.returncode)
        ended = cli("log", "repair", "--yes", data)
        assert ended.status == 0, ended.output
        assert cli("log", "verify", data).status == 0
    assert statuses == [-signal.SIGKILL] * 3 + [0]


@pytest.mark.jvm
def test_kafka_reads_what_was_repaired(cli, node, data):
    for number, path in enumerate(sorted((data / "orders-0").glob("*.log"))):
        flip(path, batch_positions(path)[number + 1] + 70)
    repaired(cli, data)
    logs = [path for path in sorted(data.glob("*-*/*.log")) if path.stat().st_size]
    printed = dump_log.dump(logs, "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in printed
    assert "Found" not in printed
    indexes = [path for path in data.glob("orders-0/*index") if path.suffix != ".txnindex" and path.stat().st_size]
    assert not re.search("Mismatches|mismatch|out of order", dump_log.dump(indexes))
    assert printed.count("count: 0 ") >= 3


def test_a_directory_that_cannot_be_written_is_one_sentence(cli, data):
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    flip(data / "orders-0" / "leader-epoch-checkpoint", 0)
    data.chmod(0o555)
    try:
        assert cli("log", "repair", "--yes", data).status == 5
    finally:
        data.chmod(0o755)


def test_a_lost_journal_keeps_nobody_from_putting_back_the_write_ahead_log(cli, used, node, data):
    node.start()
    used.transaction(node.bootstrap_servers, 40)
    expected = content(node)
    node.kill()
    (data / "oncelog-metadata.jsonl").unlink()
    last = sorted((data / "orders-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[: batch_positions(last)[-1]])
    said = repaired(cli, data)
    assert LOST.findall(said) == []
    assert not list(data.glob("oncelog-wal-*"))
    node.start()
    assert content(node) == expected
    node.stop()


def test_a_damaged_cleaner_checkpoint_is_put_aside(cli, data):
    path = data / "cleaner-offset-checkpoint"
    path.write_text("0\n1\norders 0 5\n")
    assert "offset: 5" in cli("log", "dump", path).output
    path.write_bytes(b"\0" * 20)
    repaired(cli, data)
    assert (data / "oncelog-repaired.1" / path.name).read_bytes() == b"\0" * 20

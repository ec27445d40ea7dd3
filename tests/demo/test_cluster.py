"""The demo's cluster: the right process is killed and comes back; its memory; and the whole demo on it."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.progress import Progress

from harness import requirements
from oncelog.cli.demo import SEED_MAX
from oncelog.client import Client, OffsetAndMetadata, TopicPartition
from oncelog.demo import cluster as demo_cluster
from oncelog.demo.cluster import DemoCluster, resident_bytes
from oncelog.demo.flights import flights
from oncelog.demo.kills import ROLES, Kill, Victim, WireMoment
from oncelog.demo.performance import perform
from oncelog.demo.plan import DEPARTURES, Guarantee, examples_directory
from oncelog.demo.processes import ProcessError
from oncelog.demo.tally import Tally
from oncelog.demo.topics import create_topics
from oncelog.testing.proxy import ApiKey, Point

FLIGHTS = 1500
TOPIC = DEPARTURES.topic(Guarantee.EXACTLY_ONCE)
MOMENT = WireMoment(ApiKey.PRODUCE, Point.REQUEST, 1)

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(900)]


def kill_of(victim: Victim) -> Kill:
    return Kill(victim, DEPARTURES, "Produce was sent", MOMENT, partition=2)


Members = Callable[[], list[psutil.Process]]


@pytest.fixture
def members() -> Members:
    """ZooKeeper, its Java and the brokers: what this process has started by now, beside what it had before the test."""
    before = set(psutil.Process().children(recursive=True))
    return lambda: [child for child in psutil.Process().children(recursive=True) if child not in before]


@pytest.fixture
def three(tmp_path, members):
    requirements.java()
    with closing(DemoCluster(tmp_path, size=3, seed=1)) as brokers:
        brokers.start()
        yield brokers


@pytest.mark.drawn(6)
def test_each_is_killed_for_what_it_is_and_comes_back(three, members):
    create_topics(three.bootstrap_servers, three.replication_factor)
    with Client(three.bootstrap_servers) as client:
        client.commit_offsets(TOPIC, {TopicPartition(TOPIC, 0): OffsetAndMetadata(0)})
    three.wait_until_whole()
    admin = AdminClient({"bootstrap.servers": three.bootstrap_servers, "log_level": 0})

    leader = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[2].leader
    assert three.kill(kill_of(Victim.PARTITION_LEADER), TOPIC) == f"broker {leader}, leader of {TOPIC}-2,"
    three.wait_until_whole()
    assert admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[2].leader != leader

    coordinator = admin.describe_consumer_groups([TOPIC])[TOPIC].result(30).coordinator.id
    assert three.kill(kill_of(Victim.GROUP_COORDINATOR), TOPIC) == f"broker {coordinator}, group coordinator,"

    # The one before may not be back yet: this waits.
    java = [member for member in members() if member.name() == "java"]
    assert three.kill(kill_of(Victim.ZOOKEEPER), TOPIC) == "ZooKeeper"
    assert psutil.wait_procs(java, timeout=30)[1] == []

    three.wait_until_whole()
    controller = admin.list_topics(timeout=30).controller_id
    assert three.kill(kill_of(Victim.CONTROLLER), TOPIC) == f"broker {controller}, controller,"
    three.wait_until_whole()
    assert three.complaint is None
    state = three.state()
    assert (state.under_replicated, state.offline) == (0, 0)
    assert sorted(state.resident_bytes) == ["ZooKeeper", "broker 1", "broker 2", "broker 3"]
    assert all(size > 20_000_000 for size in state.resident_bytes.values())


def test_nothing_is_left_running_while_one_is_about_to_come_back(three, members):
    create_topics(three.bootstrap_servers, three.replication_factor)
    left = members()
    assert len(left) == 5
    three.kill(kill_of(Victim.CONTROLLER), TOPIC)
    three.close()
    assert psutil.wait_procs(left, timeout=30)[1] == []
    assert not members()
    with pytest.raises(ProcessError, match="over"):
        three.kill(kill_of(Victim.ZOOKEEPER), TOPIC)
    assert three.complaint is None


def test_member_that_stops_by_itself_is_a_complaint(three, members, monkeypatch):
    (java,) = (member for member in members() if member.name() == "java")
    monkeypatch.setattr(demo_cluster, "LOOK_SECONDS", 0.01)
    java.kill()
    with pytest.raises(ProcessError, match=r"^ZooKeeper stopped by itself: signal 9 killed ZooKeeper's Java$"):
        three.wait_until_whole()


@pytest.mark.spark
@pytest.mark.drawn(16)
def test_what_is_killed_on_a_cluster_comes_out_exactly_once(tmp_path, members):
    requirements.java()
    seed = random.SystemRandom().randrange(SEED_MAX)
    print(f"seed {seed}")
    lines = io.StringIO()
    progress = Progress(console=Console(file=lines), disable=True)
    brokers = DemoCluster(tmp_path, size=3, seed=seed)
    found = perform(brokers, tmp_path, examples_directory(), FLIGHTS, progress, [Guarantee.EXACTLY_ONCE])
    print(lines.getvalue())
    (column,) = found.columns
    assert column.tally == Tally(expected=column.tally.expected)
    assert column.tally.expected >= sum(not flight.is_cancelled for flight in flights(FLIGHTS))
    assert column.completed.kills == {Victim.DRIVER: 5, **dict.fromkeys(ROLES, 1)}
    assert (found.cluster.under_replicated, found.cluster.offline, found.cluster.seed) == (0, 0, seed)
    assert lines.getvalue().count("\n") == 5 + len(ROLES)
    assert not members()


MEBIBYTE = 1 << 20
HOLDS = """
import subprocess, sys
held = b"x" * int(sys.argv[1])
children = [subprocess.Popen([sys.executable, "-c", sys.argv[2], argument, ""]) for argument in sys.argv[3:]]
print("holding", flush=True)
sys.stdin.read()
"""
HOLDS_ALONE = """
import sys
held = b"x" * int(sys.argv[1])
print("holding", flush=True)
sys.stdin.read()
"""


def test_memory_of_children_counts_and_of_the_dead_does_not():
    command = [sys.executable, "-c", HOLDS, str(50 * MEBIBYTE), HOLDS_ALONE, str(100 * MEBIBYTE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert [parent.stdout.readline() for _ in range(2)] == ["holding\n"] * 2
        assert 150 * MEBIBYTE < resident_bytes(parent.pid) < 250 * MEBIBYTE
        parent.stdin.close()
    assert resident_bytes(parent.pid) == 0

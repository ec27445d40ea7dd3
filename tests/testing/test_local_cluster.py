"""A cluster of a test's own, and what a test can do to it."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from harness.waiting import until
from oncelog.client import Client, Consumer, NewTopic, Producer, TopicPartition
from oncelog.testing import MemberError, cluster

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
TOPIC = "payments"
FIRST = TopicPartition(TOPIC, 0)
PAUSED_AND_LEFT = """
import signal
from oncelog.testing import cluster
with cluster(2) as running:
    running.brokers[2].pause()
    print("paused", flush=True)
    signal.pause()
"""


def partition(servers: str):
    with Client(servers) as client:
        return client.metadata([TOPIC])[TOPIC].partitions[0]


def values(servers: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Consumer(servers) as reader:
        reader.assign({FIRST: 0})
        while len(found) < count:
            records = reader.poll(30_000)
            assert records, found
            found += [record.value for record in records]
    return found


def write(servers: str, value: bytes) -> None:
    with Producer(servers) as producer:
        producer.send(TOPIC, value, partition=0)
        producer.flush()


@pytest.mark.drawn(6)
def test_brokers_go_and_come_back_and_what_was_acknowledged_stays():
    with cluster(3) as running:
        servers = running.bootstrap_servers
        assert sorted(running.brokers) == [1, 2, 3]
        assert ",".join(broker.bootstrap_servers for broker in running.brokers.values()) == servers
        with Client(servers) as client:
            client.create_topics([NewTopic(TOPIC, 1, 3)])
        write(servers, b"before")

        killed = running.brokers[partition(servers).leader]
        killed.kill()
        assert not killed.is_running
        write(servers, b"killed")
        until(lambda: partition(servers).offline_replicas == (killed.broker_id,))
        killed.start()
        with pytest.raises(MemberError, match=f"broker {killed.broker_id} runs already"):
            killed.start()
        until(lambda: len(partition(servers).in_sync_replicas) == 3)

        stopped = running.brokers[partition(servers).leader]
        stopped.stop()
        others = ",".join(b.bootstrap_servers for b in running.brokers.values() if b is not stopped)
        until(lambda: partition(others).leader not in (stopped.broker_id, -1))
        write(servers, b"stopped")
        stopped.start()
        until(lambda: len(partition(servers).in_sync_replicas) == 3)

        paused = running.brokers[partition(servers).leader]
        paused.pause()
        others = ",".join(b.bootstrap_servers for b in running.brokers.values() if b is not paused)
        until(lambda: partition(others).leader not in (paused.broker_id, -1))
        write(others, b"paused")
        paused.resume()
        until(lambda: len(partition(servers).in_sync_replicas) == 3)
        assert values(servers, 4) == [b"before", b"killed", b"stopped", b"paused"]


@pytest.mark.drawn(6)
def test_second_cluster_goes_on_with_the_data_of_the_first(tmp_path):
    with cluster(1, data_dir=str(tmp_path)) as first:
        with Client(first.bootstrap_servers) as client:
            client.create_topics([NewTopic(TOPIC, 1)])
        write(first.bootstrap_servers, b"kept")
        first.brokers[1].stop()
    with cluster(1, data_dir=str(tmp_path)) as second:
        assert values(second.bootstrap_servers, 1) == [b"kept"]


def test_nothing_outlives_a_test_that_is_killed(tmp_path):
    test = subprocess.Popen([sys.executable, "-c", PAUSED_AND_LEFT], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    with test:
        assert test.stdout.readline() == "paused\n"
        members = psutil.Process(test.pid).children(recursive=True)
        assert len(members) == 4, "ZooKeeper, its Java and two brokers"
        test.kill()
    until(lambda: not [member for member in members if runs(member)])


def runs(process: psutil.Process) -> bool:
    """A process whose parent was killed is the first process's, which may be slow to bury it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_broker_that_does_not_start_is_named_with_what_it_said():
    with (
        pytest.raises(MemberError, match=r"^broker 1 did not start: Invalid value 0 for configuration num\.partitions"),
        cluster(1, num_partitions=0),
    ):
        pass
    assert not [child for child in psutil.Process().children() if is_member(child)]


def is_member(process: psutil.Process) -> bool:
    """One that has ended meanwhile is none."""
    try:
        return "oncelog.cli.member" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_setting_that_each_broker_has_its_own_of_is_refused():
    with pytest.raises(ValueError, match=r"^broker\.id differs from broker to broker"), cluster(2, broker_id=7):
        pass

"""A broker that was alone becomes the first one of a cluster, with its clients in the middle of what they do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from harness.cluster import Cluster
from harness.kafka_tools import KafkaTools, ToolProcess
from harness.oncelog_cluster import OncelogMember
from harness.oncelog_process import OncelogNode
from harness.waiting import until
from oncelog.client import Client, NewTopic, OffsetAndMetadata, Producer
from oncelog.client import TopicPartition as Place
from tests.cluster.processes.load import TransactionalProducer, read_all
from tests.cluster.processes.replicas import partitions, wait_until_equal, wait_until_in_sync

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm, pytest.mark.drawn(3)]

TOPIC, GROUP = "ledger", "readers"
PARTITIONS = 3
FEW = {"offsets_topic_num_partitions": "3", "transaction_state_log_num_partitions": "3"}


@pytest.mark.timeout(300)
def test_first_broker_has_all_and_hands_it_to_the_second(tool_process: ToolProcess, tmp_path: Path) -> None:
    """Broker 1 was alone. Broker 0, which is new, takes all that it has, and broker 1 leaves."""
    alone = OncelogNode(tmp_path / "alone", node_id="1", **FEW)
    alone.start()
    there = alone.bootstrap_servers
    with Client(there) as client:
        client.create_topics([NewTopic(TOPIC, PARTITIONS)])
    ours, theirs = Producer(there, transactional_id="ours"), TransactionalProducer(there, "theirs")
    ours.init_transactions()
    theirs.init()
    for number in range(2):
        ours.begin_transaction()
        theirs.begin()
        for index in range(PARTITIONS):
            ours.send(TOPIC, b"ours %d" % number, partition=index)
            theirs.send(TOPIC, index, "key", f"theirs {number}")
        ours.send_offsets_to_transaction({Place(TOPIC, 0): OffsetAndMetadata(7 + number)}, GROUP)
        ours.flush()
        if number == 0:
            ours.commit_transaction()
            theirs.commit()
    until(lambda: read_all(there, TOPIC, PARTITIONS, "read_uncommitted").total() == 4 * PARTITIONS)
    alone.stop()

    cluster = Cluster(tmp_path / "cluster", [OncelogMember])
    assert cluster.zookeeper is not None
    try:
        cluster.zookeeper.start()
        own = ["--set", f"zookeeper.connect={cluster.zookeeper_connect}", "--set", "broker.id=1"]
        command = [OncelogNode.program(), "cluster", "convert", "--data-dir", str(alone.data_directory), *own]
        for what in ("is now", "was already"):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            assert f"{what} the data directory of broker 1 in cluster" in done.stdout
            assert "topics: 3, partitions: 9" in done.stdout
        first = cluster.add(1, OncelogMember, log_dirs=str(alone.data_directory))
        first.port = alone.port
        first.start()

        ours.commit_transaction()
        theirs.commit()
        everything = {
            (TOPIC, index, f"{who} {number}")
            for who in ("ours", "theirs")
            for number in range(2)
            for index in range(PARTITIONS)
        }
        until(lambda: read_all(there, TOPIC, PARTITIONS).keys() == everything)
        until(lambda: committed(there) == 8)

        cluster.start()
        wait_until_in_sync(cluster, TOPIC)
        tools = KafkaTools(tool_process, cluster.bootstrap_servers)
        move_all(tools, cluster, 0, tmp_path)
        until(lambda: all(replicas == {0} for _, replicas, _ in partitions(cluster).values()), 60)
        wait_until_in_sync(cluster)
        wait_until_equal(cluster)
        for producer_commits in (True, False):
            ours.begin_transaction()
            ours.send(TOPIC, b"moved %d" % producer_commits, partition=0)
            ours.flush()
            (ours.commit_transaction if producer_commits else ours.abort_transaction)()
        first.stop()
        remaining = cluster.brokers[0].bootstrap_servers
        everything.add((TOPIC, 0, "moved 1"))
        until(lambda: read_all(remaining, TOPIC, PARTITIONS).keys() == everything)
        until(lambda: committed(remaining) == 8)
        ours.close()
        theirs.close()
    finally:
        cluster.kill()
        alone.kill()


def committed(servers: str) -> int | None:
    """What the group has committed of partition 0; None where whoever is to coordinate it has not loaded it yet."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], 30)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return int(found.offset)


def move_all(tools: KafkaTools, cluster: Cluster, broker_id: int, directory: Path) -> None:
    """Have this broker alone keep every partition of the cluster."""
    wanted = directory / "wanted.json"
    placed = [{"topic": topic, "partition": index, "replicas": [broker_id]} for topic, index in partitions(cluster)]
    wanted.write_text(json.dumps({"version": 1, "partitions": placed}))
    ended = tools("kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(wanted))
    assert "Successfully started partition reassignments" in ended.text, ended

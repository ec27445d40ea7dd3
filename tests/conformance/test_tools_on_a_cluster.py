"""Kafka's own tools on three brokers, of which some are away: what is missing, what moves, what is where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.kafka_tools import KafkaTools, ToolProcess
from harness.names import unique
from harness.oncelog_cluster import OncelogCluster
from harness.waiting import until

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.drawn(3, together=True),
    pytest.mark.client("Kafka's tools"),
]
ALL = (0, 1, 2)
QUIET = {"auto.leader.rebalance.enable": "false", "log.cleaner.enable": "false"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OncelogCluster]:
    made = OncelogCluster(tmp_path_factory.mktemp("cluster"), **QUIET)
    made.start()
    yield made
    made.kill()


def make(cluster: OncelogCluster, *replicas: list[int]) -> str:
    topic = unique("t")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=list(replicas))]).values()
    made.result(30)
    return topic


def write(cluster: OncelogCluster, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number + bytes(1000), partition=partition)
    assert producer.flush(60) == 0


def tools_of(cluster: OncelogCluster, process: ToolProcess, without: int = -1) -> KafkaTools:
    """They ask brokers that answer alone."""
    servers = [broker.bootstrap_servers for number, broker in cluster.brokers.items() if number != without]
    return KafkaTools(process, ",".join(servers))


def named(tools: KafkaTools, topics: list[str], which: str) -> list[tuple[int, int]]:
    """The partitions that kafka-topics names where only those are asked for: the place of their topic, and their number."""
    ended = tools("kafka-topics", "--describe", f"--{which}-partitions")
    assert ended.status == 0, ended.text
    fields = [[field.partition(": ")[2] for field in line.strip().split("\t")] for line in ended.lines]
    return sorted((topics.index(topic), int(index)) for topic, index, *_ in fields if topic in topics)


def test_kafka_topics_names_the_partitions_that_lack_replicas_or_a_leader(cluster, tool_process) -> None:
    topics = [make(cluster, [0, 1, 2]), make(cluster, [2]), make(cluster, [0, 1], [1, 2])]
    everybody = tools_of(cluster, tool_process)

    def until_named(tools: KafkaTools, expected: dict[str, list[tuple[int, int]]]) -> None:
        for which, partitions in expected.items():
            until(lambda which=which, partitions=partitions: named(tools, topics, which) == partitions, 60)

    # min.insync.replicas is 2: with one replica, one is enough.
    whole = {"under-replicated": [], "unavailable": [], "under-min-isr": [(1, 0)], "at-min-isr": [(2, 0), (2, 1)]}
    until_named(everybody, whole)
    cluster.brokers[2].kill()
    left = tools_of(cluster, tool_process, without=2)
    until_named(
        left,
        {
            "under-replicated": [(0, 0), (2, 1)],
            "unavailable": [(1, 0)],
            "under-min-isr": [(1, 0), (2, 1)],
            "at-min-isr": [(0, 0), (2, 0)],
        },
    )

    def described() -> list[list[str]]:
        return [
            line.split("\t")[2:6]
            for topic in topics
            for line in left("kafka-topics", "--describe", "--topic", topic).lines[1:]
        ]

    expected = [
        ["Partition: 0", "Leader: 0", "Replicas: 0,1,2", "Isr: 0,1"],
        ["Partition: 0", "Leader: none", "Replicas: 2", "Isr: 2"],
        ["Partition: 0", "Leader: 0", "Replicas: 0,1", "Isr: 0,1"],
        ["Partition: 1", "Leader: 1", "Replicas: 1,2", "Isr: 1"],
    ]
    # Either of the two may be asked, and the other one has said the above.
    until(lambda: described() == expected)
    cluster.brokers[2].start()
    until_named(everybody, whole)


def test_kafka_log_dirs_has_the_replicas_of_every_broker_and_how_far_they_are_behind(cluster, tool_process) -> None:
    topic = make(cluster, [1, 2], [0, 1])
    write(cluster, topic, 0, 100)
    tools = tools_of(cluster, tool_process)

    def replicas(*brokers: str) -> dict[int, dict[str, tuple[int, int, bool]]]:
        ended = tools("kafka-log-dirs", "--describe", "--topic-list", topic, *brokers)
        assert ended.status == 0, ended.text
        return {
            broker["broker"]: {
                item["partition"]: (item["size"], item["offsetLag"], item["isFuture"])
                for directory in broker["logDirs"]
                for item in directory["partitions"]
            }
            for broker in json.loads(ended.lines[-1])["brokers"]
        }

    def has_caught_up() -> bool:
        (led, lag, _), *others = (replicas()[broker][f"{topic}-0"] for broker in (1, 2))
        return lag == 0 and others == [(led, 0, False)]

    until(has_caught_up)
    whole, empty = replicas()[1][f"{topic}-0"], (0, 0, False)
    assert whole[0] > 100_000
    expected = {
        0: {f"{topic}-1": empty},
        1: {f"{topic}-0": whole, f"{topic}-1": empty},
        2: {f"{topic}-0": whole},
    }
    # Nothing is written to the other partition, and its replicas may be made later.
    until(lambda: replicas() == expected)
    assert replicas("--broker-list", "1") == {1: expected[1]}


def test_reassignment_that_waits_for_a_broker_is_listed_and_can_be_cancelled(
    cluster: OncelogCluster, tool_process: ToolProcess, tmp_path: Path
) -> None:
    slow = next(number for number, broker in cluster.brokers.items() if broker is not cluster.controller)
    stays, leaves = (number for number in ALL if number != slow)
    topic = make(cluster, [stays, leaves])
    write(cluster, topic, 0, 10)
    tools = tools_of(cluster, tool_process, without=slow)
    plan = tmp_path / "plan.json"
    wanted = [{"topic": topic, "partition": 0, "replicas": [stays, slow]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    where = ("--reassignment-json-file", str(plan))
    cluster.brokers[slow].suspend()
    try:
        begun = tools("kafka-reassign-partitions", *where, "--execute")
        assert f"Successfully started partition reassignment for {topic}-0" in begun.text
        listed = tools("kafka-reassign-partitions", "--list")
        assert f"{topic}-0: replicas: " in listed.text
        assert f"adding: {slow}. removing: {leaves}." in listed.text
        # Throttles are settings of brokers, and the tool would ask each of them.
        preserved = (*where, "--preserve-throttles")
        verified = tools("kafka-reassign-partitions", *preserved, "--verify")
        assert f"Reassignment of partition {topic}-0 is still in progress." in verified.text
        cancelled = tools("kafka-reassign-partitions", *preserved, "--cancel")
        assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled.text
    finally:
        cluster.brokers[slow].resume()
    assert tools("kafka-reassign-partitions", "--list").lines[-1] == "No partition reassignments found."
    describe = ("kafka-topics", "--describe", "--topic", topic)
    expected = f"Leader: {stays}\tReplicas: {stays},{leaves}\tIsr: {stays},{leaves}"
    until(lambda: expected in tools_of(cluster, tool_process)(*describe).text, 60)
    left = cluster.brokers[slow].data_directory
    until(lambda: not (left / f"{topic}-0").exists(), 60)
    write(cluster, topic, 0, 10)

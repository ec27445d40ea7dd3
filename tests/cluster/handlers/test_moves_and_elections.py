"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments on a cluster of real brokers, with Kafka's own tools."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from harness.kafka_tools import KafkaTools, ToolProcess
from harness.names import unique
from harness.oncelog_cluster import OncelogCluster
from harness.waiting import until
from harness.wire import Connection

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]
QUIET = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, new_chroot):
    cluster = OncelogCluster(tmp_path_factory.mktemp("cluster"), zookeeper_connect=new_chroot(), **QUIET)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def tools(cluster):
    process = ToolProcess()
    yield KafkaTools(process, cluster.bootstrap_servers)
    process.close()


@pytest.fixture
def topic() -> str:
    return unique("t")


def make(cluster, name: str, *replicas: list[int]) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(name, len(replicas), replica_assignment=list(replicas))]).values()
    made.result(30)
    return admin


def wait_for(admin: AdminClient, name: str, *, replicas=None, leader=None, isr=None) -> None:
    def is_so() -> bool:
        # Any broker is asked, and one may not have heard of the topic yet. One that was killed never answers.
        try:
            found = admin.list_topics(name, timeout=5).topics[name].partitions.get(0)
        except KafkaException:
            return False
        return found is not None and (
            (replicas is None or found.replicas == replicas)
            and (leader is None or found.leader == leader)
            and (isr is None or sorted(found.isrs) == isr)
        )

    until(is_so, 60)


def write(cluster, name: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def read(cluster, name: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition(name, 0, 0)])
    records = consumer.consume(count, timeout=30)
    consumer.close()
    return [record.value() for record in records]


def plan(path: Path, *partitions: tuple[str, int, list[int]]) -> str:
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": topic, "partition": index, "replicas": replicas} for topic, index, replicas in partitions
                ],
            }
        )
    )
    return str(path)


def test_partition_moves_to_other_brokers_with_all_it_has(cluster, tools, topic, tmp_path):
    admin = make(cluster, topic, [0, 1])
    write(cluster, topic, 100)
    file = plan(tmp_path / "plan.json", (topic, 0, [2, 1]))
    begun = tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute")
    assert begun.status == 0, begun.text
    assert f"Successfully started partition reassignment for {topic}-0" in begun.text
    wait_for(admin, topic, replicas=[2, 1], leader=2, isr=[1, 2])
    verified = tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified.text
    assert tools("kafka-reassign-partitions", "--list").lines[-1] == "No partition reassignments found."
    assert read(cluster, topic, 100) == [b"%d" % number for number in range(100)]


def test_preferred_replica_leads_again_when_its_broker_is_back(cluster, tools, topic):
    admin = make(cluster, topic, [2, 1])
    cluster.brokers[2].stop()
    wait_for(admin, topic, leader=1)
    cluster.start()
    wait_for(admin, topic, isr=[1, 2])
    asked = ("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    elected = tools(*asked)
    assert elected.status == 0, elected.text
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected.text
    # Who has ordered it has heard of it; who is asked here may hear of it later.
    wait_for(admin, topic, leader=2)
    again = tools(*asked)
    assert f"Valid replica already elected for partitions {topic}-0" in again.text


@pytest.mark.drawn(6)
def test_unclean_election_is_held_whatever_the_topic_allows(cluster, tools, topic):
    """KIP-460: "an unclean leader election … even if unclean.leader.election.enable is false"."""
    admin = make(cluster, topic, [2, 1])
    asked = ("kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "0")
    # 1 falls out of sync, and then nobody who is in sync is alive.
    cluster.brokers[1].kill()
    wait_for(admin, topic, isr=[2])
    cluster.brokers[2].kill()
    wait_for(admin, topic, leader=-1)
    cluster.brokers[1].start()
    # It may be asked itself, before it has been told of the topic.
    wait_for(admin, topic, leader=-1)
    elected = tools(*asked)
    assert elected.status == 0, elected.text
    wait_for(admin, topic, leader=1, isr=[1])
    cluster.start()
    wait_for(admin, topic, leader=1, isr=[1, 2])


def test_broker_that_is_not_the_controller_refuses_all_three(cluster, topic):
    other = next(broker for broker in cluster.brokers.values() if broker is not cluster.controller)
    with closing(Connection(other.bootstrap_servers)) as connection:
        asked = ({"topic": topic, "partitions": (0,)},)
        elected = connection.ask("elect_leaders", 2, election_type=0, topic_partitions=asked)
        assert elected.error_code is ErrorCode.none
        ((result,),) = [one.partition_result for one in elected.replica_election_results]
        assert (result.error_code, result.error_message) == (ErrorCode.not_controller, None)
        text = "This is not the correct controller for this cluster."
        moved = connection.ask("alter_partition_reassignments", 0, topics=())
        assert (moved.error_code, moved.error_message) == (ErrorCode.not_controller, text)
        listed = connection.ask("list_partition_reassignments", 0, topics=None)
        assert (listed.error_code, listed.error_message) == (ErrorCode.not_controller, text)

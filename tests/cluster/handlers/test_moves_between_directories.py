"""AlterReplicaLogDirs in a cluster of brokers of both kinds, with Kafka's own tools: ours do what Apache Kafka 3.9's do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import Cluster
from harness.kafka_tools import KafkaTools, ToolProcess
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker
from harness.names import unique
from harness.oncelog_cluster import OncelogMember
from harness.waiting import until
from harness.wire import Connection

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(3, together=True)]
OURS, KAFKAS, OURS_TOO = range(3)
ALL = (OURS, KAFKAS, OURS_TOO)
RECORDS = 3_000


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    root = tmp_path_factory.mktemp("disks")
    return {number: [str(root / f"{number}-{name}") for name in ("one", "two")] for number in ALL}


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, directories: dict[int, list[str]], new_chroot: Callable[[], str]
) -> Iterator[Cluster]:
    own = {number: {"log.dirs": ",".join(paths)} for number, paths in directories.items()}
    kinds = (OncelogMember, ZooKeeperKafkaBroker, OncelogMember)
    cluster = Cluster(
        tmp_path_factory.mktemp("cluster"),
        kinds,
        own=own,
        zookeeper_connect=new_chroot(),
        log_segment_bytes="1048576",
    )
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture(scope="module")
def tools(cluster: Cluster) -> Iterator[KafkaTools]:
    process = ToolProcess()
    yield KafkaTools(process, cluster.bootstrap_servers)
    process.close()


def make(cluster: Cluster, *replicas: list[int]) -> str:
    topic = unique("moved")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=list(replicas))]).values()
    made.result(30)
    return topic


def write(cluster: Cluster, topic: str, count: int, first: int = 0) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(first, first + count):
        producer.produce(
            topic, b"%d " % number + bytes(1000), partition=0, callback=lambda error, _: errors.append(error)
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not any(errors)


def read(cluster: Cluster, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None
            assert not message.error()
            found.append(int(message.value().split()[0]))
    return found


def placed(tools: KafkaTools, topic: str) -> dict[int, list[tuple[str, bool]]]:
    """By broker: the directories that have the partition, and whether as a future log."""
    described = json.loads(tools("kafka-log-dirs", "--describe", "--topic-list", topic).lines[-1])
    return {
        broker["broker"]: [
            (directory["logDir"], item["isFuture"])
            for directory in broker["logDirs"]
            for item in directory["partitions"]
        ]
        for broker in described["brokers"]
    }


def plan(path: Path, topic: str, directories: dict[int, str]) -> str:
    one = {"topic": topic, "partition": 0, "replicas": list(directories), "log_dirs": list(directories.values())}
    path.write_text(json.dumps({"version": 1, "partitions": [one]}))
    return str(path)


@pytest.mark.drawn(6)
def test_replicas_of_leader_and_followers_move_under_load(
    cluster: Cluster, tools: KafkaTools, directories: dict[int, list[str]], tmp_path: Path
) -> None:
    topic = make(cluster, [OURS, KAFKAS, OURS_TOO])
    write(cluster, topic, RECORDS)
    until(lambda: all(len(found) == 1 for found in placed(tools, topic).values()))
    before = {number: found[0][0] for number, found in placed(tools, topic).items()}
    targets = {number: next(path for path in directories[number] if path != before[number]) for number in ALL}
    file = plan(tmp_path / "plan.json", topic, targets)
    begun = tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute")
    assert begun.status == 0, begun.text
    write(cluster, topic, RECORDS, RECORDS)
    for number, path in targets.items():
        started = f"Successfully started moving log directory to {path} for replica {topic}-0 with broker {number}"
        assert started in begun.text
    until(lambda: placed(tools, topic) == {number: [(path, False)] for number, path in targets.items()}, 60)
    verified = tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--verify")
    for number in ALL:
        assert f"Reassignment of replica {topic}-0-{number} completed successfully." in verified.text
    assert read(cluster, topic, 2 * RECORDS) == list(range(2 * RECORDS))
    wanted = logs(targets[KAFKAS], topic)
    assert sum(map(len, wanted.values())) > 2 * RECORDS * 1000
    for number in (OURS, OURS_TOO):
        until(lambda number=number: logs(targets[number], topic) == wanted)
    assert not [path for number in ALL for path in before_paths(before[number], topic)]


def logs(directory: str, topic: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(directory, f"{topic}-0").glob("*.log")}


def before_paths(directory: str, topic: str) -> list[Path]:
    """What a move leaves of the directory it came from; a deleted one stays for file.delete.delay.ms."""
    return [path for path in Path(directory).glob(f"{topic}-0*") if not path.name.endswith("-delete")]


def test_leader_that_is_killed_while_it_moves_goes_on_after_its_start(
    cluster: Cluster, tools: KafkaTools, directories: dict[int, list[str]], tmp_path: Path
) -> None:
    topic = make(cluster, [OURS, OURS_TOO])
    write(cluster, topic, RECORDS)
    before = placed(tools, topic)[OURS][0][0]
    target = next(path for path in directories[OURS] if path != before)
    other = placed(tools, topic)[OURS_TOO][0][0]
    file = plan(tmp_path / "plan.json", topic, {OURS: target, OURS_TOO: other})
    assert tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute").status == 0
    cluster.brokers[OURS].kill()
    cluster.brokers[OURS].start()
    write(cluster, topic, RECORDS, RECORDS)
    until(lambda: placed(tools, topic)[OURS] == [(target, False)], 60)
    assert read(cluster, topic, 2 * RECORDS) == list(range(2 * RECORDS))
    until(lambda: logs(target, topic) == logs(other, topic))


def test_replica_is_made_in_the_directory_that_was_asked_for(
    cluster: Cluster, tools: KafkaTools, directories: dict[int, list[str]], tmp_path: Path
) -> None:
    for target in directories[OURS_TOO]:
        topic = make(cluster, [OURS, KAFKAS])
        write(cluster, topic, 10)
        kept = {number: placed(tools, topic)[number][0][0] for number in (OURS, KAFKAS)}
        file = plan(tmp_path / "plan.json", topic, kept | {OURS_TOO: target})
        begun = tools("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute")
        assert begun.status == 0, begun.text
        until(lambda topic=topic, target=target: placed(tools, topic).get(OURS_TOO) == [(target, False)])


def test_both_kinds_give_the_same_answers(
    cluster: Cluster, tools: KafkaTools, directories: dict[int, list[str]]
) -> None:
    topic = make(cluster, [OURS], [KAFKAS])
    until(lambda: [len(found) for found in placed(tools, topic).values()] == [1, 1, 0])
    here = {OURS: 0, KAFKAS: 1}

    def answers(number: int) -> list[object]:
        first = directories[number][0]
        asked = [
            (first, topic, here[number]),
            (first, topic, 1 - here[number]),
            (first, topic, 9),
            (first, "unknown", 0),
            ("/nowhere", topic, here[number]),
            ("/nowhere", "unknown", 0),
            ("", topic, here[number]),
        ]
        found = []
        with closing(Connection(cluster.brokers[number].bootstrap_servers)) as connection:
            for path, name, index in asked:
                dirs = [{"path": path, "topics": [{"name": name, "partitions": [index]}]}]
                (result,) = connection.ask("alter_replica_log_dirs", 2, dirs=dirs).results
                found.append(result.partitions[0].error_code.name)
        return found

    until(lambda: answers(OURS)[1] == answers(KAFKAS)[1] == "replica_not_available")
    assert answers(OURS) == answers(KAFKAS)

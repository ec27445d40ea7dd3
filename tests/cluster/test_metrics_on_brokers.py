"""The metrics of real brokers in one cluster: ours over HTTP, and Apache Kafka's over JMX."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness import jars, requirements
from harness.cluster import Cluster
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker
from harness.oncelog_cluster import OncelogMember
from harness.processes import free_port
from harness.waiting import until
from oncelog.cluster.metrics import METRICS

pytestmark = [pytest.mark.jvm, pytest.mark.slow, pytest.mark.drawn(6)]
TOPIC = "t"
OURS, KAFKAS, DEAD = range(3)


class KafkaWithJmx(ZooKeeperKafkaBroker):
    def command(self) -> list[str]:
        self.jmx_port = free_port()
        java, *rest = super().command()
        jmx = {"port": self.jmx_port, "authenticate": "false", "ssl": "false"}
        options = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in jmx.items()]
        return [java, *options, "-Djava.rmi.server.hostname=127.0.0.1", *rest]

    def metrics(self, pattern: str = "kafka.*:*") -> dict[str, str]:
        """By MBean and attribute."""
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self.jmx_port}/jmxrmi"
        options = ("--jmx-url", url, "--one-time", "--report-format", "tsv", "--object-name", pattern)
        command = [
            requirements.java(),
            "-cp",
            jars.classpath_with_zookeeper(),
            "org.apache.kafka.tools.JmxTool",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return dict(line.split("\t", 1) for line in done.stdout.splitlines() if line.count("\t") == 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    own = {OURS: {"prometheus.listener": f"127.0.0.1:{free_port()}"}}
    kinds = (OncelogMember, KafkaWithJmx, OncelogMember)
    made = Cluster(tmp_path, kinds, own=own, replica_lag_time_max_ms="5000")
    made.start()
    yield made
    made.kill()


def ours(cluster: Cluster) -> dict[str, float]:
    where = cluster.brokers[OURS].settings["prometheus.listener"]
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_every_metric_is_one_of_kafkas_and_says_the_same_of_the_same_cluster(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.brokers[OURS].bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=[[OURS, DEAD], [KAFKAS, DEAD]])]).values()
    made.result(30)
    kafka = cluster.brokers[KAFKAS]
    assert isinstance(kafka, KafkaWithJmx)

    def of_replicas() -> tuple[dict[str, float], dict[str, float]]:
        """Ours and Kafka's."""
        prefix = "kafka.server:type=ReplicaManager,name="
        theirs = kafka.metrics(f"{prefix}*")
        found = ours(cluster)
        names = {one.mbean: one.name for one in METRICS if one.mbean.startswith(prefix) and one.kind == "gauge"}
        return (
            {mbean: found[name] for mbean, name in names.items()},
            {mbean: float(theirs[f"{mbean}:Value"]) for mbean in names},
        )

    def counts_one_each(name: str) -> bool:
        mbean = f"kafka.server:type=ReplicaManager,name={name}"
        return [found[mbean] for found in of_replicas()] == [1, 1]

    write(cluster)
    known = {name.rpartition(":")[0] for name in kafka.metrics()}
    for metric in METRICS:
        pattern = re.escape(metric.mbean).replace(r"\*", "[^,]+")
        assert any(re.fullmatch(pattern, name) for name in known) or "*" in metric.mbean, metric.mbean
    mine, theirs = of_replicas()
    assert mine == theirs
    assert counts_one_each("LeaderCount")
    cluster.brokers[DEAD].kill()
    until(lambda: counts_one_each("UnderReplicatedPartitions"), 60)
    assert counts_one_each("UnderMinIsrPartitionCount")
    mine, theirs = of_replicas()
    assert mine == theirs
    cluster.brokers[DEAD].start()
    under_replicated = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"
    until(lambda: not any(found[under_replicated] for found in of_replicas()), 60)
    mine, theirs = of_replicas()
    assert mine == theirs
    active = float(kafka.metrics("kafka.controller:type=KafkaController,name=ActiveControllerCount").popitem()[1])
    assert active + ours(cluster)["kafka_controller_kafkacontroller_activecontrollercount"] in (0, 1)


def write(cluster: Cluster) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for index in (0, 1):
        producer.produce(TOPIC, b"a", partition=index, callback=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None, None]

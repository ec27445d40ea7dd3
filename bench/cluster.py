"""Three brokers over ZooKeeper on one machine: what replication costs, and how much goes through.

python -m bench.cluster
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.java_clients import produce
from bench.measure import Measure, Side, at_least_times_peer, at_most, at_most_times_peer
from bench.nodes import JVM_SETTINGS, PARTITIONS
from bench.program import Effort, Program, main
from bench.transactions import RAMP_UP_MS, ConcurrentLoad, percentile
from bench.usage import cpu_seconds, resident_bytes
from harness.cluster import Cluster, ClusterMember
from harness.kafka_with_zookeeper import ZooKeeperKafkaBroker
from harness.oncelog_cluster import OncelogMember

KAFKA = "Apache Kafka 3.9.1"
BROKERS = 3
RECORDS, RECORD_BYTES = 400_000, 1000
PRODUCERS = 10
CONCURRENT_MS = 10_000
MB = 1_000_000

START = "from nothing to three brokers that know one another"
PRODUCE, PRODUCE_CPU = "produce 1 KB, acks=all, 3 replicas", "produce, the three brokers"
TRANSACTIONS, P50, P99, EACH = (f"{PRODUCERS} producers{what}" for what in ("", ", p50", ", p99", ", brokers"))
MEMORY = "resident memory of a broker after it"


class WarmKafkaBroker(ZooKeeperKafkaBroker):
    """A broker that may optimise itself as long as it runs."""

    def command(self) -> list[str]:
        java, *options = super().command()
        logging = [option for option in options if option.startswith("-Dlog4j")]
        return [java, *JVM_SETTINGS, *logging, *options[options.index("-cp") :]]


class ClusterProgram(Program):
    name = "cluster"
    title = "A cluster of three brokers and ZooKeeper on one machine"
    peer = KAFKA
    measures = (
        Measure(START, "s", at_most(5)),
        Measure(PRODUCE, "MB/s", at_least_times_peer(1.5)),
        Measure(PRODUCE_CPU, "CPU s per GB", at_most_times_peer(0.5)),
        Measure(TRANSACTIONS, "transactions/s", at_least_times_peer(3)),
        Measure(P50, "ms"),
        Measure(P99, "ms", at_most_times_peer(0.3)),
        Measure(EACH, "CPU ms each"),
        Measure(MEMORY, "MB"),
    )
    notes = (
        "min.insync.replicas is 2. oncelog answers a commit when it is on the leader's disk (fsync) and on every replica in sync;",
        "Apache Kafka when it is in the page caches of the replicas in sync.",
    )
    has_warm_up = True

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        super().__init__(effort, scratch, resources)
        self._clusters: dict[Side, Cluster] = {}
        self._started_in_s: dict[Side, float] = {}
        self._topic_number = 0

    def open(self, side: Side) -> None:
        kind: type[ClusterMember] = OncelogMember if side is Side.OURS else WarmKafkaBroker
        cluster = Cluster(self.scratch / side.value, (kind,) * BROKERS)
        began = time.perf_counter()
        cluster.start()
        self._started_in_s[side] = time.perf_counter() - began
        self.resources.callback(cluster.kill)
        self._clusters[side] = cluster

    def run(self, side: Side) -> Mapping[str, float]:
        cluster = self._clusters[side]
        topic = self._create(cluster)
        records = self.effort.amount(RECORDS)
        cpu_before = _cpu_seconds(cluster)
        done = produce(cluster.bootstrap_servers, topic, records=records, record_bytes=RECORD_BYTES)
        cpu_s = _cpu_seconds(cluster) - cpu_before
        return {
            START: self._started_in_s[side],
            PRODUCE: done.records_per_second * RECORD_BYTES / MB,
            PRODUCE_CPU: cpu_s / (records * RECORD_BYTES / MB / 1000),
            **self._transactions(cluster, topic),
            MEMORY: max(resident_bytes(one.pid) for one in cluster.brokers.values()) / MB,
        }

    def _create(self, cluster: Cluster) -> str:
        self._topic_number += 1
        name = f"bench-{self._topic_number}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(name, PARTITIONS, BROKERS)])[name].result(30)
        return name

    def _transactions(self, cluster: Cluster, topic: str) -> dict[str, float]:
        load = ConcurrentLoad(cluster.bootstrap_servers, topic, PRODUCERS)
        duration_s = self.effort.amount(CONCURRENT_MS) / 1000
        time.sleep(self.effort.amount(RAMP_UP_MS) / 1000)
        load.count()
        cpu_before = _cpu_seconds(cluster)
        time.sleep(duration_s)
        cpu_s = _cpu_seconds(cluster) - cpu_before
        durations_ms = load.stop()
        return {
            TRANSACTIONS: len(durations_ms) / duration_s,
            P50: percentile(durations_ms, 0.5),
            P99: percentile(durations_ms, 0.99),
            EACH: cpu_s * 1000 / len(durations_ms),
        }


def _cpu_seconds(cluster: Cluster) -> float:
    return sum(cpu_seconds(one.pid) for one in cluster.brokers.values())


if __name__ == "__main__":
    main([ClusterProgram])

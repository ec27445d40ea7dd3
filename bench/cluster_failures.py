"""What it costs a cluster of three that a broker goes: until others lead, until it is back, and what producers notice.

python -m bench.cluster_failures
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from bench.cluster import BROKERS, KAFKA, MB, WarmKafkaBroker
from bench.java_clients import produce
from bench.measure import Measure, Side, at_least_times_peer, at_most, at_most_times_peer
from bench.program import Effort, Program, main
from bench.usage import resident_bytes
from harness.cluster import Cluster, ClusterMember
from harness.oncelog_cluster import OncelogMember
from harness.waiting import until
from harness.wire import Connection

MANY = 1000
AWAY_RECORDS, RECORD_BYTES = 1_000_000, 1000
SETTLE_SECONDS, PATIENCE_SECONDS = 5.0, 180.0
LOAD_SECONDS = 10.0
RECORD_SECONDS = 0.005

MEMORY = f"resident memory of a broker with {MANY} idle replicas"
LEADER_KILLED = f"leader of {MANY} partitions killed: from the end of its session until all are led"
LEADER_AGAINST_PEER = "the same, against the peer"
CONTROLLER_KILLED = f"controller killed, which leads {MANY}: from the end of its session until all are led"
RESTART = "planned restart: longest time from send to acknowledgement"
CAUGHT_UP = "a follower that was away for 1 GB, under load: what it fetches"


class ClusterFailuresProgram(Program):
    name = "cluster_failures"
    title = "A broker of three goes"
    peer = KAFKA
    measures = (
        Measure(MEMORY, "MB", at_most(80)),
        Measure(LEADER_KILLED, "s", at_most(0.5)),
        Measure(LEADER_AGAINST_PEER, "s", at_most_times_peer(1.0)),
        Measure(CONTROLLER_KILLED, "s", at_most(0.5)),
        Measure(RESTART, "ms", at_most(200)),
        Measure(CAUGHT_UP, "MB/s", at_least_times_peer(0.8)),
    )
    notes = (
        "Partitions are led when every broker that is alive names a leader of each that is alive.",
        "The producer of the planned restart is librdkafka's, with acks=all and linger.ms=0, one record every 5 ms.",
    )

    def __init__(self, effort: Effort, scratch: Path, resources: ExitStack) -> None:
        super().__init__(effort, scratch, resources)
        self._runs = 0

    def open(self, side: Side) -> None:
        """Each run has a cluster of its own."""
        self._kind(side).zookeeper_classpath()

    def run(self, side: Side) -> Mapping[str, float]:
        self._runs += 1
        cluster = Cluster(self.scratch / f"{side.value}-{self._runs}", (self._kind(side),) * BROKERS)
        with ExitStack() as resources:
            resources.callback(cluster.kill)
            cluster.start()
            observed = Observed(cluster)
            resources.callback(observed.close)
            return self._measured(observed)

    def _measured(self, observed: Observed) -> Mapping[str, float]:
        cluster = observed.cluster
        controller = cluster.controller.broker_id
        leader, third = (one for one in cluster.brokers if one != controller)
        observed.create("many", [[leader, controller, third]] * self.effort.amount(MANY))
        time.sleep(SETTLE_SECONDS)
        memory = max(resident_bytes(one.pid) for one in cluster.brokers.values()) / MB
        leader_s = observed.led_again_s("many", leader)
        observed.back("many", leader)
        # The second of the replicas led next, and that is the controller.
        controller_s = observed.led_again_s("many", controller)
        observed.back("many", controller)
        observed.create(
            "load", [[one, *(other for other in cluster.brokers if other != one)] for one in cluster.brokers]
        )
        restart_ms = self._restart_ms(observed, leader)
        return {
            MEMORY: memory,
            LEADER_KILLED: leader_s,
            LEADER_AGAINST_PEER: leader_s,
            CONTROLLER_KILLED: controller_s,
            RESTART: restart_ms,
            CAUGHT_UP: self._caught_up(observed, leader),
        }

    def _restart_ms(self, observed: Observed, broker_id: int) -> float:
        broker = observed.cluster.brokers[broker_id]
        with SteadyLoad(observed.cluster.bootstrap_servers, "load", BROKERS) as load:
            time.sleep(2.0)
            load.count()
            broker.stop()
            broker.start()
            observed.until_in_sync("load")
            time.sleep(self.effort.amount(int(LOAD_SECONDS * 1000)) / 1000)
        return load.longest_ms

    def _caught_up(self, observed: Observed, broker_id: int) -> float:
        broker, records = observed.cluster.brokers[broker_id], self.effort.amount(AWAY_RECORDS)
        others = ",".join(one.bootstrap_servers for one in observed.cluster.brokers.values() if one is not broker)
        broker.stop()
        produce(others, "load", records=records, record_bytes=RECORD_BYTES)
        with SteadyLoad(others, "load", BROKERS):
            broker.launch()
            observed.until_registered(broker_id)
            began = time.monotonic()
            observed.until_in_sync("load", without=broker_id)
            return records * RECORD_BYTES / MB / (time.monotonic() - began)

    @staticmethod
    def _kind(side: Side) -> type[ClusterMember]:
        return OncelogMember if side is Side.OURS else WarmKafkaBroker


class Observed:
    """A cluster, seen through its ZooKeeper and through what each of its brokers says."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._zookeeper = KazooClient(cluster.zookeeper_connect)
        self._zookeeper.start(30)

    def close(self) -> None:
        self._zookeeper.stop()
        self._zookeeper.close()

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        made = admin.create_topics(
            [NewTopic(topic, len(assignment), replica_assignment=assignment)], operation_timeout=60
        )
        made[topic].result(90)
        until(lambda: all(self._is_led(broker, topic) for broker in self.cluster.brokers.values()), PATIENCE_SECONDS)

    def led_again_s(self, topic: str, broker_id: int) -> float:
        """Kill a broker: seconds from the end of its session until others lead all of the topic, as all others say."""
        self.cluster.brokers[broker_id].kill()
        self._until(lambda: self._zookeeper.exists(f"/brokers/ids/{broker_id}") is None)
        ended = time.monotonic()
        for broker in self.cluster.brokers.values():
            if broker.is_running:
                until(lambda broker=broker: self._is_led(broker, topic, without=broker_id), PATIENCE_SECONDS)
        return time.monotonic() - ended

    def back(self, topic: str, broker_id: int) -> None:
        self.cluster.brokers[broker_id].start()
        self.until_in_sync(topic)

    def until_registered(self, broker_id: int) -> None:
        self._until(lambda: self._zookeeper.exists(f"/brokers/ids/{broker_id}") is not None)

    def until_in_sync(self, topic: str, without: int = -1) -> None:
        """As a broker says that is not `without`, which may have to get ready."""
        brokers = self.cluster.brokers.values()
        broker = next(one for one in brokers if one.is_running and one.broker_id != without)
        self._until(lambda: all(len(one.isr_nodes) == BROKERS for one in _partitions(broker, topic)))

    def _is_led(self, broker: ClusterMember, topic: str, without: int = -1) -> bool:
        partitions = _partitions(broker, topic)
        return bool(partitions) and all(one.leader_id not in (-1, without) for one in partitions)

    @staticmethod
    def _until(ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.01)


def _partitions(broker: ClusterMember, topic: str) -> Sequence[object]:
    connection = Connection(broker.bootstrap_servers)
    try:
        answer = connection.ask("metadata", 7, topics=[{"name": topic}], allow_auto_topic_creation=False)
    finally:
        connection.close()
    return answer.topics[0].partitions


class SteadyLoad:
    """Sends a record every 5 ms to each partition of a topic in turn. `longest_ms` is of those sent after `count`."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        self._topic = topic
        self._partitions = partitions
        self._is_counted = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.longest_ms = 0.0

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records were not acknowledged"

    def count(self) -> None:
        self._is_counted.set()

    def _send(self) -> None:
        number = 0
        while not self._is_over.wait(RECORD_SECONDS):
            number += 1
            hear = self._hearer(time.perf_counter())
            self._producer.produce(self._topic, b"x" * 100, partition=number % self._partitions, on_delivery=hear)
            self._producer.poll(0)

    def _hearer(self, sent: float) -> Callable[[KafkaError | None, Message], None]:
        is_counted = self._is_counted.is_set()

        def hear(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            if is_counted:
                self.longest_ms = max(self.longest_ms, (time.perf_counter() - sent) * 1000)

        return hear


if __name__ == "__main__":
    main([ClusterFailuresProgram])

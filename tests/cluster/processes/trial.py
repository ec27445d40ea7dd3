"""A cluster under a load, whose brokers are stopped one after the other, and what has to be so in the end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from enum import Enum

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import Cluster, ClusterMember
from harness.oncelog_cluster import OncelogMember
from harness.oncelog_process import OncelogNode
from harness.waiting import until
from oncelog.coordination.internal_topics import partition_for
from tests.cluster.processes.load import Load
from tests.cluster.processes.replicas import leader, partitions, wait_until_equal, wait_until_in_sync

TOPIC, GROUP = "accounts", "readers"
PARTITIONS = 6
COORDINATOR_PARTITIONS = 5
REASSIGN_SECONDS = 240
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"


class Role(Enum):
    """Whom a trial stops: what a broker is at that moment."""

    LEADER = "leader of a partition"
    TRANSACTION_COORDINATOR = "transaction coordinator"
    GROUP_COORDINATOR = "group coordinator"
    CONTROLLER = "controller"


class Trial:
    """Every broker leads partitions of the topic, and coordinates the transactions of one producer."""

    def __init__(self, cluster: Cluster, seed: int = 1) -> None:
        self.cluster = cluster
        brokers = sorted(cluster.brokers)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        turned = [[brokers[(first + next_) % len(brokers)] for next_ in range(len(brokers))] for first in brokers]
        placed = [turned[index % len(turned)] for index in range(PARTITIONS)]
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, replica_assignment=placed)])[TOPIC].result(30)
        _have_coordinators(cluster)
        wait_until_in_sync(cluster, TOPIC, OFFSETS, TRANSACTIONS)
        self.transactional_ids = [id_coordinated_by(cluster, broker) for broker in brokers]
        self.load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, self.transactional_ids, GROUP, seed)

    def broker(self, role: Role) -> ClusterMember:
        """Who has the role now, once there is somebody."""
        found: list[int] = []

        def is_known() -> bool:
            found[:] = [self._broker_id(role)]
            return found[0] >= 0

        until(is_known)
        return self.cluster.brokers[found[0]]

    def _broker_id(self, role: Role) -> int:
        match role:
            case Role.LEADER:
                return leader(self.cluster, TOPIC, 0)
            case Role.TRANSACTION_COORDINATOR:
                return coordinator_of(self.cluster, TRANSACTIONS, self.transactional_ids[0])
            case Role.GROUP_COORDINATOR:
                return coordinator_of(self.cluster, OFFSETS, GROUP)
            case Role.CONTROLLER:
                known = {broker.known_controller() for broker in self.cluster.brokers.values()}
                return known.pop() if len(known) == 1 else -1

    def kill(self, victim: ClusterMember) -> None:
        """Kill a broker; the others go on without it, and it comes back."""
        victim.kill()
        self.load.goes_on()
        victim.start()
        self.is_whole_again()

    def suspend(self, victim: ClusterMember) -> None:
        """Have a broker do nothing for longer than its session lasts. It goes on as if nothing had been, and is told."""
        others = [broker for broker in self.cluster.brokers.values() if broker is not victim]
        victim.suspend()
        until(lambda: all(victim.broker_id not in broker.known_brokers() for broker in others))
        self.load.writers_go_on()
        victim.resume()
        self.is_whole_again()

    def is_whole_again(self) -> None:
        everyone = frozenset(self.cluster.brokers)
        until(lambda: all(broker.known_brokers() == everyone for broker in self.cluster.brokers.values()))
        wait_until_in_sync(self.cluster)
        self.load.goes_on()

    def run(self, *happenings: Callable[[], None]) -> None:
        """Have these happen under the load; then all that was acknowledged is there once, on every replica."""
        with self.load.running():
            self.load.goes_on()
            for happening in happenings:
                happening()
        assert self.load.problems() == []
        wait_until_equal(self.cluster)
        self.nobody_failed()

    def nobody_failed(self) -> None:
        """Each broker runs still, and none of ours has said that something is wrong with it."""
        for broker in self.cluster.brokers.values():
            assert broker.is_running, broker.tail()
            said = broker.output.read_text(errors="replace") if isinstance(broker, OncelogMember) else ""
            assert "Traceback" not in said, said[said.index("Traceback") :][:4000]


def reassign(cluster: Cluster, brokers: tuple[int, ...]) -> None:
    """Have these brokers alone keep every partition of the cluster, those of the coordinators too."""
    numbers = ",".join(map(str, brokers))
    there = ["--bootstrap-server", cluster.bootstrap_servers]
    command = [OncelogNode.program(), "cluster", "reassign", "--brokers", numbers, *there]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REASSIGN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    topics = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    assert topics == {TOPIC, OFFSETS, TRANSACTIONS}


def coordinator_of(cluster: Cluster, topic: str, name: str) -> int:
    return leader(cluster, topic, partition_for(name, COORDINATOR_PARTITIONS))


def id_coordinated_by(cluster: Cluster, broker_id: int) -> str:
    """A transactional id that this broker coordinates now."""
    led = {
        index
        for (topic, index), (one, _, _) in partitions(cluster).items()
        if (topic, one) == (TRANSACTIONS, broker_id)
    }
    assert led, f"broker {broker_id} coordinates no transactions"
    names = (f"teller-{number}" for number in range(1000))
    return next(name for name in names if partition_for(name, COORDINATOR_PARTITIONS) in led)


def _have_coordinators(cluster: Cluster) -> None:
    """The coordinators' topics are made when somebody asks for a coordinator."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "first", "log_level": 0})
    producer.init_transactions(60)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "log_level": 0})

    def is_coordinated() -> bool:
        try:
            consumer.committed([TopicPartition(TOPIC, 0)], 30)
        except KafkaException:
            # Whoever is to coordinate it has not been told of it yet.
            return False
        return True

    until(is_coordinated)
    consumer.close()

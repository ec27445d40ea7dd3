"""The coordinator of a transaction goes at each point of its end, and another broker finishes the work.

All that brokers say to each other passes the proxy, too: it is there that the point is found, and what the next coordinator does
is seen. Behind it comes a network that may be cut. The broker that goes leads no partition of the transaction, so that nobody is
missed but the coordinator.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as PlacedTopic

from harness.cluster import CHROOT, ClusterMember
from harness.network import CLIENTS, Network, NetworkCut, both_ways, broker_name, opener_by_client_id
from harness.oncelog_cluster import OncelogCluster
from harness.waiting import until
from oncelog.client import Client, IsolationLevel, OffsetSpec, Producer, TopicPartition, TransactionVersion
from oncelog.client.producer import transaction
from oncelog.coordination.internal_topics import partition_for
from oncelog.records import ControlType, batches, read_control
from oncelog.testing.proxy import ApiKey, Frame, Proxy, Rule, Then
from tests.cluster.processes.conftest import NOT_CLEANED
from tests.cluster.processes.load import read_all
from tests.cluster.processes.replicas import log_bytes, wait_until_equal, wait_until_in_sync
from tests.cluster.processes.trial import TRANSACTIONS

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.jvm]

TOPIC, TELLER, ZOOKEEPER = "accounts", "teller", "zookeeper"
PARTITIONS = [TopicPartition(TOPIC, index) for index in (0, 1)]
REQUEST_MS, CALL_MS = 3_000, 90_000
PAUSED_SECONDS = 30.0


class Moment(Enum):
    """How far the end of the transaction has come when its coordinator goes."""

    BEFORE_PREPARE = "EndTxn is on its way to the coordinator"
    AFTER_PREPARE = "the decision is written, and a marker is on its way to another broker"
    MARKED = "a marker is written, and the coordinator does not hear of it"
    AFTER_COMPLETE = "all is done, and the producer does not hear of it"


class Way(Enum):
    KILLED = "kill -9"
    PAUSED = "it stands still for 30 s"
    CUT_OFF = "nothing comes to it and nothing from it"
    APART = "the other brokers and ZooKeeper are out of its reach, and clients are not"


class WatchedCluster:
    """Three brokers that reach each other by way of the proxy and the network alone, as clients do.

    The coordinator of the transactional id leads no partition of the topic.
    """

    def __init__(self, directory: Path) -> None:
        self.cluster = OncelogCluster(directory, auto_leader_rebalance_enable="false", **NOT_CLEANED)
        self.network = Network()
        self.proxy = Proxy(",".join(map(self._entrance, self.cluster.brokers.values())))
        self.bootstrap_servers = self.proxy.bootstrap_servers
        self.markers_by: list[str] = []
        """The client ids of the brokers that have sent markers, in that order."""
        assert self.cluster.zookeeper is not None
        (zookeeper,) = self.cluster.zookeeper.servers
        for broker, address in zip(self.cluster.brokers.values(), self.bootstrap_servers.split(","), strict=True):
            broker.configure(**{"advertised.listeners": f"PLAINTEXT://{address}"})
            port = self.network.entrance(ZOOKEEPER, zookeeper.port, broker_name(broker.broker_id))
            broker.zookeeper_connect = f"127.0.0.1:{port}{CHROOT}"

    def _entrance(self, broker: ClusterMember) -> str:
        port = self.network.entrance(broker_name(broker.broker_id), broker.port, opener_by_client_id)
        return f"127.0.0.1:{port}"

    def start(self) -> None:
        self.cluster.start()
        with self.producer() as producer:
            producer.init_transactions()
        wait_until_in_sync(self.cluster, TRANSACTIONS)
        coordinator = self.coordinator_id()
        one, other = (number for number in self.cluster.brokers if number != coordinator)
        placed = [[one, other, coordinator], [other, one, coordinator]]
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([PlacedTopic(TOPIC, 2, replica_assignment=placed)])[TOPIC].result(30)
        wait_until_in_sync(self.cluster, TOPIC)
        self.proxy.at_request(ApiKey.WRITE_TXN_MARKERS, where=self._note)

    def _note(self, frame: Frame) -> bool:
        self.markers_by.append(frame.client_id)
        return False

    def close(self) -> None:
        self.cluster.kill()
        self.proxy.close()
        self.network.close()

    def others(self, victim: ClusterMember | None) -> str:
        """Where to ask what the cluster knows: at the brokers that are not away."""
        return ",".join(one.bootstrap_servers for one in self.cluster.brokers.values() if one is not victim)

    def coordinator_id(self, without: ClusterMember | None = None) -> int:
        with Client(self.others(without), request_timeout_ms=REQUEST_MS) as client:
            found = client.metadata([TRANSACTIONS])[TRANSACTIONS].partitions
        home = partition_for(TELLER, len(found))
        return next(one.leader for one in found if one.partition == home)

    def producer(self) -> Producer:
        return Producer(
            self.bootstrap_servers,
            transactional_id=TELLER,
            request_timeout_ms=REQUEST_MS,
            call_timeout_ms=CALL_MS,
            linger_ms=0,
        )

    def state(self) -> str:
        with Client(self.bootstrap_servers, request_timeout_ms=REQUEST_MS) as client:
            return client.describe_transactions([TELLER])[TELLER].state

    def is_decided(self, without: ClusterMember | None = None) -> bool:
        """Readers of committed records come to the end."""
        latest = dict.fromkeys(PARTITIONS, OffsetSpec.LATEST)
        with Client(self.others(without), request_timeout_ms=REQUEST_MS) as client:
            committed, everything = (
                {one: found.offset for one, found in client.list_offsets(latest, isolation_level=level).items()}
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
        return committed == everything

    def markers(self, index: int) -> list[ControlType]:
        """As they are in the log of a partition, which is the same on every broker."""
        data = log_bytes(self.cluster.brokers[0].log_directories, TOPIC, index)
        found = [read_control(data, position) for position, header in batches(data) if header.is_control]
        return [one.control for one in found if one is not None]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedCluster]:
    made = WatchedCluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(params=list(TransactionVersion), ids=lambda version: version.name)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TransactionVersion:
    """A cluster over ZooKeeper has no feature that says so, and serves both."""

    async def chosen(_cluster: object) -> TransactionVersion:
        return request.param

    monkeypatch.setattr(transaction, "transaction_version", chosen)
    return request.param


class Strike:
    """What befalls the coordinator, once. `victim` is the broker that is away then."""

    def __init__(self, watched: WatchedCluster, way: Way) -> None:
        self.victim = watched.cluster.brokers[watched.coordinator_id()]
        self.markers_before = 0
        self._watched, self._way = watched, way
        self._began = 0.0
        self._cuts: list[NetworkCut] = []

    def at(self, moment: Moment) -> Rule:
        proxy = self._watched.proxy
        match moment:
            case Moment.BEFORE_PREPARE:
                # A broker that stands still reads it when it goes on.
                return proxy.at_request(ApiKey.END_TXN, call=self._strike)
            case Moment.AFTER_PREPARE:
                return proxy.at_request(ApiKey.WRITE_TXN_MARKERS, call=self._strike, then=Then.CUT)
            case Moment.MARKED:
                return proxy.at_answer(ApiKey.WRITE_TXN_MARKERS, call=self._strike, then=Then.CUT)
            case Moment.AFTER_COMPLETE:
                return proxy.at_answer(ApiKey.END_TXN, call=self._strike_when_complete, then=Then.CUT)

    def _strike_when_complete(self) -> None:
        until(lambda: self._watched.state().startswith("Complete"))
        self._strike()

    def _strike(self) -> None:
        self._began = time.monotonic()
        match self._way:
            case Way.KILLED:
                self.victim.kill()
            case Way.PAUSED:
                self.victim.suspend()
            case Way.CUT_OFF:
                self._cut([*self._peers(), CLIENTS])
            case Way.APART:
                self._cut(self._peers())
        self.markers_before = len(self._watched.markers_by)

    def _peers(self) -> list[str]:
        return [broker_name(one) for one in self._watched.cluster.brokers if one != self.victim.broker_id] + [ZOOKEEPER]

    def _cut(self, off: list[str]) -> None:
        self._cuts.append(self._watched.network.cut(both_ways([broker_name(self.victim.broker_id)], off)))

    def end(self) -> None:
        """The broker is back: started again, awake after its time, or within reach."""
        match self._way:
            case Way.KILLED:
                self.victim.start()
            case Way.PAUSED:
                time.sleep(max(0.0, PAUSED_SECONDS - (time.monotonic() - self._began)))
                self.victim.resume()
            case Way.CUT_OFF | Way.APART:
                self._watched.network.mend(self._cuts.pop())


@pytest.mark.drawn(32)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
def test_transaction_ends_as_it_was_decided_whoever_coordinates_it_then(
    watched: WatchedCluster, protocol: TransactionVersion, moment: Moment, way: Way, is_commit: bool
) -> None:
    strike = Strike(watched, way)
    with watched.producer() as producer:
        producer.init_transactions()
        write(producer, "first")
        rule = strike.at(moment)
        end = producer.commit_transaction if is_commit else producer.abort_transaction
        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        assert rule.fired.wait(30)
        ending.join(CALL_MS / 1000)
        assert not ending.is_alive(), "the producer does not hear how its transaction has ended"
        until(lambda: watched.coordinator_id(strike.victim) not in (strike.victim.broker_id, -1), 60)
        if moment is not Moment.AFTER_COMPLETE:
            successor = f"broker-{watched.coordinator_id(strike.victim)}-txn-marker-sender"
            until(lambda: successor in watched.markers_by[strike.markers_before :])
        until(lambda: watched.is_decided(strike.victim), 60)
        expected = values("first") if is_commit else Counter()
        assert read_all(watched.others(strike.victim), TOPIC, 2) == expected
        strike.end()
        write(producer, "second")
        producer.commit_transaction()
        expected += values("second")
        wait_until_equal(watched.cluster)
        until(watched.is_decided, 60)
        assert read_all(watched.bootstrap_servers, TOPIC, 2) == expected
    control = ControlType.COMMIT if is_commit else ControlType.ABORT
    found = [watched.markers(index) for index in (0, 1)]
    for markers in found:
        *of_first, of_second = markers
        assert set(of_first) == {control}
        assert of_second is ControlType.COMMIT
    if moment is Moment.MARKED:
        assert max(map(len, found)) > 2, "the marker that nobody heard of was written again"


def write(producer: Producer, name: str) -> None:
    producer.begin_transaction()
    for index in (0, 1):
        producer.send(TOPIC, name.encode(), partition=index)
    producer.flush()


def values(name: str) -> Counter:
    return Counter((TOPIC, index, name) for index in (0, 1))

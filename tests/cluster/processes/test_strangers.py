"""What brokers say to each other, said by a client that reaches no more than clients do: on a cluster of this machine."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kazoo.client import KazooClient

from harness.asking import ask, ask_on
from harness.cluster import Cluster, ClusterMember
from harness.cluster_messages import fetch_request, fetched, led, live_broker, stopped
from harness.secured_cluster import INTERNAL, PASSWORD, USER, BetweenBrokers, login_module
from harness.wire import Connection
from oncelog.client import Client, NewTopic, Producer
from oncelog.cluster.controller.requests import leader_and_isr, stop_replica, update_metadata
from oncelog.testing import RunningCluster, cluster
from oncelog.wire import ErrorCode, message_class, message_module
from tests.cluster.processes.replicas import wait_until_in_sync

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.drawn(3, together=True)]

TOPIC = "payments"
FAR_AHEAD = 2**30
ALICES = "through-the-looking-glass-4c21"
REFUSED = ErrorCode.cluster_authorization_failed


class Attacked:
    """A cluster with a topic on all of its brokers, and what a stranger can know of it."""

    def __init__(self, running: RunningCluster, zookeeper: KazooClient) -> None:
        self.servers = {number: one.bootstrap_servers for number, one in running.brokers.items()}
        self.bootstrap_servers = running.bootstrap_servers
        self._zookeeper = zookeeper
        with Client(self.bootstrap_servers) as client:
            client.create_topics([NewTopic(TOPIC, partitions=1, replication_factor=3)])
        self.pay(b"12.50")

    @property
    def epochs(self) -> dict[int, int]:
        """A stranger counts them; the test knows."""
        return {one: self._zookeeper.get(f"/brokers/ids/{one}")[1].czxid for one in self.servers}

    @property
    def controller_epoch(self) -> int:
        return int(self._zookeeper.get("/controller_epoch")[0])

    def from_controller(self, broker_id: int) -> dict[str, int]:
        return {
            "controller_id": 1,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.epochs[broker_id],
        }

    def described(self) -> tuple[UUID, int, set[int]]:
        """The topic's id, its leader and who is in sync."""
        with Client(self.bootstrap_servers) as client:
            topic = client.metadata([TOPIC])[TOPIC]
        return topic.topic_id, topic.partitions[0].leader, set(topic.partitions[0].in_sync_replicas)

    def pay(self, amount: bytes) -> None:
        with Producer(self.bootstrap_servers) as producer:
            producer.send(TOPIC, amount)
            producer.flush()


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attacked]:
    with cluster(brokers=3) as running:
        zookeeper = KazooClient(running.zookeeper_connect)
        zookeeper.start()
        try:
            yield Attacked(running, zookeeper)
        finally:
            zookeeper.stop()
            zookeeper.close()


def test_topic_survives_whoever_asks_every_broker_to_delete_it(attacked: Attacked) -> None:
    before = attacked.described()
    ahead = {"controller_id": 1, "controller_epoch": FAR_AHEAD, "broker_epoch": -1}
    for number, server in attacked.servers.items():
        for said in (ahead, attacked.from_controller(number)):
            request = stop_replica.StopReplicaRequest(**said, topic_states=(stopped(-2, delete=True, topic=TOPIC),))
            assert ask(server, request).error_code is REFUSED
    attacked.pay(b"3.20")
    assert attacked.described() == before


def test_broker_leads_alone_for_no_client(attacked: Attacked) -> None:
    topic_id, leader, in_sync = attacked.described()
    other = next(one for one in attacked.servers if one != leader)
    alone = led(other, 99, (1, 2, 3), (other,), topic=TOPIC, topic_id=topic_id)
    request = leader_and_isr.LeaderAndIsrRequest(
        **attacked.from_controller(other), type=0, topic_states=(alone,), live_leaders=()
    )
    assert ask(attacked.servers[other], request).error_code is REFUSED
    told = update_metadata.UpdateMetadataRequest(
        **attacked.from_controller(other), topic_states=(), live_brokers=(live_broker(other, "127.0.0.1"),)
    )
    assert ask(attacked.servers[other], told).error_code is REFUSED
    attacked.pay(b"7.00")
    assert attacked.described() == (topic_id, leader, in_sync)


def test_no_client_fetches_as_a_replica(attacked: Attacked) -> None:
    topic_id, leader, _ = attacked.described()
    for follower in set(attacked.servers) - {leader}:
        request = fetch_request(follower, 1 << 20, broker_epoch=attacked.epochs[follower], topic_id=topic_id)
        answer = fetched(ask(attacked.servers[leader], request))
        assert (answer.error_code, bytes(answer.records or b"")) == (ErrorCode.topic_authorization_failed, b"")


@pytest.mark.parametrize("coordinator_epoch", [0, FAR_AHEAD])
def test_no_client_commits_in_one_partition(attacked: Attacked, coordinator_epoch: int) -> None:
    types = message_module(27, 1, "request")
    topic = types.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(0,))
    marker = types.WritableTxnMarker(
        producer_id=4711,
        producer_epoch=0,
        transaction_result=True,
        topics=(topic,),
        coordinator_epoch=coordinator_epoch,
    )
    _, leader, _ = attacked.described()
    answer = ask(attacked.servers[leader], types.WriteTxnMarkersRequest(markers=(marker,)))
    assert answer.markers[0].topics[0].partitions[0].error_code is REFUSED


def test_no_client_is_served_by_the_controller_in_the_name_of_a_broker(attacked: Attacked) -> None:
    for number, server in attacked.servers.items():
        own = {"broker_id": number, "broker_epoch": attacked.epochs[number]}
        for body in (message_class(7, 3, "request")(**own), message_class(67, 0, "request")(**own)):
            assert ask(server, body).error_code is REFUSED


class Inside:
    """A cluster whose brokers log in to each other at a listener of their own, to which a stranger logs in, too."""

    def __init__(self, cluster: Cluster, between: BetweenBrokers) -> None:
        self.cluster, self.between = cluster, between

    def connected(self, broker_id: int, who: str) -> socket.socket:
        """As this user, or with a certificate of this name."""
        listeners = self.cluster.brokers[broker_id].settings["listeners"]
        connection = Connection(listeners.rpartition("//")[2])
        if self.between.protocol == "SSL":
            context = ssl.create_default_context(cafile=str(self.between.authority.file))
            context.load_cert_chain(self.between.authority.issue(who).both_file)
            return context.wrap_socket(connection.socket, server_hostname="127.0.0.1")
        connection.ask("sasl_handshake", 1, mechanism="PLAIN")
        password = PASSWORD if who == USER else ALICES
        answer = connection.ask("sasl_authenticate", 2, auth_bytes=f"\0{who}\0{password}".encode())
        assert answer.error_code == ErrorCode.none
        return connection.socket

    def delete(self, broker_id: int, who: str, *, epoch: int = 0) -> ErrorCode:
        """What an order is answered that would be the end of the topic, were it not for its epoch."""
        ahead = {"controller_id": 0, "controller_epoch": FAR_AHEAD, "broker_epoch": epoch}
        request = stop_replica.StopReplicaRequest(**ahead, topic_states=(stopped(-2, delete=True, topic=TOPIC),))
        with self.connected(broker_id, who) as connection:
            error: ErrorCode = ask_on(connection, request).error_code
        return error


@pytest.fixture(params=["SSL", "SASL_PLAINTEXT"])
def inside(request: pytest.FixtureRequest, led_cluster: Callable[..., Cluster], tmp_path: Path) -> Inside:
    between = BetweenBrokers(tmp_path / "keys", request.param, "PLAIN")
    jaas = f"listener.name.{INTERNAL.lower()}.plain.sasl.jaas.config"
    secured = between.settings

    def with_alice(*arguments: Any) -> dict[str, str]:
        found = secured(*arguments)
        if jaas in found:
            found[jaas] = login_module("PLAIN", **{USER: PASSWORD, "alice": ALICES})
        return found

    between.settings = with_alice  # type: ignore[method-assign]
    return Inside(led_cluster("oncelog", "oncelog", between=between), between)


def test_whoever_is_let_in_between_brokers_is_no_broker_for_that(inside: Inside) -> None:
    """The same order under the brokers' own name is refused for what it says."""
    cluster = inside.cluster
    with Client(cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, 1, 2)])
    wait_until_in_sync(cluster, TOPIC)
    for broker_id, broker in cluster.brokers.items():
        assert inside.delete(broker_id, "alice") is REFUSED
        assert inside.delete(broker_id, "broker") is ErrorCode.stale_broker_epoch
        who = "User:CN=alice" if inside.between.protocol == "SSL" else "User:alice"
        said = [line for line in broker.output.read_text().splitlines() if " is refused: " in line]
        assert len(said) == 1, said
        assert f"{who!r} is neither who this broker itself shows to be nor named by super.users" in said[0]
    wait_until_in_sync(cluster, TOPIC)
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(TOPIC, b"12.50")
        producer.flush()


def test_brokers_with_certificates_of_several_names_are_named_by_super_users(
    led_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    between = BetweenBrokers(tmp_path / "keys", "SSL")
    own = [between.authority.issue(f"broker-{one}") for one in range(2)]
    secured = between.settings

    def each_its_own(member: ClusterMember, port: int) -> dict[str, str]:
        known = {"super.users": "User:CN=broker-0;User:CN=broker-1"}
        return secured(member, port, own[member.broker_id]) | known

    between.settings = each_its_own  # type: ignore[method-assign,assignment]
    cluster = led_cluster("oncelog", "oncelog", between=between)
    with Client(cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, 1, 2)])
    wait_until_in_sync(cluster, TOPIC)
    assert Inside(cluster, between).delete(0, "broker-1") is ErrorCode.stale_broker_epoch
    assert Inside(cluster, between).delete(0, "broker-2") is REFUSED

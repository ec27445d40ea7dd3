"""What brokers say to each other, said by a client that reaches no more than clients do: on a cluster of this machine."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kazoo.client import KazooClient

from harness.cluster_messages import fetch_request, fetched, led, live_broker, stopped
from oncelog.client import Client, NewTopic, Producer
from oncelog.testing import RunningCluster, cluster
from oncelog.wire import ErrorCode, decode_answer, encode_request, message_class, message_module, read_answer_header
from oncelog.wire.zookeeper_mode import leader_and_isr_v7 as leader_and_isr
from oncelog.wire.zookeeper_mode import stop_replica_v4 as stop_replica
from oncelog.wire.zookeeper_mode import update_metadata_v8 as update_metadata

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

TOPIC = "payments"
FAR_AHEAD = 2**30
REFUSED = ErrorCode.cluster_authorization_failed
LENGTH = struct.Struct(">i")


def ask(address: str, body: Any) -> Any:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"".join(encode_request(body.__api_key__, body.__version__, 1, "stranger", body)))
        with connection.makefile("rb") as stream:
            (size,) = LENGTH.unpack(stream.read(LENGTH.size))
            answer = memoryview(stream.read(size))
    kind = message_class(body.__api_key__, body.__version__, "response")
    return decode_answer(kind, answer, read_answer_header(kind, answer, 1, address))


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

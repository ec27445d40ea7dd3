"""A client is told of the brokers at the listener that it came to itself, whatever the brokers use among themselves."""

from __future__ import annotations

from typing import Any

import pytest

from harness.broker_in_memory import ClientConnection
from harness.cluster_in_memory import ClusterInMemory, PlayedBroker, PlayedController
from harness.cluster_messages import errors_of, known, led
from harness.wire import parse, request_payload
from oncelog.cluster.controller.requests import update_metadata
from oncelog.coordination import Promise
from oncelog.wire import ErrorCode

BROKER, OTHER = 0, 1
BOTH = (BROKER, OTHER)
CLIENTS = "CLIENTS"
LED_HERE, LED_THERE = 0, 1


def member(broker_id: int, **listeners: str) -> Any:
    endpoints = tuple(
        update_metadata.UpdateMetadataEndpoint(port=9092, host=host, listener=name, security_protocol=0)
        for name, host in listeners.items()
    )
    return update_metadata.UpdateMetadataBroker(id=broker_id, endpoints=endpoints, rack=None)


class Told:
    """A broker with a listener for clients; another one, which leads too, has the one between brokers alone."""

    def __init__(self) -> None:
        self.cluster = ClusterInMemory(BROKER)
        controller = PlayedController(self.cluster)
        other = PlayedBroker(self.cluster, OTHER)
        controller.starts(BROKER)
        controller.members = [
            member(BROKER, PLAINTEXT=self.cluster.nodes[BROKER].name, CLIENTS="outside"),
            member(OTHER, PLAINTEXT=other.host),
        ]
        for leader, index in ((BROKER, LED_HERE), (OTHER, LED_THERE)):
            assert controller.update(BROKER, known(leader, 0, BOTH, indexes=(index,))).error_code is ErrorCode.none
        assert errors_of(controller.order(BROKER, led(BROKER, 0, BOTH, BOTH))) == [ErrorCode.none]
        self.connection = ClientConnection()

    def ask(self, listener: str, api: str, version: int, **fields: Any) -> Any:
        self.connection.listener = listener  # type: ignore[misc]
        payload = request_payload(api, version, fields, "tests")
        answer = self.cluster.core(BROKER).receive(self.connection, memoryview(payload))
        if isinstance(answer, Promise):
            answer = self.cluster.wait(answer)
        return parse(api, version, b"".join(bytes(chunk) for chunk in answer)[4:])


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.mark.parametrize(
    ("listener", "hosts"), [("PLAINTEXT", ["broker-0", "played-1"]), (CLIENTS, ["outside"]), ("ELSEWHERE", [])]
)
def test_brokers_are_those_of_the_listener(told: Told, listener: str, hosts: list[str]) -> None:
    hosts = [told.cluster.nodes[BROKER].name if host == "broker-0" else host for host in hosts]
    assert [one.host for one in told.ask(listener, "metadata", 1, topics=None).brokers] == hosts
    described = told.ask(listener, "describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=1)
    assert [one.host for one in described.brokers] == hosts


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)])
def test_leader_without_the_listener_is_none(told: Told, version: int, error: ErrorCode) -> None:
    """ZkMetadataCache: LISTENER_NOT_FOUND where the leader is alive and has no endpoint of the listener, from v6 on."""
    asked = {"topics": None, "allow_auto_topic_creation": False}
    (topic,) = told.ask(CLIENTS, "metadata", version, **asked).topics
    found = {one.partition_index: (one.leader_id, one.error_code) for one in topic.partitions}
    assert found == {LED_HERE: (BROKER, ErrorCode.none), LED_THERE: (-1, error)}
    (topic,) = told.ask("PLAINTEXT", "metadata", version, **asked).topics
    assert {one.partition_index: one.leader_id for one in topic.partitions} == {LED_HERE: BROKER, LED_THERE: OTHER}


def test_coordinator_without_the_listener_is_not_available(told: Told) -> None:
    known_brokers = told.cluster.core(BROKER).known_brokers
    assert known_brokers.address_of(OTHER, CLIENTS) is None
    found = known_brokers.address_of(BROKER, CLIENTS)
    assert found is not None
    assert found.host == "outside"

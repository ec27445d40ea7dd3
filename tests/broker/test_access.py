"""Who is a broker, and who an administrator: by the listener that it came to, and who it has shown to be there."""

from __future__ import annotations

import logging

import pytest

from harness.broker_in_memory import ClientConnection
from oncelog.broker import Settings
from oncelog.broker.access import Access
from oncelog.broker.apis import APIS, ClusterAction
from oncelog.broker.config.setting import SettingError
from oncelog.cluster.apis import CLUSTER_APIS
from oncelog.security.principals import ANONYMOUS

BROKER, ADMINISTRATOR, ALICE = "User:broker", "User:admin", "User:alice"
IN_CLUSTER = {
    "zookeeper.connect": "here",
    "broker.id": "1",
    "inter.broker.listener.name": "INSIDE",
    "super.users": f"{ADMINISTRATOR};User:other-broker",
}


def peer(listener: str, principal: str | None) -> ClientConnection:
    connection = ClientConnection()
    connection.listener, connection.principal = listener, principal
    return connection


@pytest.mark.parametrize(
    ("listener", "principal", "is_broker", "is_administrator"),
    [
        ("INSIDE", None, True, True),
        ("INSIDE", BROKER, True, False),
        ("INSIDE", "User:other-broker", True, True),
        ("INSIDE", ADMINISTRATOR, True, True),
        ("INSIDE", ALICE, False, False),
        ("INSIDE", ANONYMOUS, False, False),
        ("CLIENTS", None, False, True),
        ("CLIENTS", BROKER, False, False),
        ("CLIENTS", ADMINISTRATOR, False, True),
        ("CLIENTS", ALICE, False, False),
        ("CLIENTS", ANONYMOUS, False, False),
    ],
)
def test_member_serves_brokers_at_their_listener_and_under_their_names_alone(
    listener: str, principal: str | None, *, is_broker: bool, is_administrator: bool
) -> None:
    access, found = Access(Settings(IN_CLUSTER), BROKER), peer(listener, principal)
    assert (access.is_broker(found), access.is_administrator(found)) == (is_broker, is_administrator)


@pytest.mark.parametrize(
    ("principal", "is_served"), [(None, True), (ADMINISTRATOR, True), (ALICE, False), (ANONYMOUS, False)]
)
def test_broker_that_is_alone_serves_administrators(principal: str | None, *, is_served: bool) -> None:
    access, found = Access(Settings({"super.users": ADMINISTRATOR}), None), peer("CLIENTS", principal)
    assert (access.is_broker(found), access.is_administrator(found)) == (is_served, is_served)


def test_broker_that_shows_nothing_is_known_by_its_listener_alone() -> None:
    access = Access(Settings({"zookeeper.connect": "here", "broker.id": "1"}), None)
    assert access.is_broker(peer("PLAINTEXT", None))
    assert not access.is_broker(peer("PLAINTEXT", ANONYMOUS))


def test_refusal_is_said_once_for_each_listener_and_principal(caplog: pytest.LogCaptureFixture) -> None:
    access = Access(Settings(IN_CLUSTER), BROKER)
    with caplog.at_level(logging.WARNING, "oncelog.broker"):
        for api in ("StopReplica", "LeaderAndIsr"):
            access.refused(api, peer("CLIENTS", None))
            access.refused(api, peer("INSIDE", "User:CN=broker-2"))
    first, second = [record.getMessage() for record in caplog.records]
    assert first.endswith("it came to the listener CLIENTS, and requests of brokers are served at INSIDE")
    assert second.startswith("StopReplica of test:")
    assert second.endswith("'User:CN=broker-2' is neither who this broker itself shows to be nor named by super.users")


@pytest.mark.parametrize("text", ["alice", "User:", "User:alice,bob;carol"])
def test_super_user_without_a_type_refuses_the_start(text: str) -> None:
    with pytest.raises(
        SettingError, match=r"super\.users: expected a string in format principalType:principalName but got"
    ):
        Settings({"super.users": text})


def test_every_request_that_only_brokers_send_is_marked_in_the_table() -> None:
    """Those for which Kafka's KafkaApis asks for ClusterAction."""
    marked = {api.name: api.cluster_action for api in CLUSTER_APIS.values() if api.cluster_action.value}
    assert marked == {
        "Fetch": ClusterAction.FOLLOWERS,
        "LeaderAndIsr": ClusterAction.ALL,
        "StopReplica": ClusterAction.ALL,
        "UpdateMetadata": ClusterAction.ALL,
        "ControlledShutdown": ClusterAction.ALL,
        "AddPartitionsToTxn": ClusterAction.BATCHED,
        "WriteTxnMarkers": ClusterAction.UNLESS_ADMINISTRATOR,
        "AlterPartition": ClusterAction.ALL,
        "AllocateProducerIds": ClusterAction.ALL,
    }
    assert not [api for api in APIS.values() if api.cluster_action is ClusterAction.ALL]

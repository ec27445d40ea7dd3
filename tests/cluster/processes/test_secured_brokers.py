"""Brokers that speak to each other by TLS and SASL: nothing is lost when one of them dies, and no stranger is let in."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.certificates import Authority
from harness.cluster import Cluster, ClusterMember
from harness.processes import free_port
from harness.secured_cluster import INTERNAL, PASSWORD, BetweenBrokers, login_module
from harness.waiting import until
from oncelog.client import Client, NewTopic, Producer
from tests.cluster.processes.replicas import wait_until_in_sync
from tests.cluster.processes.trial import Role, Trial

pytestmark = [pytest.mark.slow, pytest.mark.chaos]

WAYS = [("SSL", "none"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512")]


@pytest.mark.drawn(16)
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_killed_leader_loses_nothing_and_comes_back(led_cluster, tmp_path: Path, protocol: str, mechanism: str) -> None:
    between = BetweenBrokers(tmp_path / "keys", protocol, mechanism)
    trial = Trial(led_cluster("oncelog", "oncelog", "oncelog", between=between, num_replica_fetchers="3"))
    trial.run(lambda: trial.kill(trial.broker(Role.LEADER)))


@pytest.mark.jvm
@pytest.mark.drawn(16)
@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", "none"), ("SASL_SSL", "SCRAM-SHA-512")])
@pytest.mark.parametrize("controller", [0, 2], ids=["their-controller", "our-controller"])
def test_broker_of_kafka_among_ours_follows_and_leads(
    led_cluster, tmp_path: Path, controller: int, protocol: str, mechanism: str
) -> None:
    between = BetweenBrokers(tmp_path / "keys", protocol, mechanism)
    trial = Trial(led_cluster("kafka", "oncelog", "oncelog", controller=controller, between=between))
    trial.run(lambda: trial.kill(trial.broker(Role.LEADER)))


def goes_on_without(cluster: Cluster, stranger: ClusterMember) -> None:
    """The others take what is to be on two replicas, and take the third when it is one of them again."""
    others = ",".join(one.bootstrap_servers for one in cluster.brokers.values() if one is not stranger)
    with Producer(others) as producer:
        for number in range(20):
            producer.send("orders", f"{number}".encode(), partition=0)
    with Client(others) as client:
        (found,) = client.metadata(["orders"])["orders"].partitions
    assert stranger.broker_id not in found.in_sync_replicas
    assert found.leader in found.in_sync_replicas


@pytest.fixture
def secured(led_cluster, tmp_path: Path) -> tuple[Cluster, BetweenBrokers]:
    """Three brokers that know each other by SASL_SSL and PLAIN, and a topic on all of them."""
    between = BetweenBrokers(tmp_path / "keys", "SASL_SSL", "PLAIN")
    cluster = led_cluster("oncelog", "oncelog", "oncelog", between=between)
    with Client(cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic("orders", 1, 3)])
    wait_until_in_sync(cluster, "orders")
    return cluster, between


@pytest.mark.drawn(6)
def test_broker_with_a_wrong_password_follows_nobody_and_says_so_once(secured: tuple[Cluster, BetweenBrokers]) -> None:
    cluster, _ = secured
    stranger = cluster.brokers[2]
    stranger.stop()
    jaas = f"listener.name.{INTERNAL.lower()}.plain.sasl.jaas.config"
    right = stranger.settings[jaas]
    stranger.configure(**{jaas: login_module("PLAIN", password="jabberwocky", broker=PASSWORD)})
    stranger.launch()
    until(lambda: "does not accept user 'broker' by PLAIN" in stranger.tail())
    goes_on_without(cluster, stranger)
    said = stranger.output.read_text()
    places = {one.settings["listeners"].rpartition("//")[2] for one in cluster.brokers.values() if one is not stranger}
    assert 1 <= said.count("does not accept user") <= len(places), said
    assert "jabberwocky" not in said
    stranger.stop()
    stranger.configure(**{jaas: right})
    stranger.start()
    wait_until_in_sync(cluster)


def test_broker_with_the_certificate_of_a_stranger_is_left_alone(
    secured: tuple[Cluster, BetweenBrokers], tmp_path: Path
) -> None:
    cluster, between = secured
    stranger = cluster.brokers[2]
    stranger.stop()
    own = Authority(tmp_path, "stranger").issue("mallory")
    stranger.configure(**between.settings(stranger, free_port(), own))
    stranger.launch()
    controller = cluster.brokers[0]
    until(lambda: "is by an authority that is not trusted here" in controller.output.read_text(), 60)
    goes_on_without(cluster, stranger)
    assert controller.output.read_text().count("is by an authority that is not trusted here") == 1
    stranger.stop()
    stranger.configure(**between.settings(stranger, free_port()))
    stranger.start()
    wait_until_in_sync(cluster)

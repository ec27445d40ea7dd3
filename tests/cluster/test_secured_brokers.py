"""Brokers that speak to each other by TLS and SASL: nothing is lost when one of them dies, and no stranger is let in."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.secured_cluster import BetweenBrokers
from tests.cluster.trial import Role, Trial

pytestmark = [pytest.mark.slow, pytest.mark.chaos]

WAYS = [("SSL", "none"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512")]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_killed_leader_loses_nothing_and_comes_back(led_cluster, tmp_path: Path, protocol: str, mechanism: str) -> None:
    between = BetweenBrokers(tmp_path / "keys", protocol, mechanism)
    trial = Trial(led_cluster("oncelog", "oncelog", "oncelog", between=between))
    trial.run(lambda: trial.kill(trial.broker(Role.LEADER)))


@pytest.mark.jvm
@pytest.mark.drawn(4)
@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", "none"), ("SASL_SSL", "SCRAM-SHA-512")])
@pytest.mark.parametrize("controller", [0, 2], ids=["their-controller", "our-controller"])
def test_broker_of_kafka_among_ours_follows_and_leads(
    led_cluster, tmp_path: Path, controller: int, protocol: str, mechanism: str
) -> None:
    between = BetweenBrokers(tmp_path / "keys", protocol, mechanism)
    trial = Trial(led_cluster("kafka", "oncelog", "oncelog", controller=controller, between=between))
    trial.run(lambda: trial.kill(trial.broker(Role.LEADER)))

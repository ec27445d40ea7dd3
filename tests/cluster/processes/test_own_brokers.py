"""Three brokers, killed and suspended under a load: what was acknowledged is there once, on every replica."""

from __future__ import annotations

import pytest

from tests.cluster.processes.trial import Role, Trial

pytestmark = [pytest.mark.slow, pytest.mark.chaos]


@pytest.mark.drawn(16)
@pytest.mark.parametrize("role", Role, ids=lambda role: role.name.lower())
def test_killed_broker_loses_nothing_and_comes_back(led_cluster, role: Role) -> None:
    trial = Trial(led_cluster("oncelog", "oncelog", "oncelog"))
    trial.run(lambda: trial.kill(trial.broker(role)))


@pytest.mark.drawn(24)
@pytest.mark.parametrize("role", Role, ids=lambda role: role.name.lower())
def test_suspended_broker_that_others_have_replaced_takes_nothing_back(led_cluster, role: Role) -> None:
    trial = Trial(led_cluster("oncelog", "oncelog", "oncelog"))
    trial.run(lambda: trial.suspend(trial.broker(role)))

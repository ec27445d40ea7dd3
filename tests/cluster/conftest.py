"""A member of a cluster, over a ZooKeeper that is modelled, and over a real one: each test of it runs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.administered_broker import AdministeredBroker
from harness.zookeeper_worlds import RealWorld, SimulatedWorld, World

BOTH = ["model", pytest.param("real", marks=pytest.mark.jvm)]


@pytest.fixture(params=BOTH)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = SimulatedWorld() if request.param == "model" else RealWorld(request.getfixturevalue("zookeeper"))
    yield made
    made.end()


@pytest.fixture
def simulated_world() -> Iterator[SimulatedWorld]:
    """One in which time passes as fast as the test likes."""
    made = SimulatedWorld()
    yield made
    made.end()


@pytest.fixture
def new_member(world: World) -> Callable[..., AdministeredBroker]:
    def make(node_id: int = 0, brokers: int = 3, **settings: str) -> AdministeredBroker:
        member = AdministeredBroker(world, node_id, brokers, **settings)
        member.prepare()
        return member

    return make


@pytest.fixture
def member(new_member: Callable[..., AdministeredBroker]) -> AdministeredBroker:
    return new_member()

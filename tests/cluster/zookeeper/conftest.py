"""A ZooKeeper for tests that must hold on the model and on a real server: each runs twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.zookeeper_worlds import RealWorld, SimulatedWorld, World

BOTH = ["model", pytest.param("real", marks=pytest.mark.jvm)]


@pytest.fixture(params=BOTH)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = SimulatedWorld() if request.param == "model" else RealWorld(request.getfixturevalue("zookeeper"))
    yield made
    made.end()


@pytest.fixture(params=BOTH)
def own_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One whose ensemble the test may stop."""
    if request.param == "model":
        made: World = SimulatedWorld()
    else:
        ensemble = request.getfixturevalue("new_zookeeper")()
        made = RealWorld(ensemble.connect, ensemble)
    yield made
    made.end()

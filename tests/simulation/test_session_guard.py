"""What the first generation of the transaction protocol allows when requests come late, and what the session guard makes of it.

Both runs are the same clients on the same network: what is sent on a connection comes late again and again, when its client has
gone on on another one. In the broker of the first the guard is off.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from oncelog.simulation import simulation
from oncelog.simulation.faults import FaultKind, PlannedFault
from oncelog.simulation.report import Report
from oncelog.simulation.simulation import Simulation

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000
ROUNDS = int(os.environ.get("ONCELOG_ROUNDS", "4"))
SEEDS_UNTIL_FOUND = 25
MINUTES = 0.5
INTERVAL_MS = 200.0
REQUEST_TIMEOUT_MS = 500.0


def run(seed: int, *, guarded: bool) -> Report:
    with _settings({"transaction.session.guard.enable": str(guarded).lower()}), _first_generation():
        simulated = Simulation(seed, MINUTES)
        simulated.clients[:] = [one for one in simulated.clients if one.name.startswith(("writer", "copier"))]
        for client in simulated.clients:
            client.settings = replace(client.settings, request_timeout_ms=REQUEST_TIMEOUT_MS)
        simulated.faults = held_connections(seed)
        return simulated.run()


def _settings(more: dict[str, str]) -> AbstractContextManager[Any]:
    drawn = simulation.broker_settings
    return patch.object(simulation, "broker_settings", lambda random: drawn(random) | more)


def _first_generation() -> AbstractContextManager[Any]:
    return patch.object(simulation, "transaction_version", lambda random: 1)


def held_connections(seed: int) -> list[PlannedFault]:
    random = Random(seed)
    count = int(MINUTES * 60_000 / INTERVAL_MS)
    return [
        PlannedFault(number, number * INTERVAL_MS, FaultKind.HELD, random.getrandbits(48)) for number in range(count)
    ]


@pytest.mark.drawn(6)
def test_without_the_guard_a_late_request_ends_or_joins_the_next_transaction() -> None:
    failures = (run(seed, guarded=False).failure for seed in range(FIRST, FIRST + SEEDS_UNTIL_FOUND))
    assert any(failures), f"seeds {FIRST} to {FIRST + SEEDS_UNTIL_FOUND - 1} show nothing"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_with_the_guard_no_request_counts_for_another_transaction(seed: int) -> None:
    report = run(seed, guarded=True)
    assert report.failure is None, f"seed {seed}: {report.failure}"
    assert report.committed > 0, "nobody committed anything"

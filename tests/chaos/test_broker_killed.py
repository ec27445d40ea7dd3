"""The broker is killed with -9 under a transactional load, again and again: `tests/chaos/rounds.py` says what has to be so.

ONCELOG_SEED and ONCELOG_ROUNDS choose another run.
"""

from __future__ import annotations

import os

import pytest

from harness.processes import BrokerProcess
from tests.chaos.rounds import run_rounds

SEED = int(os.environ.get("ONCELOG_SEED", "1"))
ROUNDS = int(os.environ.get("ONCELOG_ROUNDS", "30"))


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.drawn(16)
@pytest.mark.timeout(900)
def test_broker_killed_under_a_transactional_load_keeps_every_commit_whole(new_oncelog, summary):
    node: BrokerProcess = new_oncelog()
    settled = run_rounds(node, ROUNDS, SEED, node.kill)
    summary(f"seed {SEED}, {ROUNDS} kills: " + ", ".join(f"{n} {kind.name}" for kind, n in settled.items()))

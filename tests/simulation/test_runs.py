"""Runs of the simulation: short ones of seeds that ONCELOG_SEED draws, and the same seed twice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oncelog.simulation.faults import FaultKind
from oncelog.simulation.simulation import Simulation

FIRST = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000
RUNS = int(os.environ.get("ONCELOG_ROUNDS", "8"))
TRACE = "from oncelog.simulation.simulation import Simulation as S; print(S({seed}, 0.2).run().trace)"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + RUNS))
def test_whatever_goes_wrong_nothing_is_lost_or_there_twice(seed: int) -> None:
    report = Simulation(seed, 0.3).run()
    assert report.failure is None, f"oncelog simulate --seed {seed} --minutes 0.3: {report.failure}"
    assert report.committed > 0, "nobody committed anything"


def test_the_same_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    traces = [
        subprocess.run(
            [sys.executable, "-c", TRACE.format(seed=FIRST)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1], f"seed {FIRST}"
    assert traces[0] != Simulation(FIRST + 1, 0.2).run().trace


def test_faults_that_are_left_out_do_not_change_the_others() -> None:
    whole = Simulation(FIRST, 2).faults
    without = Simulation(FIRST, 2, {0, 2}).faults
    assert without == [fault for fault in whole if fault.number not in (0, 2)]


def test_every_kind_of_fault_happens() -> None:
    planned = {fault.kind for seed in range(FIRST, FIRST + 40) for fault in Simulation(seed, 5).faults}
    assert planned == set(FaultKind)

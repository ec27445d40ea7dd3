"""A cluster on a seed: runs of other seeds each time, the same seed twice, and planted bugs that it finds.

The first seed is said at the end. ONCELOG_SEED is one that has been, to run them again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.simulation.cluster import ClusterSimulation
from oncelog.simulation.cluster.faults import ClusterFault
from tests.simulation.planted_in_cluster import BUGS
from tests.simulation.planting import PlantedBug
from tests.simulation.traces import traces

FIRST = int(os.environ.get("ONCELOG_SEED") or secrets.randbelow(1_000_000)) * 1_000
FIRST_PLANTED = int(os.environ.get("ONCELOG_SEED", "1")) * 1_000 + 500
RUNS = 10 if os.environ.get("ONCELOG_WHOLE") != "1" else 200
MINUTES = 0.3
DOES_NOT_FIT = ("AttributeError", "TypeError", "NameError", "KeyError")
PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
TRACE = "from oncelog.simulation.cluster import ClusterSimulation as S; print(S({seed}, 0.1).run().trace)"


@pytest.mark.parametrize("number", range(RUNS))
def test_a_cluster_loses_nothing_whatever_goes_wrong(number: int, summary: Callable[[str], None]) -> None:
    report = ClusterSimulation(FIRST + number, MINUTES).run()
    assert report.failure is None, f"ClusterSimulation({FIRST + number}, {MINUTES}): {report.failure}"
    assert report.committed > 0, "nobody committed anything"
    if number == 0:
        summary(f"clusters of the seeds {FIRST} to {FIRST + RUNS - 1}; again: ONCELOG_SEED={FIRST // 1_000}")


def test_the_same_seed_is_the_same_cluster_whatever_the_hash_seed() -> None:
    first, second = traces(TRACE.format(seed=FIRST))
    assert first == second, f"seed {FIRST}"
    assert first.strip() != ClusterSimulation(FIRST + 1, 0.1).run().trace


def test_faults_of_a_cluster_that_are_left_out_do_not_change_the_others() -> None:
    whole = ClusterSimulation(FIRST, 2).faults
    without = ClusterSimulation(FIRST, 2, {0, 2}).faults
    assert without == [fault for fault in whole if fault.number not in (0, 2)]


def test_every_kind_of_fault_happens_to_a_cluster() -> None:
    planned = {fault.kind for seed in range(FIRST, FIRST + 40) for fault in ClusterSimulation(seed, 5).faults}
    assert planned == set(ClusterFault)


@pytest.mark.drawn(16)
@pytest.mark.timeout(1200)  # two hundred seeds, where a bug hides as well as that
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_planted_in_a_cluster_is_found(bug: PlantedBug) -> None:
    with bug.plant():
        seeds = range(FIRST_PLANTED, FIRST_PLANTED + bug.seeds)
        failure = next((one for one in (ClusterSimulation(seed, MINUTES).run().failure for seed in seeds) if one), None)
    assert failure is not None, FIRST_PLANTED
    assert not failure.startswith(DOES_NOT_FIT), f"{bug.name}: its patch is of code that has changed: {failure}"


def test_the_page_has_the_table_of_bugs_planted_in_a_cluster() -> None:
    rows = "".join(f"| {bug.name} | {bug.hides.value} | {bug.seeds} |\n" for bug in BUGS)
    assert rows in PAGE.read_text()

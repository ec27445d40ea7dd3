"""Runs of the simulation: some hundreds of short ones and a few longer, of other seeds each time, and the same seed twice.

The first seed is said at the end. ONCELOG_SEED is one that has been, to run them again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from unittest.mock import patch

import pytest

from oncelog.log import Appended, PartitionLog
from oncelog.simulation.faults import FaultKind
from oncelog.simulation.report import Report
from oncelog.simulation.simulation import Simulation
from tests.simulation.traces import traces

FIRST = int(os.environ.get("ONCELOG_SEED") or secrets.randbelow(1_000_000)) * 1_000
SHORT_RUNS, LONG_RUNS = (80, 2) if os.environ.get("ONCELOG_WHOLE") != "1" else (900, 40)
SHORT_MINUTES, LONG_MINUTES = 0.1, 0.7
RUNS_OF_A_TEST = 20
TRACE = "from oncelog.simulation.simulation import Simulation as S; print(S({seed}, 0.2).run().trace)"


def passed(seed: int, minutes: float) -> Report:
    report = Simulation(seed, minutes).run()
    assert report.failure is None, f"oncelog simulate --seed {seed} --minutes {minutes}: {report.failure}"
    return report


@pytest.mark.parametrize("part", range(SHORT_RUNS // RUNS_OF_A_TEST))
def test_whatever_goes_wrong_nothing_is_lost_or_there_twice(part: int, summary: Callable[[str], None]) -> None:
    first = FIRST + part * RUNS_OF_A_TEST
    reports = [passed(seed, SHORT_MINUTES) for seed in range(first, first + RUNS_OF_A_TEST)]
    assert sum(report.committed for report in reports) > RUNS_OF_A_TEST, "nobody committed anything"
    if part == 0:
        summary(f"the seeds {FIRST} to {FIRST + SHORT_RUNS - 1}; again: ONCELOG_SEED={FIRST // 1_000}")


@pytest.mark.parametrize("number", range(LONG_RUNS))
def test_longer_runs_lose_nothing_either(number: int) -> None:
    assert passed(FIRST + 900 + number, LONG_MINUTES).committed > 0, "nobody committed anything"


def test_the_same_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    first, second = traces(TRACE.format(seed=FIRST))
    assert first == second, f"seed {FIRST}"
    assert first != Simulation(FIRST + 1, 0.2).run().trace


def test_a_request_that_was_carried_out_comes_again_where_its_answer_was_lost() -> None:
    duplicates: list[Appended] = []
    append = PartitionLog.append

    def watched(log: PartitionLog, *arguments: object, **more: object) -> object:
        result = append(log, *arguments, **more)  # type: ignore[arg-type]
        if isinstance(result, Appended) and result.duplicate:
            duplicates.append(result)
        return result

    with patch.object(PartitionLog, "append", watched):
        assert any(passed(seed, 0.3) and duplicates for seed in range(FIRST, FIRST + 200)), f"from seed {FIRST} on"


def test_faults_that_are_left_out_do_not_change_the_others() -> None:
    whole = Simulation(FIRST, 2).faults
    without = Simulation(FIRST, 2, {0, 2}).faults
    assert without == [fault for fault in whole if fault.number not in (0, 2)]


def test_every_kind_of_fault_happens() -> None:
    planned = {fault.kind for seed in range(FIRST, FIRST + 40) for fault in Simulation(seed, 5).faults}
    assert planned == set(FaultKind)

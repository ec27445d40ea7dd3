"""Which faults a failing run needs."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.simulation.faults import RUNS_MAX, minimise, plan


def test_what_the_failure_needs_is_left() -> None:
    faults = plan(3, 300_000)
    needed = {faults[4].number, faults[17].number}
    runs = 0

    def fails(left_out: Collection[int]) -> bool:
        nonlocal runs
        runs += 1
        return not needed & set(left_out)

    assert {fault.number for fault in minimise(faults, fails)} == needed
    assert runs <= RUNS_MAX


def test_a_run_that_always_fails_needs_nothing() -> None:
    assert minimise(plan(3, 300_000), lambda _: True) == []

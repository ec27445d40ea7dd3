"""Finds the few faults of a failing run that it needs to fail: the others are left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from oncelog.simulation.faults import PlannedFault

RUNS_MAX = 120


def minimise(faults: Sequence[PlannedFault], fails: Callable[[Collection[int]], bool]) -> list[PlannedFault]:
    """Leave out halves, then smaller parts, for as long as `fails` says that the run still does without those numbers.

    At most RUNS_MAX runs are made. What is left is in order; it is empty where the run fails without any fault.
    """
    everything = {fault.number for fault in faults}
    left = list(faults)
    runs = 0
    size = len(left)
    while left and size and runs < RUNS_MAX:
        start = 0
        while start < len(left) and runs < RUNS_MAX:
            kept = left[:start] + left[start + size :]
            runs += 1
            if fails(everything - {fault.number for fault in kept}):
                left = kept
            else:
                start += size
        size = min(size // 2, len(left))
    return left

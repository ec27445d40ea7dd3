"""The clocks of simulated processes."""

from __future__ import annotations

import pytest

from oncelog.simulation.cluster import ClusterSimulation
from oncelog.simulation.events import EventQueue, Process, ProcessClock


def failed(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(("pace", "at_ms"), [(1.25, 80), (1.0, 100), (0.8, 125)])
def test_clock_and_timers_of_a_process_go_at_its_pace(pace: float, at_ms: float) -> None:
    queue = EventQueue()
    clock = ProcessClock(Process(queue, "node", failed), pace=pace)
    begin, seen = clock.monotonic_ms(), list[tuple[float, float]]()
    clock.call_later(100, lambda: seen.append((queue.now_ms, clock.monotonic_ms() - begin)))
    while queue.step(1_000):
        pass
    assert seen == [(pytest.approx(at_ms), pytest.approx(100))]


def test_no_two_members_of_a_cluster_have_clocks_of_the_same_pace() -> None:
    brokers = ClusterSimulation(1, 0.1).brokers
    assert len({broker.pace for broker in brokers}) == len(brokers)

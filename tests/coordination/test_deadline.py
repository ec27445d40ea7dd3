"""Waiting for something, but not for ever."""

from __future__ import annotations

import pytest

from harness.manual_clock import ManualClock
from oncelog.coordination import Promise, Task, start
from oncelog.coordination.deadline import Deadline, pause_range_ms


def _waiting(deadline: Deadline, promise: Promise[int]) -> Task[bool]:
    return start(deadline.until(promise))


def test_what_comes_in_time_is_waited_for() -> None:
    clock, promise = ManualClock(), Promise[int]()
    waiting = _waiting(Deadline(clock, 100), promise)
    clock.advance(99)
    assert not waiting.is_resolved
    promise.resolve(1)
    assert waiting.value is True


def test_what_does_not_come_in_time_is_not_waited_for_any_longer() -> None:
    clock, promise = ManualClock(), Promise[int]()
    deadline = Deadline(clock, 100)
    waiting = _waiting(deadline, promise)
    clock.advance(100)
    assert waiting.value is False
    assert deadline.is_over
    promise.resolve(1)


def test_what_is_there_is_there_also_when_the_time_is_over() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 0)
    clock.advance(1)
    assert _waiting(deadline, Promise.ready(1)).value is True
    assert _waiting(deadline, Promise()).value is False


def test_several_things_are_waited_for_until_one_moment() -> None:
    clock, first, second = ManualClock(), Promise[int](), Promise[int]()
    deadline = Deadline(clock, 100)

    async def both() -> tuple[bool, bool]:
        return await deadline.until(first), await deadline.until(second)

    waiting = start(both())
    clock.advance(60)
    first.resolve(1)
    clock.advance(40)
    assert waiting.value == (True, False)


def test_one_that_was_ended_passes_no_more() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 100)
    deadline.end()
    clock.advance(200)
    assert not deadline.is_over


@pytest.mark.parametrize(
    ("failures", "low_ms", "high_ms"), [(1, 80, 120), (2, 160, 240), (3, 320, 480), (4, 640, 960), (5, 800, 1000)]
)
def test_pause_begins_with_the_first_and_doubles_up_to_the_most(failures: int, low_ms: float, high_ms: float) -> None:
    """20 % around it, and never beyond the most."""
    assert pause_range_ms(failures, 100, 1000) == pytest.approx((low_ms, high_ms))


def test_failures_without_an_end_make_no_number_without_an_end() -> None:
    assert pause_range_ms(10**9, 100, 1000) == (800, 1000)


def test_pause_that_does_not_grow_stays_the_first() -> None:
    assert pause_range_ms(7, 50, 1000, growth=1) == pytest.approx((40, 60))

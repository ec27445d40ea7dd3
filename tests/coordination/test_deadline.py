"""Waiting for something, but not for ever."""

from __future__ import annotations

from harness.manual_clock import ManualClock
from oncelog.coordination import Parked, Task, start
from oncelog.coordination.deadline import Deadline


def _waiting(deadline: Deadline, parked: Parked[int]) -> Task[bool]:
    return start(deadline.until(parked))


def test_what_comes_in_time_is_waited_for() -> None:
    clock, parked = ManualClock(), Parked[int]()
    waiting = _waiting(Deadline(clock, 100), parked)
    clock.advance(99)
    assert not waiting.is_released
    parked.release(1)
    assert waiting.value is True


def test_what_does_not_come_in_time_is_not_waited_for_any_longer() -> None:
    clock, parked = ManualClock(), Parked[int]()
    deadline = Deadline(clock, 100)
    waiting = _waiting(deadline, parked)
    clock.advance(100)
    assert waiting.value is False
    assert deadline.is_over
    parked.release(1)


def test_what_is_there_is_there_also_when_the_time_is_over() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 0)
    clock.advance(1)
    assert _waiting(deadline, Parked.ready(1)).value is True
    assert _waiting(deadline, Parked()).value is False


def test_several_things_are_waited_for_until_one_moment() -> None:
    clock, first, second = ManualClock(), Parked[int](), Parked[int]()
    deadline = Deadline(clock, 100)

    async def both() -> tuple[bool, bool]:
        return await deadline.until(first), await deadline.until(second)

    waiting = start(both())
    clock.advance(60)
    first.release(1)
    clock.advance(40)
    assert waiting.value == (True, False)


def test_one_that_was_ended_passes_no_more() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 100)
    deadline.end()
    clock.advance(200)
    assert not deadline.is_over

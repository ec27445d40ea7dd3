"""Flows: when they go on, in which order, and how they are ended."""

from __future__ import annotations

import pytest

from harness.manual_clock import ManualClock
from oncelog.coordination import Promise, Task, begin, sleep, start
from oncelog.coordination.flows import OneAtATime


async def value_of(promise: Promise[str], steps: list[str]) -> str:
    steps.append("waits")
    value = await promise
    steps.append(value)
    return value


def test_a_flow_that_need_not_wait_is_over_when_it_is_started() -> None:
    task = start(value_of(Promise.ready("there"), []))
    assert task.is_resolved
    assert task.value == "there"


def test_a_flow_that_has_begun_gives_its_value_or_the_task_that_goes_on() -> None:
    assert begin(value_of(Promise.ready("there"), [])) == "there"
    promise: Promise[str] = Promise()
    task = begin(value_of(promise, []))
    assert isinstance(task, Task)
    promise.resolve("later")
    assert task.value == "later"


def test_a_flow_goes_on_in_the_call_that_releases_what_it_waits_for() -> None:
    promise: Promise[str] = Promise()
    steps: list[str] = []
    task = start(value_of(promise, steps))
    assert steps == ["waits"]
    promise.resolve("now")
    assert steps == ["waits", "now"]
    assert task.value == "now"


def test_flows_that_wait_for_the_same_go_on_in_the_order_in_which_they_began_to_wait() -> None:
    promise: Promise[str] = Promise()
    order: list[int] = []

    async def waiting(number: int) -> None:
        await promise
        order.append(number)

    for number in range(5):
        start(waiting(number))
    promise.resolve("go")
    assert order == [0, 1, 2, 3, 4]


def test_a_flow_can_wait_for_a_task() -> None:
    promise: Promise[str] = Promise()

    async def outer() -> str:
        return await start(value_of(promise, [])) + "!"

    task = start(outer())
    promise.resolve("inner")
    assert task.value == "inner!"


def test_a_flow_that_follows_another_begins_with_its_value_once_those_that_await_that_one_have_gone_on() -> None:
    promise: Promise[str] = Promise()
    order: list[str] = []

    async def following(value: str) -> None:
        order.append(f"after {value}")

    async def awaiting(task: Task[str]) -> None:
        order.append(f"with {await task}")

    first = start(value_of(promise, []), then=following)
    start(awaiting(first))
    promise.resolve("it")
    assert order == ["with it", "after it"]


def test_a_flow_that_is_ended_is_followed_by_nothing() -> None:
    order: list[str] = []

    async def following(value: str) -> None:
        order.append(value)

    promise: Promise[str] = Promise()
    task = start(value_of(promise, []), then=following)
    task.end()
    promise.resolve("too late")
    assert order == []


def test_an_error_leaves_the_step_that_met_it_and_releases_nothing() -> None:
    promise: Promise[None] = Promise()

    async def failing() -> None:
        await promise
        raise ValueError("after the wait")

    task = start(failing())
    with pytest.raises(ValueError, match="after the wait"):
        promise.resolve(None)
    assert not task.is_resolved


def test_a_task_that_is_ended_gives_back_what_it_held_and_never_goes_on() -> None:
    promise: Promise[str] = Promise()
    steps: list[str] = []

    async def holding() -> None:
        steps.append("taken")
        try:
            steps.append(await promise)
        finally:
            steps.append("given back")

    task = start(holding())
    task.end()
    assert steps == ["taken", "given back"]
    promise.resolve("too late")
    assert steps == ["taken", "given back"]
    assert not task.is_resolved


def test_ending_a_task_twice_or_after_its_end_does_nothing() -> None:
    over = start(value_of(Promise.ready("there"), []))
    over.end()
    waiting = start(value_of(Promise(), []))
    waiting.end()
    waiting.end()
    assert over.value == "there"


def test_a_task_that_is_ended_from_within_stops_at_its_next_wait() -> None:
    first: Promise[None] = Promise()
    steps: list[str] = []

    async def ending() -> None:
        try:
            await first
            task.end()
            steps.append("to the next wait")
            await Promise[None]()
            steps.append("beyond it")
        finally:
            steps.append("given back")

    task: Task[None] = start(ending())
    first.resolve(None)
    assert steps == ["to the next wait", "given back"]


def test_a_sleep_that_is_ended_leaves_no_timer() -> None:
    clock = ManualClock()
    task = start(sleep(clock, 100))
    task.end()
    clock.advance(200)
    assert not task.is_resolved


def test_a_sleep_ends_when_its_time_has_passed() -> None:
    clock = ManualClock()
    task = start(sleep(clock, 100))
    clock.advance(99)
    assert not task.is_resolved
    clock.advance(1)
    assert task.is_resolved


def test_many_waits_in_a_row_need_no_deeper_stack() -> None:
    async def many() -> int:
        for _ in range(100_000):
            await Promise.ready(None)
        return 100_000

    assert start(many()).value == 100_000


class Visitors:
    def __init__(self) -> None:
        self.room = OneAtATime()
        self.seen: list[str] = []
        self.leaves: dict[str, Promise[None]] = {}

    async def visit(self, name: str) -> None:
        self.leaves[name] = Promise()
        await self.room.enter()
        try:
            self.seen.append(f"{name} in")
            await self.leaves[name]
            self.seen.append(f"{name} out")
        finally:
            self.room.leave()


def test_those_who_come_later_wait_in_their_order() -> None:
    visitors = Visitors()
    for name in "abc":
        start(visitors.visit(name))
    assert visitors.seen == ["a in"]
    visitors.leaves["a"].resolve(None)
    assert visitors.seen == ["a in", "a out", "b in"]
    visitors.leaves["c"].resolve(None)
    visitors.leaves["b"].resolve(None)
    assert visitors.seen[3:] == ["b out", "c in", "c out"]
    start(visitors.visit("d"))
    assert visitors.seen[-1] == "d in"


def test_flow_that_is_ended_while_it_waits_is_passed_over() -> None:
    visitors = Visitors()
    start(visitors.visit("a"))
    start(visitors.visit("b")).end()
    start(visitors.visit("c"))
    visitors.leaves["a"].resolve(None)
    assert visitors.seen == ["a in", "a out", "c in"]


def test_flow_that_is_ended_inside_lets_the_next_one_in() -> None:
    visitors = Visitors()
    first = start(visitors.visit("a"))
    start(visitors.visit("b"))
    first.end()
    assert visitors.seen == ["a in", "b in"]

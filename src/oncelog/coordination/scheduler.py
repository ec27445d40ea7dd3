"""Flows: coroutines that wait for `Parked` values and for nothing else.

A flow runs until it waits. It goes on in the very call that releases what it waits for, so no event loop is needed, and two
runs with the same inputs take the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import CORO_RUNNING, getcoroutinestate
from typing import Any, TypeVar

from oncelog.coordination.parked import Parked
from oncelog.environment import Clock

T = TypeVar("T")
Flow = Coroutine[Any, None, T]


class Task(Parked[T]):
    """A flow under way. It is released with what the flow returns; an error that leaves the flow leaves the step.

    `then` makes the flow that follows it, as a task of its own, once all that await this one have gone on.
    """

    __slots__ = ("_flow", "_follow")

    def __init__(self, flow: Flow[T], then: Callable[[T], Flow[None]] | None = None) -> None:
        super().__init__()
        self._flow: Flow[T] | None = flow
        self._follow = then

    def step(self, _: object = None) -> None:
        """Go on until the flow waits again, or is over. What was ended goes on no more."""
        flow = self._flow
        if flow is None:
            return
        try:
            awaited = flow.send(None)
        except StopIteration as over:
            self._flow = None
            self.release(over.value)
            if self._follow is not None:
                start(self._follow(over.value))
            return
        if self._flow is None:
            # It was ended from within itself.
            flow.close()
        else:
            awaited.then(self.step)

    def end(self) -> None:
        """Leave the flow where it waits. Its `finally` clauses give back what it holds, and nothing is released."""
        flow, self._flow = self._flow, None
        if flow is not None and getcoroutinestate(flow) != CORO_RUNNING:
            flow.close()


def begin(flow: Flow[T]) -> T | Task[T]:
    """Take a flow's steps up to its first wait: what it returns if it is over by then, else the task that goes on."""
    try:
        awaited = flow.send(None)
    except StopIteration as over:
        value: T = over.value
        return value
    task = Task(flow)
    awaited.then(task.step)
    return task


def start(flow: Flow[T], then: Callable[[T], Flow[None]] | None = None) -> Task[T]:
    """Take a flow's steps up to its first wait. It goes on by itself, and so does the flow that `then` makes behind it."""
    task = Task(flow, then)
    task.step()
    return task


async def sleep(clock: Clock, delay_ms: float) -> None:
    over: Parked[None] = Parked()
    timer = clock.call_later(delay_ms, lambda: over.release(None))
    try:
        await over
    finally:
        timer.cancel()

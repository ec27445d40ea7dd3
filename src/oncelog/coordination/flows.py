"""Flows: coroutines that wait for `Promise` values and for nothing else.

A flow runs until it waits. It goes on in the very call that releases what it waits for, so no event loop is needed, and two
runs with the same inputs take the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from inspect import CORO_RUNNING, getcoroutinestate
from typing import Any, Generic, TypeVar

from oncelog.environment import Clock

T = TypeVar("T")
_EMPTY: object = object()


class Promise(Generic[T]):
    """A value that comes once. Flows `await` it, and go on in the order in which they began to wait."""

    __slots__ = ("_callbacks", "_value")

    def __init__(self) -> None:
        self._value: object = _EMPTY
        self._callbacks: list[Callable[[T], None]] = []

    @classmethod
    def ready(cls, value: T) -> Promise[T]:
        promise: Promise[T] = cls()
        promise._value = value
        return promise

    @property
    def is_resolved(self) -> bool:
        return self._value is not _EMPTY

    @property
    def value(self) -> T:
        assert self._value is not _EMPTY, "the value is not there yet"
        return self._value  # type: ignore[return-value]

    def resolve(self, value: T) -> None:
        assert self._value is _EMPTY, "a promise is resolved once"
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value: now if it is there, else when it comes."""
        if self._value is _EMPTY:
            self._callbacks.append(callback)
        else:
            callback(self._value)  # type: ignore[arg-type]

    def __await__(self) -> Generator[Promise[Any], None, T]:
        if self._value is _EMPTY:
            yield self
        return self._value  # type: ignore[return-value]


Flow = Coroutine[Any, None, T]


class Task(Promise[T]):
    """A flow under way. It is resolved with what the flow returns; an error that leaves the flow leaves the step.

    `then` makes the flow that follows it, as a task of its own, once all that await this one have gone on.
    """

    __slots__ = ("_flow", "_follow")

    def __init__(self, flow: Flow[T], then: Callable[[T], Flow[None]] | None = None) -> None:
        super().__init__()
        self._flow: Flow[T] | None = flow
        self._follow = then

    def step(self, _: object = None) -> None:
        """Go on until the flow waits again, or is over. A flow that was ended goes on no more."""
        flow = self._flow
        if flow is None:
            return
        try:
            awaited = flow.send(None)
        except StopIteration as over:
            self._flow = None
            self.resolve(over.value)
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
    """Take a flow's steps up to its first wait. Returns its value if it is over by then, else the task that goes on."""
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
    over: Promise[None] = Promise()
    timer = clock.call_later(delay_ms, lambda: over.resolve(None))
    try:
        await over
    finally:
        timer.cancel()


class OneAtATime:
    """A lock for flows. `enter` waits for those that came before; a flow that has entered must `leave`, whatever happens."""

    __slots__ = ("_is_held", "_waiting")

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Promise[None]] = deque()

    async def enter(self) -> None:
        if not self._is_held:
            self._is_held = True
            return
        turn: Promise[None] = Promise()
        self._waiting.append(turn)
        try:
            await turn
        except GeneratorExit:
            self._give_up(turn)
            raise

    def leave(self) -> None:
        if self._waiting:
            # The next one holds it from this moment on.
            self._waiting.popleft().resolve(None)
        else:
            self._is_held = False

    def _give_up(self, turn: Promise[None]) -> None:
        """Take a flow that was ended out of the queue; where it has been given its turn, hand that on."""
        if turn.is_resolved:
            self.leave()
        else:
            self._waiting.remove(turn)

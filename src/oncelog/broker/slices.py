"""Long work in slices, or beside: meanwhile everybody else is served.

In a simulation time stands still, and all of it is one slice, or, with a SLICE_MS of 0, each step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from oncelog.coordination import Promise, sleep
from oncelog.environment import Clock, RefusedError, Workers

S = TypeVar("S")
T = TypeVar("T")

SLICE_MS = 4
NO_MEMORY = "the machine has no memory for it"
PAUSE_MS = 1
"""Work that comes this soon after a slice belongs to it: it is of the same moment, and nobody was served in between."""


class Slices:
    """One piece of work after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._works: deque[tuple[Iterator[object], Promise[None]]] = deque()
        self._is_under_way = False
        self._began_ms = self._ended_ms = float("-inf")

    def run(self, work: Iterable[object]) -> Promise[None]:
        """Take the steps of `work`, each of which is short; resolves when there are no more.

        The first ones are taken at once if there is time. Topics, groups and partitions may come and go between two
        steps: `work` has to look again at what it goes on with.
        """
        over: Promise[None] = Promise()
        self._works.append((iter(work), over))
        if not self._is_under_way:
            now_ms = self._clock.monotonic_ms()
            if now_ms > self._ended_ms + PAUSE_MS:
                self._began_ms = now_ms
            if now_ms < self._began_ms + SLICE_MS:
                self._go_on()
            else:
                self._rest()
        return over

    def apart(self) -> Slices:
        """Others, behind which nobody waits who waits for these."""
        return Slices(self._clock)

    def stop(self) -> None:
        """Leave what is under way where it is: the next start finds it in the journal."""
        self._works.clear()
        self._is_under_way = True

    def _again(self) -> None:
        self._began_ms = self._clock.monotonic_ms()
        self._go_on()

    def _go_on(self) -> None:
        """Take a step, and others as long as there is time."""
        self._is_under_way = True
        end_ms = self._began_ms + SLICE_MS
        while self._works:
            steps, over = self._works[0]
            if next(steps, self) is self:
                self._works.popleft()
                over.resolve(None)
            if self._works and self._clock.monotonic_ms() >= end_ms:
                self._rest()
                return
        self._is_under_way = False
        self._ended_ms = self._clock.monotonic_ms()

    def _rest(self) -> None:
        self._is_under_way = True
        self._clock.call_later(0, self._again)


class Turn:
    """How long a flow has kept everybody waiting since it last rested."""

    __slots__ = ("_clock", "_end_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin()

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_ms() >= self._end_ms

    async def each(self, items: Iterable[S], do: Callable[[S], T]) -> tuple[T, ...]:
        """Apply `do` to each. Others are served in between: `do` has to look up topics and partitions again."""
        made: list[T] = []
        for item in items:
            made.append(do(item))
            if self.is_over:
                await self.rest()
        return tuple(made)

    async def rest(self) -> None:
        await sleep(self._clock, 0)
        self.begin()

    def begin(self) -> None:
        """Others have been served: from now on there is a whole slice again."""
        self._end_ms = self._clock.monotonic_ms() + SLICE_MS


async def beside(workers: Workers, work: Callable[[], T], *, is_long: bool) -> T:
    """Have work done on another thread. It may use nothing that the broker changes.

    Raises RefusedError where there is no memory or no thread for it.
    """
    over: Promise[T | MemoryError] = Promise()
    job = workers.run(partial(_or_no_memory, work), over.resolve, is_long=is_long)
    try:
        done = await over
    finally:
        job.cancel()
    if isinstance(done, MemoryError):
        raise RefusedError(NO_MEMORY)
    return done


def _or_no_memory(work: Callable[[], T]) -> T | MemoryError:
    try:
        return work()
    except MemoryError as error:
        # What it was about is kept by the frames of the error.
        return error.with_traceback(None)


def parts(items: Iterable[S], size: int) -> Iterator[tuple[S, ...]]:
    """So many items at a time; one part that is empty where there are none."""
    left = iter(items)
    part = tuple(islice(left, size))
    yield part
    while len(part) == size and (part := tuple(islice(left, size))):
        yield part

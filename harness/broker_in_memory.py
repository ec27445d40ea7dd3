"""A whole broker on a disk in memory and a clock that the test moves, asked with real requests, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from harness.manual_clock import ManualClock
from harness.memory_disk import CuttingDisk, MemoryFile
from harness.wire import parse, request_payload
from oncelog.broker import BrokerCore, Endpoint, Environment
from oncelog.coordination import Promise, Task
from oncelog.environment import DiskError, Syncable

DIRECTORY = "/data"
T = TypeVar("T")


class SteppedDisk(CuttingDisk):
    """Makes nothing durable until it is told to take a step: one file, or one piece of background work.

    A file is durable then as it was when that was asked for: what has joined it since is not.
    """

    def __init__(self, seed: int = 0, now_ms: Callable[[], int] = lambda: 0) -> None:
        super().__init__(seed, now_ms)
        self.steps: deque[Callable[[], None]] = deque()
        self._counted: str | None = None
        self._changes_left = 0

    def count_down(self, directory: str, changes: int) -> None:
        """Let the disk of a directory fail after so many changes of it."""
        self._counted, self._changes_left = directory, changes

    def fill_up(self, changes: int) -> None:
        """Let the disk be full after so many changes of it."""
        self._counted, self._changes_left = "", changes

    def work_again(self) -> None:
        """The disks fail no more, and have room."""
        self._counted = None
        self.failing.clear()
        self.space_bytes = None

    @property
    def countdown_is_over(self) -> bool:
        return self._changes_left < 0

    def changed(self, path: str) -> None:
        if self._counted is not None and path.startswith(f"{self._counted}/"):
            self._changes_left -= 1
            if self._changes_left < 0:
                if self._counted:
                    self.failing.add(self._counted)
                else:
                    self.space_bytes = 0
                self._counted = None
        super().changed(path)

    def sync(self, files: Sequence[Syncable], done: Callable[[DiskError | None], None]) -> None:
        missing = len(files)
        failure: DiskError | None = None
        if not missing:
            done(None)

        def step(sync: Callable[[], None]) -> None:
            nonlocal missing, failure
            try:
                sync()
            except DiskError as error:
                failure = error
            missing -= 1
            if not missing:
                done(failure)

        for file in files:
            sync = partial(file.sync_as_of, file.mark()) if isinstance(file, MemoryFile) else file.sync
            self.steps.append(partial(step, sync))

    def in_background(self, work: Callable[[], None], done: Callable[[DiskError | None], None]) -> None:
        def step() -> None:
            try:
                work()
            except DiskError as error:
                done(error)
            else:
                done(None)

        self.steps.append(step)

    def take_step(self) -> bool:
        if not self.steps:
            return False
        self.steps.popleft()()
        return True

    def take_any_step(self, random: Random) -> bool:
        """What was asked for first need not be over first."""
        self.steps.rotate(random.randrange(len(self.steps)) if self.steps else 0)
        return self.take_step()

    def kill(self) -> None:
        self.steps.clear()
        super().kill()


class Done:
    """A job that is over."""

    def cancel(self) -> None:
        return


class WorkersAtOnce:
    """Does what it is given on the spot."""

    def run(self, work: Callable[[], T], done: Callable[[T], None], *, is_long: bool) -> Done:
        done(work())
        return Done()


class CountingRandom:
    """Numbers that are different each time and the same in each run."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count)

    def fraction(self) -> float:
        self._count += 1
        return (self._count % 997) / 997


class ClientConnection:
    """Stands for a socket: it notes that it was closed, and why."""

    listener = "PLAINTEXT"
    principal: str | None = None
    peer_host = "test"
    numbers = count(1)

    def __init__(self) -> None:
        self.number = self.peer_port = next(self.numbers)
        self.closed: str | None = None

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        return Promise.ready(max(most_bytes, least_bytes))

    def close(self, reason: str | None = None) -> None:
        self.closed = reason or ""


class Reply:
    """An answer that may come later."""

    def __init__(self, api: str, version: int) -> None:
        self._api = api
        self._version = version
        self.message: Any = None
        self.came = False
        self.waiting: Promise[Any] | None = None

    def end(self) -> None:
        """What a connection does with a request that waits when it is closed."""
        assert isinstance(self.waiting, Task), "the request does not wait"
        self.waiting.end()

    def take(self, chunks: list[Any] | None) -> None:
        self.came = True
        if chunks is not None:
            frame = b"".join(bytes(chunk) for chunk in chunks)
            self.message = parse(self._api, self._version, frame[4:])


class BrokerInMemory:
    """Starts on what the disk holds; `restart` after `disk.crash()` or `disk.kill()` starts again on what is left."""

    def __init__(
        self,
        disk: SteppedDisk,
        clock: ManualClock,
        directories: Sequence[str] = (DIRECTORY,),
        *,
        in_turns: bool = False,
        **settings: str,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.failures: list[DiskError] = []
        self.random = CountingRandom()
        self.connection = ClientConnection()
        self.client_id = "tests"
        self.directories = directories
        self.in_turns = in_turns
        # A whole one would be most of what there is to a broker in memory.
        self._settings = {"log.dir.reserve.bytes": "0"} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        self.restart()

    def restart(self) -> None:
        self.clock.forget_timers()
        environment = Environment(self.clock, self.disk, WorkersAtOnce(), self.random)
        self.core = BrokerCore(
            environment, self.directories, self._settings, self.failures.append, in_turns=self.in_turns
        )
        self.core.serve_at([Endpoint("PLAINTEXT", "memory", 9092)])

    def send(self, api: str, version: int, **fields: Any) -> Reply:
        reply = Reply(api, version)
        payload = request_payload(api, version, fields, self.client_id)
        answer = self.core.receive(self.connection, memoryview(payload))
        if isinstance(answer, Promise):
            reply.waiting = answer
            answer.then(reply.take)
        else:
            reply.take(answer)
        return reply

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send, take as many steps of the disk as the answer needs, and return it."""
        reply = self.send(api, version, **fields)
        while not reply.came:
            assert self.disk.take_step(), f"{api} is not answered, and nothing is left to wait for"
        return reply.message

    def settle(self) -> None:
        while self.disk.take_step():
            pass

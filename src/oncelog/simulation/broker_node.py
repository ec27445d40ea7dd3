"""A node with the real broker: it starts on its disk, serves connections, and dies in every way a process can."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from oncelog.broker import BrokerCore, Endpoint, Environment
from oncelog.broker.storage.topics import Topic
from oncelog.client.values import Address
from oncelog.coordination import Promise, Task
from oncelog.environment import DiskError
from oncelog.simulation.disk import ProcessEndedError, SimulatedDisk
from oncelog.simulation.events import Event, EventQueue, Process, ProcessClock
from oncelog.simulation.network import Listener, Network, StreamEnd
from oncelog.wire import FRAME_LENGTH, WireError

T = TypeVar("T")
WORK_MS, BUSY_WORK_MS = (0.1, 20.0), (1.0, 500.0)
BUSY_MS = 3.0
RETRY_START_MS = 1_000.0


class SimulationFailure(AssertionError):
    """An invariant does not hold. The same seed fails again."""


class SimulatedWorkers:
    """Work is done later, at one go; while `is_busy`, much later."""

    def __init__(self, process: Process, random: Random, is_busy: Callable[[], bool]) -> None:
        self._process = process
        self._random = random
        self._is_busy = is_busy

    def run(self, work: Callable[[], T], done: Callable[[T], None], *, is_long: bool) -> Event:
        factor = 10 if is_long else 1
        work_ms = BUSY_WORK_MS if self._is_busy() else WORK_MS
        return self._process.after(self._random.uniform(*work_ms) * factor, "work", lambda: done(work()))


class BusyClock(ProcessClock):
    """A clock whose timers are late while `is_busy`."""

    def __init__(
        self, process: Process, jump_ms: Callable[[], float], pace: float, random: Random, is_busy: Callable[[], bool]
    ) -> None:
        super().__init__(process, jump_ms, pace)
        self._random = random
        self._is_busy = is_busy

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        if self._is_busy():
            delay_ms += self._random.uniform(0.0, BUSY_MS)
        return super().call_later(delay_ms, callback)


class SimulatedRandom:
    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def fraction(self) -> float:
        return self._random.random()


class ServedConnection:
    """Serves one request at a time, as the real one does."""

    def __init__(self, node: BrokerNode, core: BrokerCore, end: StreamEnd) -> None:
        node.accepted += 1
        self.number = self.peer_port = node.accepted
        self.listener = "PLAINTEXT"
        self.principal = None
        self.peer_host = end.other.process.node
        self._node = node
        self._core = core
        self._end = end
        self._buffer = bytearray()
        self._waiting: deque[bytes] = deque()
        self._is_answering = False
        self._is_serving = False
        self._api_key = -1
        self._task: Task[Any] | None = None
        end.received = self._received
        end.ended = lambda _: self._over()

    def reserve(self, most_bytes: int, least_bytes: int) -> Promise[int]:
        return Promise.ready(max(most_bytes, least_bytes))

    def close(self, reason: str | None = None) -> None:
        """`reason` is None when the client did nothing wrong."""
        if reason is not None:
            self._node.refused(reason)
        self._end.close()
        self._over()

    def _over(self) -> None:
        self._core.connection_closed(self)
        self._waiting.clear()
        task, self._task = self._task, None
        if task is not None:
            task.end()

    def _received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= FRAME_LENGTH.size:
            (size,) = FRAME_LENGTH.unpack_from(self._buffer)
            stop = FRAME_LENGTH.size + size
            if len(self._buffer) < stop:
                break
            self._waiting.append(bytes(self._buffer[FRAME_LENGTH.size : stop]))
            del self._buffer[:stop]
        self._serve()

    def _serve(self) -> None:
        self._is_serving = True
        try:
            while self._waiting and not self._is_answering and not self._end.is_closed:
                self._is_answering = True
                frame = self._waiting.popleft()
                self._api_key = int.from_bytes(frame[:2], "big")
                answer = self._core.receive(self, memoryview(frame))
                if isinstance(answer, Promise):
                    self._task = answer if isinstance(answer, Task) else None
                    answer.then(self._answer)
                else:
                    self._answer(answer)
        except WireError as error:
            self.close(str(error))
        finally:
            self._is_serving = False

    def _answer(self, chunks: Sequence[Any] | None) -> None:
        self._is_answering = False
        self._task = None
        if self._end.is_closed:
            return
        if chunks is not None:
            self._end.send(b"".join(chunks))
            for watcher in tuple(self._node.watchers):
                watcher(self._api_key, self._end)
        if self._waiting and not self._is_serving:
            self._end.process.after(0, "serve", self._serve)


class BrokerNode:
    """`failed` hears of what must not happen: a bug, a client that the broker does not understand."""

    def __init__(
        self,
        name: str,
        queue: EventQueue,
        network: Network,
        disk: SimulatedDisk,
        random: Random,
        settings: Mapping[str, str],
        directories: Sequence[str],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.address = Address(name, 9092)
        self.disk = disk
        self.jump_ms = 0.0
        self.pace = 1.0
        """How fast its clocks go."""
        self.core: BrokerCore | None = None
        self.process = Process(queue, name, failed)
        self.process.is_alive = False
        self.settings = settings
        self.starts = 0
        self.power_cuts = 0
        self.accepted = 0
        self.disk_deaths = 0
        self.is_disk_bad = False
        self.is_busy = False
        self.watchers: list[Callable[[int, StreamEnd], None]] = []
        """They hear of each answer that leaves: of which API, and on which connection."""
        self.ends: Callable[[BrokerCore], None] = lambda core: None
        """Hears of each process that ends, while it is still as it was."""
        self._queue = queue
        self._network = network
        self._random = random
        self.directories = directories
        self._failed = failed

    @property
    def is_up(self) -> bool:
        return self.core is not None and self.process.is_alive

    def topic(self, name: str) -> Topic | None:
        """A topic that is there now; None while the broker is down."""
        return None if self.core is None or not self.is_up else self.core.topics.named(name)

    def start(self) -> None:
        """Begin a process on what the disk has. The disk may end it before it is ready."""
        if self.process.is_alive:
            return
        process = self.process = Process(self._queue, self.name, self._error)
        self.disk.serve(process)
        try:
            core = BrokerCore(self.environment(process), self.directories, self.settings, self._stopped)
        except DiskError as error:
            self._disk_failed(error)
            return
        except ProcessEndedError:
            self._ended_in_step(power=self._random.random() < 0.5)
            return
        self.starts += 1
        core.serve_at([Endpoint("PLAINTEXT", self.name, 9092)])
        self.core = core
        self._network.listen(self.address, Listener(process, lambda end: self._accept(core, end)))

    def environment(self, process: Process) -> Environment:
        clock = BusyClock(process, lambda: self.jump_ms, self.pace, self._random, lambda: self.is_busy)
        workers = SimulatedWorkers(process, self._random, lambda: self.is_busy)
        return Environment(clock, self.disk, workers, SimulatedRandom(self._random))

    def stop(self) -> None:
        """As a signal stops it: the next start has nothing to repair."""
        core = self.core
        if core is not None and self.is_up:
            try:
                core.stop()
            except DiskError as error:
                self._disk_failed(error)
                return
            except ProcessEndedError:
                self._ended_in_step(power=True)
                return
            self._end(silently=False)
            self.disk.kill()

    def die(self, *, power: bool) -> None:
        """The process is killed, or the machine loses its power."""
        self._end(silently=power)
        if power:
            self.power_cuts += 1
            self.disk.crash()
        else:
            self.disk.kill()

    def refused(self, reason: str) -> None:
        self._failed(SimulationFailure(f"the broker closed the connection of one of our clients: {reason}"))

    def _accept(self, core: BrokerCore, end: StreamEnd) -> None:
        ServedConnection(self, core, end)

    def _error(self, error: BaseException) -> None:
        """Take an error that leaves a callback of the process. The broker may go on without the disk."""
        if self.core is not None:
            self.core.fail(error)
        else:
            self._stopped(error)

    def _stopped(self, error: BaseException) -> None:
        if isinstance(error, DiskError):
            self._disk_failed(error)
        else:
            self._failed(error)

    def _ended_in_step(self, *, power: bool) -> None:
        """The disk has ended it while it started or stopped."""
        self.die(power=power)

    def _disk_failed(self, error: DiskError) -> None:
        """The broker stops when the disk fails; somebody starts it again."""
        if not self.is_disk_bad:
            self._failed(error)
            return
        self.disk_deaths += 1
        self.die(power=False)
        self._queue.after(RETRY_START_MS, f"{self.name} start", self.start)

    def _end(self, *, silently: bool) -> None:
        process = self.process
        process.is_alive = False
        if self.core is not None:
            self.ends(self.core)
        self.core = None
        self._network.process_ended(process, silently=silently)

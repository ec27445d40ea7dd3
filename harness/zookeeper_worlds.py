"""A ZooKeeper and its clients, for tests that must hold on the model and on a real server."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from harness.relay import Relay
from harness.zookeeper import ZooKeeperEnsemble
from oncelog.cluster.zookeeper.session import Request, Result, Watched, ZooKeeper, ZooKeeperSessionState
from oncelog.coordination import Promise
from oncelog.environment import Clock
from oncelog.server.clock import RealClock
from oncelog.server.zookeeper import RealZooKeeper, parse_ensemble
from oncelog.simulation.cluster.zookeeper import SimulatedEnsemble, SimulatedZooKeeper
from oncelog.simulation.events import EventQueue, Process, ProcessClock
from oncelog.simulation.network import Network

SESSION_TIMEOUT_MS = 2000
PATIENCE_S = 30
SIMULATED_PATIENCE_MS = 600_000.0
FOR_EVER_MS = 1e12


class Heard:
    """What a client is told, in its order."""

    def __init__(self, client: ZooKeeper) -> None:
        self.all: list[Watched | ZooKeeperSessionState | Result] = []
        self.states: list[ZooKeeperSessionState] = []
        self.watched: list[Watched] = []
        client.on_session = self._on_session
        client.on_watched = self._on_watched

    def result(self, result: Result) -> None:
        self.all.append(result)

    def _on_session(self, state: ZooKeeperSessionState) -> None:
        self.all.append(state)
        self.states.append(state)

    def _on_watched(self, watched: Watched) -> None:
        self.all.append(watched)
        self.watched.append(watched)


class World(ABC):
    """One ensemble. `connect` gives a client that has a session, and `heard` what that one was told since."""

    clock: Clock

    def __init__(self) -> None:
        self.heard: dict[ZooKeeper, Heard] = {}

    def connect(self) -> ZooKeeper:
        client = self.new_client()
        heard = self.heard[client] = Heard(client)
        self.until(lambda: ZooKeeperSessionState.CONNECTED in heard.states)
        return client

    def ask(self, client: ZooKeeper, request: Request) -> Result:
        return self.wait(client.submit(request))

    def wait(self, promise: Promise[Result]) -> Result:
        self.until(lambda: promise.is_resolved)
        return promise.value

    @abstractmethod
    def new_client(self) -> ZooKeeper: ...

    @abstractmethod
    def until(self, is_so: Callable[[], bool]) -> None:
        """Let time pass until it is so."""

    @abstractmethod
    def rest(self, time_ms: float) -> None:
        """Let this much time pass."""

    @abstractmethod
    def cut(self, client: ZooKeeper, *, silently: bool = False) -> None:
        """Break its connection; there is none until it is mended."""

    @abstractmethod
    def mend(self, client: ZooKeeper) -> None: ...

    @abstractmethod
    def stop_ensemble(self) -> None: ...

    @abstractmethod
    def start_ensemble(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...


class SimulatedWorld(World):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.queue = EventQueue()
        self.network = Network(self.queue, Random(f"{seed}/network"))
        self.ensemble = SimulatedEnsemble(self.network, Random(f"{seed}/ensemble"))
        self._random = Random(f"{seed}/clients")
        self.processes: dict[ZooKeeper, Process] = {}
        self._errors: list[BaseException] = []
        self.clock = ProcessClock(Process(self.queue, "test", self._errors.append))

    def new_client(self) -> ZooKeeper:
        process = Process(self.queue, f"node-{len(self.processes)}", self._errors.append)
        client = SimulatedZooKeeper(self.ensemble, process, self._random, SESSION_TIMEOUT_MS)
        self.processes[client] = process
        return client

    def until(self, is_so: Callable[[], bool]) -> None:
        until_ms = self.queue.now_ms + SIMULATED_PATIENCE_MS
        while not is_so():
            assert self.queue.step(until_ms) is not None, "it did not come about"
            if self._errors:
                raise self._errors[0]

    def rest(self, time_ms: float) -> None:
        until_ms = self.queue.now_ms + time_ms
        while self.queue.step(until_ms) is not None:
            pass

    def cut(self, client: ZooKeeper, *, silently: bool = False) -> None:
        self.ensemble.cut_off(self.processes[client].node, FOR_EVER_MS, silently=silently)

    def mend(self, client: ZooKeeper) -> None:
        self.ensemble.heal()

    def stop_ensemble(self) -> None:
        self.ensemble.stop(FOR_EVER_MS)

    def start_ensemble(self) -> None:
        self.ensemble.heal()

    def end(self) -> None:
        for client in self.processes:
            client.close()


class RealWorld(World):
    """`connect_to` is HOST:PORT/CHROOT. Each client is connected through a relay of its own."""

    def __init__(self, connect_to: str, ensemble: ZooKeeperEnsemble | None = None) -> None:
        super().__init__()
        self._where = parse_ensemble(connect_to)
        self._ensemble = ensemble
        self._loop = asyncio.new_event_loop()
        self._relays: dict[ZooKeeper, Relay] = {}
        self._clients: list[RealZooKeeper] = []
        self._errors: list[BaseException] = []
        self.clock = RealClock(self._loop, self._guard)

    def new_client(self) -> ZooKeeper:
        return self._loop.run_until_complete(self._new_client())

    async def _new_client(self) -> ZooKeeper:
        relay = Relay(self._where.servers[0][1])
        await relay.start()
        ensemble = parse_ensemble(f"127.0.0.1:{relay.port}{self._where.chroot}")
        client = RealZooKeeper(ensemble, SESSION_TIMEOUT_MS, PATIENCE_S * 1000, self._guard)
        self._relays[client] = relay
        self._clients.append(client)
        return client

    def _guard(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            self._errors.append(error)

    def until(self, is_so: Callable[[], bool]) -> None:
        self._loop.run_until_complete(self._until(is_so))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = self._loop.time() + PATIENCE_S
        while not is_so():
            assert self._loop.time() < deadline, "it did not come about"
            await asyncio.sleep(0.001)
            if self._errors:
                raise self._errors[0]

    def rest(self, time_ms: float) -> None:
        self._loop.run_until_complete(asyncio.sleep(time_ms / 1000))

    def cut(self, client: ZooKeeper, *, silently: bool = False) -> None:
        relay = self._relays[client]
        if silently:
            relay.silence()
        else:
            relay.cut()

    def mend(self, client: ZooKeeper) -> None:
        self._relays[client].mend()

    def stop_ensemble(self) -> None:
        assert self._ensemble is not None, "this ensemble is not this test's own"
        self._ensemble.kill()

    def start_ensemble(self) -> None:
        assert self._ensemble is not None, "this ensemble is not this test's own"
        self._ensemble.start()

    def end(self) -> None:
        try:
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        for client in self._clients:
            client.close()
        await asyncio.gather(*(client.wait_closed() for client in self._clients))
        await asyncio.gather(*(relay.stop() for relay in self._relays.values()))

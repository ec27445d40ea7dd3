"""Whole brokers as one cluster over a simulated ZooKeeper, on disks in memory and one clock that runs only for the test."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import Buffer

from harness.broker_in_memory import ClientConnection, CountingRandom, Reply, WorkersAtOnce
from harness.memory_disk import MemoryDisk
from harness.wire import request_payload
from harness.zookeeper_worlds import SimulatedWorld
from oncelog.broker import BrokerCore, Endpoint, Environment
from oncelog.broker.readiness import Readiness
from oncelog.broker.storage.partition import Partition
from oncelog.coordination import Parked
from oncelog.environment import LinkListener
from oncelog.wire import FRAME_LENGTH

PORT = 9092
ON_THE_WAY_MS = 1
FEW = {
    "log.dir.reserve.bytes": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
"""A whole one would be most of what there is to a broker in memory."""


class LinkToBroker:
    """From one broker to another: frames arrive a little later, and answers in the order of the requests."""

    def __init__(self, cluster: ClusterOfCores, source: int, target: int, listener: LinkListener) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._listener = listener
        self._connection = ClientConnection()
        self._answers: deque[Parked[Any]] = deque()
        self._is_closed = False
        self._later(self._open)

    def send(self, chunks: Sequence[Buffer]) -> None:
        data = b"".join(chunks)
        self._later(lambda: self._cluster.arrive(self._source, lambda: self._ask(data[FRAME_LENGTH.size :])))

    def close(self) -> None:
        self._is_closed = True

    def _later(self, callback: Callable[[], None]) -> None:
        self._cluster.clock.call_later(ON_THE_WAY_MS, lambda: None if self._is_closed else callback())

    def _open(self) -> None:
        self._listener.opened(self)

    def _ask(self, payload: bytes) -> None:
        answer = self._cluster.brokers[self._target].receive(self._connection, memoryview(payload))
        parked: Parked[Any] = answer if isinstance(answer, Parked) else Parked.ready(answer)
        self._answers.append(parked)
        parked.then(lambda _: self._answer())

    def _answer(self) -> None:
        while self._answers and self._answers[0].is_released:
            chunks = self._answers.popleft().value
            if chunks is not None:
                frame = b"".join(bytes(chunk) for chunk in chunks)[FRAME_LENGTH.size :]
                self._later(lambda frame=frame: self._listener.received(memoryview(frame)))


class LinksOf:
    """The network, as one broker has it."""

    def __init__(self, cluster: ClusterOfCores, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> LinkToBroker:
        return LinkToBroker(self._cluster, self._broker_id, port - PORT, listener)


class ClusterOfCores:
    """Brokers 0, 1, … `racks` has where each of them is; `disks` their disks, whose directories a test may let fail."""

    def __init__(
        self,
        size: int = 3,
        *,
        directories: Sequence[str] = ("/home",),
        racks: Mapping[int, str] | None = None,
        **settings: str,
    ) -> None:
        self.world = SimulatedWorld()
        self.clock = self.world.clock
        self.failures: list[BaseException] = []
        self.disks = {number: MemoryDisk(number, self.clock.now_ms) for number in range(size)}
        self.brokers: dict[int, BrokerCore] = {}
        self._held: dict[int, list[Callable[[], None]]] = {}
        self._connection = ClientConnection()
        for number, disk in self.disks.items():
            own = {"zookeeper.connect": "here", "node.id": str(number)}
            if racks:
                own["broker.rack"] = racks[number]
            given = {name.replace("_", "."): value for name, value in settings.items()}
            environment = Environment(
                self.clock, disk, WorkersAtOnce(), CountingRandom(), LinksOf(self, number), self.world.connect()
            )
            core = BrokerCore(environment, directories, FEW | own | given, self.failures.append)
            core.serve_at([Endpoint("PLAINTEXT", "memory", PORT + number)])
            self.brokers[number] = core
        self.until(lambda: all(self._knows_all(core) for core in self.brokers.values()))

    def _knows_all(self, core: BrokerCore) -> bool:
        return core.progress.reached is Readiness.COORDINATORS and len(core.view.at("PLAINTEXT").brokers()) == len(
            self.brokers
        )

    @property
    def controller(self) -> int:
        (number,) = [number for number, core in self.brokers.items() if core.controller.is_active]
        return number

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let time pass until it is so."""
        self.world.until(lambda: bool(self.failures) or is_so())
        if self.failures:
            raise self.failures[0]

    def rest(self, time_ms: float) -> None:
        self.world.rest(time_ms)

    def hold(self, broker_id: int) -> None:
        """What this broker asks of others stays on the way until `let_go`."""
        self._held.setdefault(broker_id, [])

    def let_go(self, broker_id: int) -> None:
        for arrive in self._held.pop(broker_id, ()):
            arrive()

    def arrive(self, source: int, arrive: Callable[[], None]) -> None:
        if source in self._held:
            self._held[source].append(arrive)
        else:
            arrive()

    def send(self, broker_id: int, api: str, version: int, **fields: Any) -> Reply:
        reply = Reply(api, version)
        payload = request_payload(api, version, fields, "tests")
        answer = self.brokers[broker_id].receive(self._connection, memoryview(payload))
        if isinstance(answer, Parked):
            reply.waiting = answer
            answer.then(reply.take)
        else:
            reply.take(answer)
        return reply

    def ask(self, broker_id: int, api: str, version: int, **fields: Any) -> Any:
        return self.answer(self.send(broker_id, api, version, **fields))

    def answer(self, reply: Reply) -> Any:
        self.until(lambda: reply.came)
        return reply.message

    def partition(self, broker_id: int, topic: str, index: int = 0) -> Partition:
        found = self.brokers[broker_id].topics.partition(topic, index)
        assert found is not None, f"broker {broker_id} knows of no {topic}-{index}"
        return found

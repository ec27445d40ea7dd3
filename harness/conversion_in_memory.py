"""A broker that was alone, in memory, and an operator who makes it the first one of a cluster: as often as a test ends him."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from harness.broker_in_memory import ClientConnection, Reply
from harness.cluster_in_memory import SESSION_TIMEOUT_MS, ClusterInMemory
from harness.transaction_in_memory import ProducerInMemory
from harness.wire import request_payload
from oncelog.broker import BrokerCore, Settings
from oncelog.broker.storage.journal import FILE_NAME
from oncelog.cluster.conversion import Converted, convert, read_left_alone
from oncelog.cluster.zookeeper.session import Request, Result
from oncelog.coordination import Promise, start
from oncelog.log import LogDirectories
from oncelog.simulation.broker_node import BrokerNode
from oncelog.simulation.cluster.zookeeper import SimulatedZooKeeper
from oncelog.simulation.disk import ProcessEndedError, SimulatedDisk
from oncelog.simulation.events import Process

BROKER_ID = 1
DIRECTORY = "/data"
ALONE = {
    "log.dir.reserve.bytes": "0",
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class AskedBroker:
    """A broker that is asked as one in memory that is alone: by the handlers' own messages, one request at a time."""

    def __init__(self, world: ConversionInMemory, core: Callable[[], BrokerCore]) -> None:
        self._world = world
        self._core = core
        self._connection = ClientConnection()
        self.clock = world.clock

    @property
    def core(self) -> BrokerCore:
        return self._core()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        reply = self.send(api, version, **fields)
        self._world.until(lambda: reply.came)
        return reply.message

    def send(self, api: str, version: int, **fields: Any) -> Reply:
        reply = Reply(api, version)
        answer = self.core.receive(self._connection, memoryview(request_payload(api, version, fields, "tests")))
        if isinstance(answer, Promise):
            answer.then(reply.take)
        else:
            reply.take(answer)
        return reply

    def settle(self) -> None:
        self._world.rest(50)


class Operator:
    """A process that converts. It ends after so many requests to ZooKeeper, or as the disk says, or when it is done."""

    def __init__(self, world: ConversionInMemory, requests_left: int | None) -> None:
        self.process = Process(world.queue, "operator", world.errors.append)
        self._client = SimulatedZooKeeper(world.ensemble, self.process, Random("operator"), SESSION_TIMEOUT_MS)
        self._requests_left = requests_left
        self.requests = 0
        self._disturb = world.disturb

    def submit(self, request: Request) -> Promise[Result]:
        self.requests += 1
        if self._requests_left is not None and self.requests > self._requests_left:
            raise ProcessEndedError(self.process.node)
        self._disturb(self.requests)
        return self._client.submit(request)

    def close(self) -> None:
        self._client.close()


class ConversionInMemory(ClusterInMemory):
    """Broker 1 has its directories; broker 2 of the cluster that it becomes has nothing yet."""

    def __init__(self, seed: int = 0, directories: Sequence[str] = (DIRECTORY,), **settings: str) -> None:
        super().__init__(BROKER_ID, 2, seed=seed, **settings)
        self.alone = BrokerNode(
            "alone",
            self.queue,
            self.network,
            self.disk,
            Random(f"{seed}/alone"),
            ALONE,
            directories,
            self.errors.append,
        )
        self.disk.lose_by(Random(f"{seed}/power"))
        self.directories = directories
        self.nodes[BROKER_ID].directories = directories
        self.broker = AskedBroker(self, self._running)
        self.producer: ProducerInMemory
        """Whose transaction is open, where a test has one."""
        self.operator: Operator | None = None
        self.disturb: Callable[[int], None] = lambda _: None
        """Hears of each request of the operator before it is handed in: of the how-manieth."""

    @property
    def disk(self) -> SimulatedDisk:
        return self.nodes[BROKER_ID].disk

    def _running(self) -> BrokerCore:
        core = self.alone.core or self.nodes[BROKER_ID].core
        assert core is not None, "neither runs"
        return core

    def start_alone(self) -> None:
        self.alone.start()
        self.rest(50)

    def stop_alone(self) -> None:
        self.alone.stop()

    def start_member(self) -> None:
        self.start_served(BROKER_ID)
        self.rest(500)

    def convert(self, requests_left: int | None = None, **settings: str) -> Converted | None:
        """What came of it; None if the operator's process ended before. Raises what stopped it."""
        given = {"zookeeper.connect": "zookeeper:2181", "broker.id": str(BROKER_ID)}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        operator = self.operator = Operator(self, requests_left)
        self.disk.serve(operator.process)
        directories: LogDirectories | None = None
        try:
            directories = LogDirectories(self.disk, self.directories, FILE_NAME)
            done = start(convert(read_left_alone(self.disk, directories, Settings(given)), operator))
            while not done.is_resolved:
                assert self.queue.step(self.queue.now_ms + 60_000) is not None, "nothing is left to wait for"
                if self.errors:
                    raise self.errors.pop()
        except ProcessEndedError:
            return None
        else:
            return done.value
        finally:
            operator.close()
            self.rest(50)
            operator.process.is_alive = False
            self.network.process_ended(operator.process, silently=False)
            self.disk.operations_left = None
            if directories is not None:
                directories.release()

    def data(self, path: str) -> bytes | None:
        """What ZooKeeper has there; None if there is no such node."""
        node = self.ensemble.tree.node(path)
        return None if node is None else node.data

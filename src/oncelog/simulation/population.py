"""The clients of a run: how many of each kind, their patience, and a last one that reads everything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random

from oncelog.client.consumer.core import ConsumedRecord
from oncelog.client.net.settings import ClientSettings
from oncelog.client.values import Address, IsolationLevel, TopicPartition
from oncelog.simulation import workload
from oncelog.simulation.clients import ClientNode
from oncelog.simulation.events import EventQueue, stream
from oncelog.simulation.network import Network
from oncelog.simulation.report import Driver
from oncelog.simulation.transport import Play

Plays = dict[str, Callable[[ClientNode], Play]]


class Population:
    def __init__(
        self,
        seed: int,
        queue: EventQueue,
        network: Network,
        driver: Driver,
        shared: workload.Shared,
        addresses: Sequence[Address],
        call_timeouts_ms: Sequence[int],
    ) -> None:
        self._seed = seed
        self._queue = queue
        self._network = network
        self._driver = driver
        self._shared = shared
        self._addresses = tuple(addresses)
        self._call_timeouts_ms = call_timeouts_ms

    def plays(self, draw: Random, *, plain_min: int, protocol: Callable[[], str], followed: float) -> Plays:
        """The writers, copiers, followers and readers by name. `followed` is the probability of a follower."""
        plays: Plays = {}
        shared = self._shared
        for number in range(draw.randrange(1, 4)):
            plays[f"writer-{number}"] = self._writer(f"id-{number}")
        if draw.random() < 0.5:
            plays["writer-zombie"] = self._writer("id-0")
        for number in range(draw.randrange(plain_min, 3)):
            plays[f"plain-{number}"] = lambda node: workload.write_plain(node, shared)
        spoken = protocol()
        for number in range(draw.randrange(1, 4)):
            plays[f"copier-{number}"] = lambda node: workload.copy(node, shared, spoken)
        if draw.random() < followed:
            plays["follower"] = lambda node: workload.follow(node, shared, spoken)
        for level in draw.choice((list(IsolationLevel), [IsolationLevel.READ_COMMITTED])):
            plays[f"reader-{level.name}"] = partial(workload.read, shared=shared, isolation_level=level)
        return plays

    def _writer(self, transactional_id: str) -> Callable[[ClientNode], Play]:
        return lambda node: workload.write_in_transactions(node, self._shared, transactional_id)

    def all_of(self, plays: Plays) -> list[ClientNode]:
        return [self.client(name, play) for name, play in plays.items()]

    def client(self, name: str, play: Callable[[ClientNode], Play]) -> ClientNode:
        random = stream(self._seed, f"client {name}")
        settings = ClientSettings(
            self._addresses,
            client_id=name,
            request_timeout_ms=random.choice((1_000, 5_000, 30_000)),
            connect_timeout_ms=random.choice((500, 3_000)),
            call_timeout_ms=random.choice(self._call_timeouts_ms),
        )
        driver, history = self._driver, self._shared.history
        return ClientNode(name, self._queue, self._network, settings, random, play, driver.failed, history.died)

    def read_all(
        self, partitions: Collection[TopicPartition], within_ms: float
    ) -> dict[TopicPartition, list[ConsumedRecord]]:
        """The records that a reader of read_committed gets."""
        view: dict[TopicPartition, list[ConsumedRecord]] = {}
        judge = self.client("judge", lambda node: workload.read_all(node, partitions, view))
        self._driver.finish("reading everything", judge, within_ms)
        return view


def busy_client(clients: Collection[ClientNode], prefixes: tuple[str, ...] = ("",)) -> str | None:
    """One whose name begins so and that has not come to its end."""
    return next((one.name for one in clients if one.name.startswith(prefixes) and not one.is_done), None)


def ends_of(view: Mapping[TopicPartition, Sequence[ConsumedRecord]]) -> dict[TopicPartition, int]:
    """The end of the last record in each partition that has one."""
    return {one: records[-1].offset + 1 for one, records in view.items() if records}


def uncopied(ends: Mapping[TopicPartition, int], committed: Callable[[str, TopicPartition], int]) -> str | None:
    """A partition of the input of which the copiers have not committed everything."""
    for one, end in ends.items():
        offset = committed(workload.GROUP, one)
        if offset < end:
            return f"{one.topic}-{one.partition}: {offset} of {end}"
    return None

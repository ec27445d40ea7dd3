"""A connection of a client to the ensemble: messages both ways, in order, until it breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from oncelog.cluster.zookeeper.session import NodeChange, Result
from oncelog.simulation.events import Process
from oncelog.simulation.network import Network

ENSEMBLE = "zookeeper"
"""The node that the network knows the ensemble as."""

Message = Callable[[], None]


class EnsembleClient(Protocol):
    """Callbacks of the ensemble to a client over its connection. `zxid` is the ensemble's last transaction."""

    def welcomed(self, link: EnsembleLink, session_id: int) -> None: ...
    def expired(self, link: EnsembleLink) -> None: ...
    def answered(self, result: Result, zxid: int) -> None: ...
    def changed(self, change: NodeChange, path: str) -> None: ...
    def pinged(self) -> None: ...
    def lost(self, link: EnsembleLink) -> None: ...


class EnsembleLink:
    """The client's end hears nothing once it has broken; what it had sent may still arrive, as far as the network took it."""

    def __init__(self, network: Network, process: Process, client: EnsembleClient) -> None:
        self.process = process
        self.client = client
        self.is_broken = False
        self._network = network
        self._asked: deque[Message] = deque()
        self._answered: deque[Message] = deque()
        self._asked_ms = self._answered_ms = 0.0

    @property
    def node(self) -> str:
        return self.process.node

    def ask(self, message: Message) -> None:
        """From the client to the ensemble."""
        if self.is_broken:
            return
        self._asked.append(message)
        self._asked_ms = max(self._asked_ms, self._network.arrival_ms(self.node, ENSEMBLE))
        self._network.queue.at(self._asked_ms, f"{ENSEMBLE} hears {self.node}", self._arrive)

    def answer(self, message: Message) -> None:
        """From the ensemble to the client. A process that has stood still hears it in order, too, whenever it goes on."""
        self._answered.append(message)
        self._answered_ms = max(self._answered_ms, self._network.arrival_ms(ENSEMBLE, self.node))
        label = f"{self.node} hears {ENSEMBLE}"
        self._network.queue.at(self._answered_ms, label, self._deliver, self.process)

    def break_off(self, random: Random) -> None:
        """Breaks the connection. A random prefix of the requests on the way arrives, and nothing reaches the client."""
        self.is_broken = True
        for _ in range(random.randint(0, len(self._asked))):
            self._asked.pop()

    def _arrive(self) -> None:
        if self._asked:
            self._asked.popleft()()

    def _deliver(self) -> None:
        message = self._answered.popleft()
        if not self.is_broken:
            message()

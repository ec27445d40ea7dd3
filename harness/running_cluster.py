"""A cluster in memory whose brokers all run. It is asked by the handlers' own messages, without a network in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from typing_extensions import Buffer

from harness.broker_in_memory import ClientConnection, Reply
from harness.cluster_in_memory import ClusterInMemory
from harness.wire import request_payload
from oncelog.broker import BrokerCore
from oncelog.coordination import Promise
from oncelog.environment import BrokerNetwork, Link, LinkListener
from oncelog.simulation.cluster.member_node import MemberNode
from oncelog.simulation.disk import SimulatedDisk
from oncelog.simulation.events import Process

FEW = {
    "zookeeper.connect": "here",
    "zookeeper.session.timeout.ms": "2000",
    "log.dir.reserve.bytes": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
"""A whole one would be most of what there is to a broker in memory."""


class HoldingLink:
    """A link of a broker whose requests may be held."""

    def __init__(self, node: HoldingNode, link: Link) -> None:
        self._node = node
        self._link = link

    def send(self, chunks: Sequence[Buffer]) -> None:
        if self._node.held is None:
            self._link.send(chunks)
        else:
            data = b"".join(chunks)
            self._node.held.append(lambda: self._link.send([data]))

    def close(self) -> None:
        self._link.close()


class HoldingNetwork:
    def __init__(self, node: HoldingNode, network: BrokerNetwork) -> None:
        self._node = node
        self._network = network

    def connect(self, host: str, port: int, listener: LinkListener, *, timeout_ms: int) -> Link:
        return HoldingLink(self._node, self._network.connect(host, port, listener, timeout_ms=timeout_ms))


class HoldingNode(MemberNode):
    held: list[Callable[[], None]] | None = None
    """What it has asked of others and what stays on the way, if anything is to."""

    def links(self, process: Process) -> BrokerNetwork:
        return HoldingNetwork(self, super().links(process))


class RunningCluster(ClusterInMemory):
    """Brokers 0, 1, … `racks` has where each of them is; `disks` their disks, whose directories a test may let fail."""

    defaults = FEW

    def __init__(
        self,
        size: int = 3,
        *,
        directories: Sequence[str] = ("/home",),
        racks: Mapping[int, str] | None = None,
        **settings: str,
    ) -> None:
        super().__init__(*range(size), **settings)
        self._connection = ClientConnection()
        for number, node in self.nodes.items():
            node.directories = directories
            if racks:
                node.settings = {**node.settings, "broker.rack": racks[number]}
        self.start_served(*self.nodes)
        self.until(lambda: all(len(core.view.at("PLAINTEXT").brokers()) == size for core in self.brokers.values()))

    def new_node(self, broker_id: int, disk: SimulatedDisk, random: Random) -> MemberNode:
        return HoldingNode(
            broker_id, self.queue, self.network, self.ensemble, disk, random, self.settings, self.errors.append
        )

    @property
    def brokers(self) -> dict[int, BrokerCore]:
        return {number: self.core(number) for number in self.nodes}

    @property
    def disks(self) -> dict[int, SimulatedDisk]:
        return {number: node.disk for number, node in self.nodes.items()}

    @property
    def controller(self) -> int:
        (number,) = [number for number, core in self.brokers.items() if core.metadata.controller.is_active]
        return number

    def hold(self, broker_id: int) -> None:
        """What this broker asks of others stays on the way until `let_go`."""
        node = self.nodes[broker_id]
        assert isinstance(node, HoldingNode)
        node.held = node.held or []

    def let_go(self, broker_id: int) -> None:
        node = self.nodes[broker_id]
        assert isinstance(node, HoldingNode)
        held, node.held = node.held or (), None
        for send in held:
            send()

    def cut_off(self, broker_id: int) -> None:
        """It has no ZooKeeper until that heals."""
        self.ensemble.cut_off(self.nodes[broker_id].name, float("inf"))

    def call(self, broker_id: int, api: str, version: int, **fields: Any) -> Reply:
        reply = Reply(api, version)
        payload = request_payload(api, version, fields, "tests")
        answer = self.core(broker_id).receive(self._connection, memoryview(payload))
        if isinstance(answer, Promise):
            reply.waiting = answer
            answer.then(reply.take)
        else:
            reply.take(answer)
        return reply

    def answer_of(self, broker_id: int, api: str, version: int, **fields: Any) -> Any:
        return self.answer(self.call(broker_id, api, version, **fields))

    def answer(self, reply: Reply) -> Any:
        self.until(lambda: reply.came)
        return reply.message

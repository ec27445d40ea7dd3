"""Connections to the other brokers, one for each purpose and broker."""

from __future__ import annotations

from collections.abc import Container

from oncelog.broker.view import ClusterNode
from oncelog.cluster.channel import Channel
from oncelog.environment import BrokerNetwork, Clock, Random


class Channels:
    """A channel to each broker that was asked for. A broker that has moved gets another one."""

    def __init__(self, network: BrokerNetwork, clock: Clock, random: Random, client_id: str) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._client_id = client_id
        self._channels: dict[int, tuple[ClusterNode, Channel]] = {}

    def to(self, node: ClusterNode) -> Channel:
        known = self._channels.get(node.node_id)
        if known is not None:
            if (known[0].host, known[0].port) == (node.host, node.port):
                return known[1]
            known[1].close()
        channel = Channel(self._network, self._clock, self._random, node.node_id, node.host, node.port, self._client_id)
        self._channels[node.node_id] = node, channel
        return channel

    def keep(self, alive: Container[int]) -> None:
        """Close those to brokers that are not alive: whoever waits for an answer asks somebody else, and need not wait for long."""
        for node_id in [one for one in self._channels if one not in alive]:
            _, channel = self._channels.pop(node_id)
            channel.close()

    def close(self) -> None:
        for _, channel in self._channels.values():
            channel.close()
        self._channels.clear()

"""A broker's view of its cluster: the live brokers, and the leaders of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oncelog.broker.config.listeners import Endpoint

NO_LEADER = -1
"""In place of a node, where nobody leads a partition."""
LEADER_DURING_DELETE = -2
"""The leader that UpdateMetadata names for a partition that is being deleted."""


class ClusterNode(NamedTuple):
    """A live broker, as its clients are told of it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Leadership(NamedTuple):
    """The leader and the replicas of a partition. Replicas in `offline` are on brokers, or in directories, that are down."""

    leader: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


UNKNOWN = Leadership()


class KnownPartition(Protocol):
    """A partition, as far as a view needs it."""

    leader_epoch: int
    leadership: Leadership

    @property
    def is_offline(self) -> bool: ...


class ListenerView(Protocol):
    """The cluster as clients of one listener see it: a broker without such a listener is not reached."""

    def brokers(self) -> Sequence[ClusterNode]:
        """The live brokers."""
        ...

    def broker(self, node_id: int) -> ClusterNode | None:
        """None for one that is not alive."""
        ...

    def leadership(self, partition: KnownPartition) -> Leadership:
        """A leader that is not reached is none."""
        ...


class ClusterView(Protocol):
    """The cluster as it is known at this moment."""

    has_others: bool
    """True for a member of a cluster."""

    @property
    def controller_id(self) -> int:
        """-1 while there is none."""
        ...

    def at(self, listener: str) -> ListenerView: ...

    def is_alive(self, node_id: int) -> bool:
        """At whatever listener."""
        ...


class Alone:
    """A broker without others: it leads every partition whose log it can use."""

    has_others = False

    def __init__(self, node_id: int, rack: str | None) -> None:
        self._node_id = node_id
        self._rack = rack
        self._views: dict[str, _OneNode] = {}
        self._nowhere = _OneNode(node_id, ())

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Have clients of each listener told of its address."""
        nodes = {one.name: ClusterNode(self._node_id, one.host, one.port, self._rack) for one in endpoints}
        self._views = {name: _OneNode(self._node_id, (node,)) for name, node in nodes.items()}

    @property
    def controller_id(self) -> int:
        return self._node_id

    def at(self, listener: str) -> ListenerView:
        return self._views.get(listener, self._nowhere)

    def is_alive(self, node_id: int) -> bool:
        return node_id == self._node_id


class _OneNode:
    """At a listener that is not advertised there is none."""

    def __init__(self, node_id: int, nodes: tuple[ClusterNode, ...]) -> None:
        self._node_id = node_id
        self._nodes = nodes

    def brokers(self) -> Sequence[ClusterNode]:
        return self._nodes

    def broker(self, node_id: int) -> ClusterNode | None:
        return next((node for node in self._nodes if node.node_id == node_id), None)

    def leadership(self, partition: KnownPartition) -> Leadership:
        own = (self._node_id,)
        if partition.is_offline:
            return Leadership(NO_LEADER, partition.leader_epoch, own, own, own)
        return Leadership(self._node_id, partition.leader_epoch, own, own)

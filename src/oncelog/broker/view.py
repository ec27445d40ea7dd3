"""What a broker knows of the cluster it is in: which brokers there are, and who leads a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from oncelog.broker.operations import NO_LEADER

LEADER_DURING_DELETE = -2
"""What UpdateMetadata names as the leader of a partition that is being deleted."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A live broker, as its clients are told of it."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads a partition, and who has replicas of it. Those in `offline` are on brokers, or in directories, that are down."""

    leader: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


UNKNOWN = Leadership()


class KnownPartition(Protocol):
    """What is asked of a partition here."""

    leader_epoch: int
    leadership: Leadership

    @property
    def is_offline(self) -> bool: ...


class ClusterView(Protocol):
    """What is known at this moment."""

    has_others: bool
    """Whether the broker is a member of a cluster, and not alone."""

    @property
    def controller_id(self) -> int:
        """-1 while there is none."""
        ...

    def brokers(self) -> Sequence[ClusterNode]:
        """Those that are alive."""
        ...

    def broker(self, node_id: int) -> ClusterNode | None:
        """None for one that is not alive."""
        ...

    def leadership(self, partition: KnownPartition) -> Leadership: ...


class Alone:
    """A broker without others: it leads every partition whose log it can use."""

    has_others = False

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    @property
    def controller_id(self) -> int:
        return self._node.node_id

    def brokers(self) -> Sequence[ClusterNode]:
        return (self._node,)

    def broker(self, node_id: int) -> ClusterNode | None:
        return self._node if node_id == self._node.node_id else None

    def leadership(self, partition: KnownPartition) -> Leadership:
        own = (self._node.node_id,)
        if partition.is_offline:
            return Leadership(NO_LEADER, partition.leader_epoch, own, own, own)
        return Leadership(self._node.node_id, partition.leader_epoch, own, own)

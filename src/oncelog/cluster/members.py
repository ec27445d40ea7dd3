"""Who is in the cluster, as its controller says it in UpdateMetadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncelog.broker.operations import NO_LEADER
from oncelog.broker.view import LEADER_DURING_DELETE, ClusterNode, KnownPartition, Leadership


@dataclass(frozen=True, slots=True)
class MemberEndpoint:
    """Where a broker listens, under the name of the listener."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Member:
    """A live broker. Clients, and brokers, reach it at the listener that they themselves use."""

    node_id: int
    endpoints: tuple[MemberEndpoint, ...]
    rack: str | None

    def node(self, listener: str) -> ClusterNode | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return ClusterNode(self.node_id, endpoint.host, endpoint.port, self.rack)
        return None


class MembersAtListener:
    """Those that are alive and have a listener of this name."""

    def __init__(self, listener: str, members: Iterable[Member] = ()) -> None:
        self._listener = listener
        self._nodes: dict[int, ClusterNode] = {}
        self.are_now(members)

    def are_now(self, members: Iterable[Member]) -> None:
        """These are all that are alive."""
        found = (member.node(self._listener) for member in members)
        self._nodes = {node.node_id: node for node in found if node is not None}

    def __contains__(self, node_id: object) -> bool:
        """Whether a broker is alive."""
        return node_id in self._nodes

    def brokers(self) -> Sequence[ClusterNode]:
        return tuple(self._nodes.values())

    def broker(self, node_id: int) -> ClusterNode | None:
        return self._nodes.get(node_id)

    def leadership(self, partition: KnownPartition) -> Leadership:
        """A leader that is not alive is none, as in Kafka's answers."""
        known = partition.leadership
        if known.leader in self._nodes or known.leader in (NO_LEADER, LEADER_DURING_DELETE):
            return known
        return known._replace(leader=NO_LEADER)


class ClusterMembers(MembersAtListener):
    """The live brokers and the controller. `listener` is the name of the one at which brokers reach each other."""

    has_others = True

    def __init__(self, listener: str) -> None:
        super().__init__(listener)
        self._members: tuple[Member, ...] = ()
        self._views: dict[str, MembersAtListener] = {listener: self}
        self._controller_id = -1
        self._controller_epoch = 0
        self._controller_connection = -1

    @property
    def controller_id(self) -> int:
        return self._controller_id

    @property
    def controller_epoch(self) -> int:
        """The highest that was heard of."""
        return self._controller_epoch

    def hear(self, controller_id: int, controller_epoch: int, connection_number: int) -> None:
        """Take note of a controller that speaks."""
        assert self.is_current(controller_epoch, connection_number), "what comes late is not heard"
        self._controller_id, self._controller_epoch = controller_id, controller_epoch
        self._controller_connection = connection_number

    def is_current(self, controller_epoch: int, connection_number: int) -> bool:
        """Whether neither a newer controller has spoken, nor this one on a younger connection.

        A controller has one connection to a broker at a time (Kafka's ControllerChannelManager): it has left the older one,
        and said again what was not answered there, and maybe what is newer.
        """
        return (controller_epoch, connection_number) >= (self._controller_epoch, self._controller_connection)

    def are_now(self, members: Iterable[Member]) -> None:
        """These are all that are alive."""
        self._members = tuple(members)
        super().are_now(self._members)
        self._views = {self._listener: self}

    def at(self, listener: str) -> MembersAtListener:
        """As clients of this listener see them."""
        found = self._views.get(listener)
        if found is None:
            found = self._views[listener] = MembersAtListener(listener, self._members)
        return found

    def is_alive(self, node_id: int) -> bool:
        return any(member.node_id == node_id for member in self._members)

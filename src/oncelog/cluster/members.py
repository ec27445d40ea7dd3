"""The live brokers of a cluster, as UpdateMetadata lists them, and the coordinators' requests to them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.coordinators.known_brokers import (
    AWAY,
    GONE,
    BrokerAddress,
    Leader,
    MarkerErrors,
    MarkersOfProducer,
    TopicOfOffsets,
)
from oncelog.broker.coordinators.markers import marker_errors, markers_request
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import TRANSACTION_STATE
from oncelog.broker.view import LEADER_DURING_DELETE, NO_LEADER, UNKNOWN, ClusterNode, KnownPartition, Leadership
from oncelog.cluster.channel import ChannelError
from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, catch_up
from oncelog.cluster.zookeeper.session import (
    Children,
    Data,
    Done,
    Exists,
    GetChildren,
    GetData,
    ZooKeeper,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import ZnodeError, decode_topic, paths
from oncelog.coordination import Promise, start
from oncelog.transactions import DECIDED, ONGOING
from oncelog.wire import ErrorCode, message_class

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics
    from oncelog.cluster.channel import Channels

logger = logging.getLogger("oncelog.broker")

OPEN_STATES = frozenset(one.label for one in (ONGOING, *DECIDED))


@dataclass(frozen=True, slots=True)
class MemberEndpoint:
    """Host and port of one listener of a broker."""

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
    """Live brokers with a listener of this name."""

    def __init__(self, listener: str, members: Iterable[Member] = ()) -> None:
        self._listener = listener
        self._nodes: dict[int, ClusterNode] = {}
        self.are_now(members)

    def are_now(self, members: Iterable[Member]) -> None:
        """These are all that are alive."""
        found = (member.node(self._listener) for member in members)
        self._nodes = {node.node_id: node for node in found if node is not None}

    def __contains__(self, node_id: object) -> bool:
        """True if the broker is alive."""
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
        """The highest controller epoch of any request."""
        return self._controller_epoch

    def record_controller(self, controller_id: int, controller_epoch: int, connection_number: int) -> None:
        """Keeps id, epoch and connection of the controller of a current request."""
        assert self.is_current(controller_epoch, connection_number), "a late request is refused before"
        self._controller_id, self._controller_epoch = controller_id, controller_epoch
        self._controller_connection = connection_number

    def is_current(self, controller_epoch: int, connection_number: int) -> bool:
        """Returns False for a request of an older controller, or of this controller on an older connection.

        A controller has one connection to a broker at a time (Kafka's ControllerChannelManager). On the newer one it has already
        repeated the unanswered requests of the older one, and may have sent newer ones.
        """
        return (controller_epoch, connection_number) >= (self._controller_epoch, self._controller_connection)

    def are_now(self, members: Iterable[Member]) -> None:
        """Replaces the live brokers."""
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


WRITE_TXN_MARKERS, LOWEST, HIGHEST = 27, 1, 2
LIST_TRANSACTIONS, LOWEST_LISTING = 66, 0


class KnownMembers:
    """The coordinators' requests to other brokers. `timeout_ms` is request.timeout.ms, `is_alive` this broker's liveness."""

    has_others = True

    def __init__(
        self,
        topics: Topics,
        members: ClusterMembers,
        channels: Channels,
        zookeeper: ZooKeeper,
        timeout_ms: int,
        is_alive: Callable[[], bool],
        topic_id: Callable[[str], Awaitable[UUID | None]],
    ) -> None:
        """`topic_id` asks ZooKeeper whose a name is; it may raise SessionEndedError."""
        self._topics = topics
        self._members = members
        self._channels = channels
        self._zookeeper = zookeeper
        self._timeout_ms = timeout_ms
        self._is_alive = is_alive
        self._topic_id = topic_id

    @property
    def is_alive(self) -> bool:
        return self._is_alive()

    def leader_of(self, topic: str, index: int) -> Leader:
        partition = self._topics.partition(topic, index)
        if partition is None or partition.leadership is UNKNOWN:
            # A partition that is being deleted has no leader, even if a replica is here.
            return GONE
        leader = self._members.leadership(partition).leader
        return AWAY if leader < 0 else leader

    def is_gone(self, topic: str, index: int) -> Promise[bool]:
        return start(self._is_gone(topic, index))

    async def _is_gone(self, topic: str, index: int) -> bool:
        """Asks ZooKeeper: the controller's metadata may be late. A topic that is being deleted counts as gone, for its deletion may
        wait long for a broker that is away.
        """
        try:
            if not await catch_up(self._zookeeper):
                return False
            if isinstance(await ask(self._zookeeper, Exists(paths.delete_topic(topic))), Done):
                return True
            found = await ask(self._zookeeper, GetData(paths.topic(topic)))
        except SessionEndedError:
            return False
        if isinstance(found, Data):
            try:
                return index not in decode_topic(topic, found.data).partitions
            except ZnodeError as error:
                logger.error("%s", error)
                return False
        return found is ZooKeeperError.NO_NODE

    def deleted_topics(self, topics: Collection[TopicOfOffsets]) -> Promise[Collection[TopicOfOffsets]]:
        return start(self._deleted_topics(topics))

    async def _deleted_topics(self, topics: Collection[TopicOfOffsets]) -> Collection[TopicOfOffsets]:
        try:
            if not await catch_up(self._zookeeper):
                return ()
            going = await ask(self._zookeeper, GetChildren(paths.DELETE_TOPICS))
            there = await ask(self._zookeeper, GetChildren(paths.TOPICS))
            if not isinstance(there, Children):
                # An error is no list of topics.
                return ()
            deleted: frozenset[str] = frozenset(going.names) if isinstance(going, Children) else frozenset()
            known = frozenset(there.names) - deleted
            return [one for one in topics if one.name not in known or await self._is_another(one)]
        except SessionEndedError:
            # Without a session this broker coordinates nothing.
            return ()

    async def _is_another(self, topic: TopicOfOffsets) -> bool:
        """Returns True if the topic of this name has another id by now."""
        if topic.topic_id is None:
            return False
        return await self._topic_id(topic.name) not in (None, topic.topic_id)

    def address_of(self, node_id: int, listener: str) -> BrokerAddress | None:
        node = self._members.at(listener).broker(node_id)
        return None if node is None else BrokerAddress(node.host, node.port)

    def partition(self, topic: str, index: int) -> Partition | None:
        partition = self._topics.partition(topic, index)
        return partition if partition is not None and partition.role is ReplicaRole.LEADER else None

    def committed(self, partition: Partition, end_offset: int | None = None) -> Promise[ErrorCode]:
        end = partition.log.log_end_offset if end_offset is None else end_offset
        return start(self._committed(partition.leading.committed(end)))

    async def _committed(self, acknowledged: Promise[ErrorCode]) -> ErrorCode:
        """Ignores the size of the in-sync set: records below the high watermark stay committed."""
        error = await acknowledged
        return ErrorCode.none if error is ErrorCode.not_enough_replicas_after_append else error

    def open_transactions_of(self, producer_ids: Collection[int]) -> Promise[Collection[int] | None]:
        return start(self._open_transactions_of(producer_ids))

    async def _open_transactions_of(self, producer_ids: Collection[int]) -> Collection[int] | None:
        before = self._coordinators()
        found: set[int] = set()
        for node_id in sorted({leader for leader, _ in before}):
            node = self._members.broker(node_id)
            if node is None:
                return None
            request = message_class(LIST_TRANSACTIONS, LOWEST_LISTING, "request")(
                state_filters=(), producer_id_filters=tuple(sorted(producer_ids))
            )
            answer = await self._channels.to(node).ask(LIST_TRANSACTIONS, LOWEST_LISTING, request, self._timeout_ms)
            if isinstance(answer, ChannelError) or answer.error_code is not ErrorCode.none:
                return None
            found |= {one.producer_id for one in answer.transaction_states if one.transaction_state in OPEN_STATES}
        return found if self._coordinators() == before else None

    def _coordinators(self) -> list[tuple[int, int]]:
        """Leader and leader epoch of each partition of `__transaction_state`."""
        topic = self._topics.named(TRANSACTION_STATE)
        led = [] if topic is None else [self._members.leadership(one) for one in topic.partitions]
        return [(one.leader, one.leader_epoch) for one in led]

    def send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> Promise[MarkerErrors | None]:
        return start(self._send_markers(node_id, markers))

    async def _send_markers(self, node_id: int, markers: Sequence[MarkersOfProducer]) -> MarkerErrors | None:
        node = self._members.broker(node_id)
        if node is None:
            return None
        answer = await self._channels.to(node).ask_newest(
            WRITE_TXN_MARKERS, LOWEST, HIGHEST, lambda version: markers_request(version, markers), self._timeout_ms
        )
        if isinstance(answer, ChannelError):
            logger.info("markers of %d producers got no answer: %s", len(markers), answer.reason)
            return None
        return marker_errors(answer)

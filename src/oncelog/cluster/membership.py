"""Membership of a broker in a cluster: its entry in ZooKeeper, the controller's requests, and its replicas of partitions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.config.listeners import inter_broker_listener
from oncelog.broker.config.setting import SettingError
from oncelog.broker.coordinators.marker_senders import client_id_of
from oncelog.broker.coordinators.producer_ids import ProducerIds
from oncelog.broker.identity import HOW_TO_CONVERT
from oncelog.broker.readiness import Readiness
from oncelog.broker.request import Request
from oncelog.cluster.channel import Channel, ChannelError, Channels
from oncelog.cluster.configs import ClusterConfigs
from oncelog.cluster.controller.controller import Controller
from oncelog.cluster.controller.term import ControllerParts, ControllerSettings
from oncelog.cluster.counts import InSyncCounts, SessionCounts
from oncelog.cluster.liveness import Liveness, LogDirEvents, Registration
from oncelog.cluster.members import ClusterMembers, KnownMembers
from oncelog.cluster.producer_id_blocks import ProducerIdBlocks
from oncelog.cluster.replicas.fetcher import FetcherParts, ReplicaFetchSettings
from oncelog.cluster.replicas.fetchers import Fetchers
from oncelog.cluster.replicas.in_sync_changes import InSyncChanges
from oncelog.cluster.replicas.replica import Surroundings
from oncelog.cluster.replicas.replicas import Leads, Replicas
from oncelog.cluster.scram_users import ScramCredentials
from oncelog.cluster.settings_agreement import SettingsAgreement
from oncelog.cluster.topic_changes import TopicChanges
from oncelog.cluster.verification import TransactionVerification
from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, catch_up, read_each, within
from oncelog.cluster.zookeeper.session import Children, Create, Data, GetChildren, GetData, ZooKeeper
from oncelog.cluster.zookeeper.watches import Watchers
from oncelog.cluster.zookeeper.znodes import (
    BrokerZnode,
    ListenerEndpoint,
    ZnodeError,
    decode_cluster_id,
    decode_controller_epoch,
    encode_cluster_id,
    paths,
)
from oncelog.coordination import sleep, start
from oncelog.wire import ErrorCode, message_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncelog.broker.config.listeners import Endpoint
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.metadata import BrokerParts
    from oncelog.broker.storage.partition import Partition
    from oncelog.cluster.shared_topics import SharedTopics
    from oncelog.environment import BrokerNetwork

logger = logging.getLogger("oncelog.broker")


CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION = 7, 3
TOLD_WITHIN_MS = 2_000
"""A controller that stops waits this long for brokers to answer: the next controller sends them the same."""
HEARD_BY_CONTROLLER = (
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    "/brokers",
    "/admin",
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
)


class ClusterMembership:
    """Made before the logs are opened; `open` when they are, `join` when the broker can be told what to do with them."""

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeper, network: BrokerNetwork, listener: str) -> None:
        self._broker = broker
        self._zookeeper = zookeeper
        self._network = network
        self._random = random = broker.random
        self._listener = listener
        number = broker.settings.number
        self.members = ClusterMembers(listener)
        self._watchers = Watchers(zookeeper)
        self._session = SessionCounts()
        self._watchers.listen_to_sessions(self._session.session_changed)
        self._node_id = node_id = broker.settings.number("node.id")
        self.configs = ClusterConfigs(zookeeper, self._watchers, broker.clock, broker.settings, node_id)
        self._agreement = SettingsAgreement(zookeeper, self._watchers, broker.clock, node_id, self.configs.share)
        self.scram_users = ScramCredentials(self.configs, broker.clock)
        self.topic_changes = TopicChanges(zookeeper, broker.clock, random, broker.settings, self.members)
        self._log_dir_events = LogDirEvents(zookeeper, broker.clock, node_id)
        self._to_controller = Channels(network, broker.clock, random, str(node_id))
        self._to_leaders = [
            Channels(network, broker.clock, random, f"broker-{node_id}-fetcher-{fetcher}")
            for fetcher in range(number("num.replica.fetchers"))
        ]
        self._to_coordinators = Channels(network, broker.clock, random, f"AddPartitionsManager-client-{node_id}")
        self._to_others = Channels(network, broker.clock, random, client_id_of(node_id))
        self._channels = self._to_controller, *self._to_leaders, self._to_coordinators, self._to_others
        self._changes = InSyncChanges(
            broker.clock,
            node_id,
            self.members,
            self._to_controller,
            number("controller.socket.timeout.ms"),
            lambda: self.epoch,
        )
        blocks = ProducerIdBlocks(
            broker.clock,
            node_id,
            self.members,
            self._to_controller,
            number("controller.socket.timeout.ms"),
            lambda: self.epoch,
        )
        self.producer_ids = ProducerIds(blocks.next_block)

    @property
    def epoch(self) -> int:
        """This broker's epoch; -1 before it has one."""
        return self._liveness.epoch

    async def cluster_id(self, new_id: str | None) -> str:
        """The id of the cluster, which the first broker gives it, in whichever session that is learned.

        Without `new_id` this broker is not new: raises SettingError if there is no cluster.
        """
        while True:
            with suppress(SessionEndedError):
                return await self._learn_cluster_id(new_id)

    async def _learn_cluster_id(self, new_id: str | None) -> str:
        if new_id is None:
            found = await ask(self._zookeeper, GetData(paths.CLUSTER_ID))
            if not isinstance(found, Data):
                raise SettingError(
                    "ZooKeeper has no cluster yet, and the log directories are those of a broker that is not new: correct "
                    f"zookeeper.connect or log.dirs; if the broker was alone, {HOW_TO_CONVERT}"
                )
        for path in paths.MADE_AT_START:
            for parent in (*paths.parents(path), path):
                await ask(self._zookeeper, Create(parent))
        while True:
            found = await ask(self._zookeeper, GetData(paths.CLUSTER_ID))
            if isinstance(found, Data):
                return decode_cluster_id(found.data)
            assert new_id is not None, "the cluster has lost its id"
            await ask(self._zookeeper, Create("/cluster"))
            await ask(self._zookeeper, Create(paths.CLUSTER_ID, encode_cluster_id(new_id)))

    async def learn_settings(self) -> None:
        """Know the settings of the cluster, and follow them. Raises SettingError for one that this broker was told otherwise."""
        settings = self._broker.settings
        await self._agreement.agree(settings.given, inter_broker_listener(settings))
        await self.configs.start()

    def open(self, parts: FetcherParts, topics: SharedTopics, leads: Leads) -> None:
        """The logs are open."""
        self._leads = leads
        broker, node_id, number = self._broker, self._node_id, self._broker.settings.number
        self.topics = topics
        self.configs.follow(topics)
        settings = ReplicaFetchSettings(
            number("replica.fetch.max.bytes"),
            number("replica.fetch.response.max.bytes"),
            number("replica.fetch.min.bytes"),
            number("replica.fetch.wait.max.ms"),
            number("replica.fetch.backoff.ms"),
            number("replica.socket.timeout.ms"),
            lambda: self.epoch,
        )
        self._fetchers = Fetchers(parts, self.members, self._to_leaders, settings)
        self._lag_time_max_ms = number("replica.lag.time.max.ms")

        def min_in_sync(name: str) -> int:
            topic = topics.named(name)
            return 1 if topic is None else int(topic.values["min.insync.replicas"])

        self._in_sync = InSyncCounts()
        surroundings = Surroundings(
            broker.clock, node_id, self._lag_time_max_ms, self.members, self._changes, min_in_sync, self._in_sync
        )
        topic_id = self.topic_changes.topic_id
        self.replicas = Replicas(broker.clock, node_id, topics, self._fetchers, surroundings, leads, topic_id)
        controller_settings = ControllerSettings(
            self._listener,
            delete_topic_enable=bool(broker.settings.value("delete.topic.enable")),
            auto_leader_rebalance_enable=bool(broker.settings.value("auto.leader.rebalance.enable")),
            leader_imbalance_check_interval_seconds=number("leader.imbalance.check.interval.seconds"),
            leader_imbalance_per_broker_percentage=number("leader.imbalance.per.broker.percentage"),
            controller_socket_timeout_ms=number("controller.socket.timeout.ms"),
        )
        controller_parts = ControllerParts(
            broker.clock,
            self._random,
            self._zookeeper,
            node_id,
            partial(Channel, self._network, broker.clock, self._random, client_id=str(node_id)),
            lambda: bool(broker.settings.value("unclean.leader.election.enable")),
        )
        self.controller = Controller(controller_parts, controller_settings)
        self.configs.on_unclean_election = self.controller.unclean_election_enabled
        for path in HEARD_BY_CONTROLLER:
            self._watchers.listen(path, self.controller.watched)
        self._watchers.listen_to_sessions(self.controller.session_changed)
        self.known_brokers = KnownMembers(
            topics,
            self.members,
            self._to_others,
            self._zookeeper,
            number("controller.socket.timeout.ms"),
            lambda: self._liveness.is_alive,
            topic_id,
        )

    def went_offline(self, partition: Partition) -> None:
        """Others are to lead what this broker can read no more."""
        self.replicas.went_offline(partition)
        self._log_dir_events.tell()

    def metrics(self) -> Iterator[str]:
        """In the text format of Prometheus, line by line."""
        # Only when the first are asked for.
        from oncelog.cluster.metrics import Measured, exposition

        return exposition(
            Measured(self.topics, self.replicas, self._fetchers, self.controller, self._in_sync, self._session)
        )

    def verification(self, transactions: Transactions) -> TransactionVerification:
        return TransactionVerification(
            self.topics,
            transactions,
            self.members,
            self._to_coordinators,
            self._broker.settings.number("controller.socket.timeout.ms"),
        )

    async def join(self, endpoints: Sequence[Endpoint], rack: str | None) -> None:
        """Be among the live brokers: from now on the controller says what to do."""
        listeners = tuple(ListenerEndpoint(one.name, one.host, one.port, one.protocol) for one in endpoints)
        entry = BrokerZnode(listeners, self._broker.clock.now_ms(), rack)
        path = paths.broker(self._node_id)
        self._liveness = Liveness(
            self._broker.clock,
            Registration(self._zookeeper, self._broker.clock, path, entry.encode()),
            self._zookeeper,
            self._step_down,
            self._is_registered,
        )
        self._watchers.listen_to_sessions(self._liveness.session_changed)
        self.topics.doubt()
        self._shrinking = start(self._shrink())
        await self._liveness.register()

    def _is_registered(self) -> None:
        self.controller.begin()
        start(self._forget_deleted())

    async def _forget_deleted(self) -> None:
        """Nobody tells this broker what was deleted while it was not among the live ones.

        ZooKeeper's server may not have heard yet of a topic that was made since.
        """
        (found,) = await read_each(self._zookeeper, [GetChildren(paths.TOPICS)])
        if isinstance(found, Children):
            self.topics.forget_all_but(frozenset(found.names))

    def _step_down(self) -> None:
        self.topics.doubt()
        start(self.replicas.step_down())

    async def _shrink(self) -> None:
        while True:
            await sleep(self._broker.clock, self._lag_time_max_ms / 2)
            self.replicas.shrink()

    async def problem(self, order: Request) -> ErrorCode | None:
        """Why a request of a controller, to this life of the broker, is not carried out; None if it is.

        Errors: stale_broker_epoch, stale_controller_epoch.
        """
        body = order.body
        problem = await self._liveness.problem(body.broker_epoch)
        if problem is None and body.controller_epoch > self.members.controller_epoch:
            try:
                is_elected = await self._is_elected(body.controller_epoch)
            except SessionEndedError:
                # So has the life of this broker that the order is for.
                return ErrorCode.stale_broker_epoch
            if not is_elected:
                logger.warning(
                    "%s of broker %d is refused: it says that it is the controller of epoch %d, and ZooKeeper does not",
                    type(body).__name__.removesuffix("Request"),
                    body.controller_id,
                    body.controller_epoch,
                )
                return ErrorCode.stale_controller_epoch
            problem = await self._liveness.problem(body.broker_epoch)
        problem = problem or self.lateness(order)
        if problem is None:
            self.members.record_controller(body.controller_id, body.controller_epoch, order.connection.number)
        return problem

    async def _is_elected(self, controller_epoch: int) -> bool:
        """Checks the controller epoch in ZooKeeper: a new controller writes it there before it sends its first request.

        Raises SessionEndedError.
        """
        if not await catch_up(self._zookeeper):
            return False
        found = await ask(self._zookeeper, GetData(paths.CONTROLLER_EPOCH))
        try:
            return isinstance(found, Data) and decode_controller_epoch(found.data) == controller_epoch
        except ZnodeError as error:
            logger.error("%s", error)
            return False

    def lateness(self, order: Request) -> ErrorCode | None:
        """stale_controller_epoch where a newer controller has spoken, or this one on a younger connection; else None.

        Nobody waits for an answer on a connection that was left: it is closed. A controller that did not leave it comes again.
        """
        body = order.body
        if self.members.is_current(body.controller_epoch, order.connection.number):
            return None
        if body.controller_epoch == self.members.controller_epoch:
            logger.warning(
                "%s of the controller, broker %d, came late, on a connection that it has left for a younger one: it is not "
                "carried out, and its connection is closed",
                type(body).__name__.removesuffix("Request"),
                body.controller_id,
            )
            order.connection.close()
        return ErrorCode.stale_controller_epoch

    def is_told(self) -> None:
        """The controller has said what there is: clients can be served."""
        for channels in self._channels:
            channels.keep(self.members)
        self._fetchers.members_changed()
        self.replicas.members_changed()
        self._leads.leaders_changed()
        if self._broker.progress.reached < Readiness.METADATA:
            self._broker.progress.reach(Readiness.METADATA)
            self._broker.progress.reach(Readiness.COORDINATORS)

    async def hand_over(self) -> None:
        """Before a stop: let others lead what this broker leads."""
        self.replicas.hand_over()
        number = self._broker.settings.number
        for attempt in range(number("controlled.shutdown.max.retries")):
            if attempt:
                await sleep(self._broker.clock, number("controlled.shutdown.retry.backoff.ms"))
            remaining = await self._ask_for_shutdown()
            if remaining == 0:
                # The controller's own broker: when it is gone, nobody tells the others before the next one is elected.
                await within(self._broker.clock, TOLD_WITHIN_MS, self.controller.all_told())
                return
            logger.info("%s partitions have no other leader yet", "all" if remaining is None else remaining)

    async def _ask_for_shutdown(self) -> int | None:
        """How many partitions nobody else can lead; None without an answer."""
        node = self.members.broker(self.members.controller_id)
        if node is None:
            return None
        request = message_class(CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION, "request")(
            broker_id=self._node_id, broker_epoch=self.epoch
        )
        answer = await self._to_controller.to(node).ask(
            CONTROLLED_SHUTDOWN,
            CONTROLLED_SHUTDOWN_VERSION,
            request,
            self._broker.settings.number("controller.socket.timeout.ms"),
        )
        if isinstance(answer, ChannelError) or answer.error_code is not ErrorCode.none:
            return None
        return len(answer.remaining_partitions)

    def stop(self) -> None:
        self._liveness.stop()
        self._shrinking.end()
        self.controller.close()
        self.replicas.close()
        for channels in self._channels:
            channels.close()

"""The controller's election, and the requests of brokers and clients to the controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from oncelog.cluster.controller.alter_partition import (
    IsrResult,
    WantedIsr,
    alter_partitions,
    broker_epoch_problem,
    complete_reassignments,
)
from oncelog.cluster.controller.brokers import shut_down
from oncelog.cluster.controller.context import ControllerContext
from oncelog.cluster.controller.leader_elections import ElectionAnswers, ElectionType, elect_leaders
from oncelog.cluster.controller.partitions import bring_online
from oncelog.cluster.controller.reassignment import Targets, listed_reassignments, reassign
from oncelog.cluster.controller.term import ControllerEvent, ControllerParts, ControllerSettings, ControllerTerm
from oncelog.cluster.controller.values import ApiError, ReplicaAssignment, TopicPartition
from oncelog.cluster.controller.watches import event_of
from oncelog.cluster.counts import ControllerCounts
from oncelog.cluster.zookeeper.session import (
    Create,
    Data,
    Delete,
    Done,
    Exists,
    GetData,
    Multi,
    Request,
    Result,
    Results,
    SetData,
    Watched,
    ZooKeeperError,
    ZooKeeperSessionState,
)
from oncelog.cluster.zookeeper.znodes import (
    PRODUCER_IDS_IN_A_BLOCK,
    ControllerZnode,
    ProducerIdBlock,
    ZnodeError,
    decode_controller,
    decode_controller_epoch,
    decode_producer_id_block,
    encode_controller_epoch,
    paths,
)
from oncelog.coordination import Flow, Promise, start
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.cluster.controller")

T = TypeVar("T")
AskedPartition = tuple[UUID, int]
"""A partition as AlterPartition names it: by the id of its topic."""
NO_CONTROLLER = -1
INITIAL_CONTROLLER_EPOCH = 0
PRODUCER_ID_MAX = 2**63 - 1


class Controller:
    """Begin it once the broker is registered, and again after each new session's registration.

    The owner of the ZooKeeper client passes on its events: `watched` and `session_changed`.
    """

    def __init__(self, broker: ControllerParts, settings: ControllerSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._term: ControllerTerm | None = None
        self._session = 0
        self._is_electing = False
        self._is_looked_for_again = False
        self.counts = ControllerCounts()
        self.controller_id = NO_CONTROLLER
        """The controller that this broker knows of."""

    @property
    def is_active(self) -> bool:
        return self._term is not None

    @property
    def context(self) -> ControllerContext | None:
        """The state of the active controller, read-only; None on other brokers."""
        return None if self._term is None else self._term.context

    @property
    def waiting_event_count(self) -> int:
        return 0 if self._term is None else self._term.waiting_count

    @property
    def unclean_election_count(self) -> int:
        """Unclean elections by this broker since its start."""
        before = self.counts.unclean_elections_before
        return before if self._term is None else before + self._term.context.unclean_elections

    def begin(self) -> None:
        """Looks up the controller, and claims the role if there is none."""
        if self._is_electing:
            self._is_looked_for_again = True
        else:
            start(self._look())

    def watched(self, watched: Watched) -> None:
        if watched.path in (paths.CONTROLLER, paths.CONTROLLER_EPOCH):
            self.begin()
        elif self._term is not None:
            event = event_of(watched, self._term)
            if event is not None:
                self._term.put(event)

    def session_changed(self, state: ZooKeeperSessionState) -> None:
        """Resigns when the session expires: `/controller` is gone with it."""
        if state is ZooKeeperSessionState.EXPIRED:
            self._session += 1
            self.controller_id = NO_CONTROLLER
            self._resign("the session with ZooKeeper has expired")

    def close(self) -> None:
        """Resigns. The znode `/controller` goes with the session."""
        self._session += 1
        self._resign("the broker stops")

    # What is asked of the controller: a handler each

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, wanted: Mapping[AskedPartition, WantedIsr], version: int
    ) -> dict[AskedPartition, IsrResult] | ErrorCode:
        """Looks topic ids up only when the event is served: a controller that is still loading knows them by then."""

        async def serve(term: ControllerTerm, answer: Promise[dict[AskedPartition, IsrResult] | ErrorCode]) -> None:
            problem = broker_epoch_problem(term.context, broker_id, broker_epoch)
            if problem is not None:
                answer.resolve(problem)
                return
            names = {asked: _named(term.context, asked) for asked in wanted}
            known = {named: wanted[asked] for asked, named in names.items() if named is not None}
            results = await alter_partitions(term.context, broker_id, known, version)
            answer.resolve(
                {
                    asked: ErrorCode.unknown_topic_id if named is None else results[named]
                    for asked, named in names.items()
                }
            )
            await complete_reassignments(term.context, results)

        return await self._ask("AlterPartition", serve, ErrorCode.not_controller)

    async def shut_down_broker(self, broker_id: int, broker_epoch: int) -> tuple[ErrorCode, list[TopicPartition]]:
        """Serves ControlledShutdown. Returns the partitions that the broker still leads."""
        refused: tuple[ErrorCode, list[TopicPartition]] = (ErrorCode.not_controller, [])
        return await self._take(
            "ControlledShutdown", lambda context: shut_down(context, broker_id, broker_epoch), refused
        )

    def all_told(self) -> Promise[None]:
        """Resolved when every broker has answered what this controller has sent; at once where this broker is none."""
        return Promise.ready(None) if self._term is None else self._term.all_told()

    async def elect_leaders(self, partitions: list[TopicPartition], election_type: ElectionType) -> ElectionAnswers:
        not_controller = ApiError(ErrorCode.not_controller)
        refused: ElectionAnswers = dict.fromkeys(partitions, not_controller)
        return await self._take(
            "ElectLeaders", lambda context: elect_leaders(context, partitions, election_type), refused
        )

    async def reassign(self, targets: Targets) -> dict[TopicPartition, ApiError] | ErrorCode:
        refused: dict[TopicPartition, ApiError] | ErrorCode = ErrorCode.not_controller
        return await self._take("AlterPartitionReassignments", lambda context: reassign(context, targets), refused)

    async def list_reassignments(
        self, partitions: list[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment] | ErrorCode:
        """None asks for all that are under way."""

        async def serve(
            term: ControllerTerm, answer: Promise[dict[TopicPartition, ReplicaAssignment] | ErrorCode]
        ) -> None:
            answer.resolve(listed_reassignments(term.context, partitions))

        return await self._ask("ListPartitionReassignments", serve, ErrorCode.not_controller)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock | ErrorCode:
        async def serve(term: ControllerTerm, answer: Promise[ProducerIdBlock | ErrorCode]) -> None:
            if broker_id not in term.context.brokers:
                answer.resolve(ErrorCode.broker_id_not_registered)
                return
            problem = broker_epoch_problem(term.context, broker_id, broker_epoch)
            answer.resolve(problem if problem is not None else await _next_block(term, broker_id))

        return await self._ask("AllocateProducerIds", serve, ErrorCode.not_controller)

    def unclean_election_enabled(self, topic: str | None = None) -> None:
        """The setting of a topic, or the default, allows it from now on: there may be leaders to find."""
        term = self._term
        if term is not None:
            name = "unclean election" if topic is None else "unclean election of a topic"
            term.put(ControllerEvent(name, lambda: bring_online(term.context, topic)))

    # The election

    async def _look(self) -> None:
        self._is_electing = True
        while True:
            self._is_looked_for_again = False
            session = self._session
            try:
                is_complete = await self._elect()
            except ZnodeError as error:
                # The znode is malformed. The election goes on when it changes.
                logger.error("%s", error)
                await self._submit(Exists(error.path, watch=True))
                is_complete = True
            if session != self._session or (is_complete and not self._is_looked_for_again):
                break
        self._is_electing = False
        if self._is_looked_for_again:
            self.begin()

    async def _elect(self) -> bool:
        """Returns True once there is a controller and a watch on it, False to try again."""
        session = self._session
        if await self._submit(Exists(paths.CONTROLLER, watch=True)) is not ZooKeeperError.NO_NODE:
            return await self._see_controller(session)
        version, epoch = await self._read_epoch()
        if session != self._session:
            return True
        claim = Multi(
            (
                Create(paths.CONTROLLER, self._znode(), is_ephemeral=True),
                SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch + 1), version),
            )
        )
        result = await self._submit(claim)
        if session != self._session:
            return True
        match result:
            case Results((_, Done(stat))) if stat is not None:
                self._become_controller(epoch + 1, stat.version)
            case _:
                await self._recognise_claim(session, epoch + 1)
        return False

    async def _see_controller(self, session: int) -> bool:
        read = await self._submit(GetData(paths.CONTROLLER, watch=True))
        if session != self._session:
            return True
        if not isinstance(read, Data):
            return False
        self.controller_id = decode_controller(read.data).broker_id
        is_own = read.stat.ephemeral_owner == self._broker.zookeeper.session_id
        if not is_own:
            self._resign(f"broker {self.controller_id} is the controller")
        elif self._term is None:
            # The answer to this broker's claim was lost. The znode is deleted, and the next election raises the epoch.
            await self._submit(Delete(paths.CONTROLLER, read.stat.version))
            return False
        return True

    async def _recognise_claim(self, session: int, epoch: int) -> None:
        """A claim whose answer was lost may have been carried out: then the znode is this session's, and the epoch the one."""
        owner, raised = (
            await self._submit(GetData(paths.CONTROLLER)),
            await self._submit(GetData(paths.CONTROLLER_EPOCH)),
        )
        if session != self._session or not isinstance(owner, Data) or not isinstance(raised, Data):
            return
        is_own = owner.stat.ephemeral_owner == self._broker.zookeeper.session_id
        if is_own and self._term is None and decode_controller_epoch(raised.data) == epoch:
            self._become_controller(epoch, raised.stat.version)

    async def _read_epoch(self) -> tuple[int, int]:
        """The version and the epoch of `/controller_epoch`, which is made where it is missing."""
        while True:
            read = await self._submit(GetData(paths.CONTROLLER_EPOCH))
            if isinstance(read, Data):
                return read.stat.version, decode_controller_epoch(read.data)
            first = encode_controller_epoch(INITIAL_CONTROLLER_EPOCH)
            await self._submit(Create(paths.CONTROLLER_EPOCH, first))

    def _become_controller(self, controller_epoch: int, epoch_version: int) -> None:
        self._resign("it is elected anew")
        self.controller_id = self._broker.node_id
        logger.info("broker %d is elected the controller, epoch %d", self._broker.node_id, controller_epoch)

        def moved() -> None:
            if self._term is term:
                self._resign("another controller was elected")
                self.begin()

        term = ControllerTerm(self._broker, self._settings, controller_epoch, epoch_version, self.counts, moved)
        self._term = term
        term.begin()

    def _resign(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            logger.info("broker %d resigns as the controller: %s", self._broker.node_id, reason)
            self.counts.unclean_elections_before += term.context.unclean_elections
            term.end()

    def _znode(self) -> bytes:
        return ControllerZnode(self._broker.node_id, self._broker.clock.now_ms()).encode()

    async def _submit(self, request: Request) -> Result:
        """Again, as long as the connection breaks under it, but not in another session."""
        session = self._session
        while True:
            result = await self._broker.zookeeper.submit(request)
            if session != self._session:
                return ZooKeeperError.SESSION_EXPIRED
            if result is not ZooKeeperError.CONNECTION_LOSS:
                return result

    # Asking the term

    async def _take(self, name: str, act: Callable[[ControllerContext], Flow[T]], refused: T) -> T:
        async def serve(term: ControllerTerm, answer: Promise[T]) -> None:
            answer.resolve(await act(term.context))

        return await self._ask(name, serve, refused)

    async def _ask(self, name: str, serve: Callable[[ControllerTerm, Promise[T]], Flow[None]], refused: T) -> T:
        """Queues an event and waits for its answer: `refused` if this broker is not the controller, or resigns first."""
        term = self._term
        if term is None:
            return refused
        answer: Promise[T] = Promise()

        def refuse() -> None:
            if not answer.is_resolved:
                answer.resolve(refused)

        term.put(ControllerEvent(name, lambda: serve(term, answer), refuse))
        return await answer


def _named(context: ControllerContext, asked: AskedPartition) -> TopicPartition | None:
    name = context.topic_names.get(asked[0])
    return None if name is None else (name, asked[1])


async def _next_block(term: ControllerTerm, broker_id: int) -> ProducerIdBlock | ErrorCode:
    """Another broker of an old version may give ids out itself: then the version has changed, and it is tried again."""
    while True:
        read = await term.zookeeper.ask(GetData(paths.PRODUCER_ID_BLOCK))
        if not isinstance(read, Data):
            return ErrorCode.unknown_server_error
        block = next_block(decode_producer_id_block(read.data), broker_id)
        if block is None:
            logger.critical("all producer ids have been given out")
            return ErrorCode.unknown_server_error
        write = SetData(paths.PRODUCER_ID_BLOCK, block.encode(), read.stat.version)
        (outcome,) = await term.zookeeper.write_plain([write])
        if not isinstance(outcome, ZooKeeperError):
            return block
        if outcome is not ZooKeeperError.BAD_VERSION:
            return ErrorCode.unknown_server_error


def next_block(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock | None:
    """The ids behind those that were given out last; None where all of them are, which Kafka takes for fatal, too."""
    if last is not None and last.last > PRODUCER_ID_MAX - PRODUCER_IDS_IN_A_BLOCK:
        return None
    first = 0 if last is None else last.last + 1
    return ProducerIdBlock(broker_id, first, first + PRODUCER_IDS_IN_A_BLOCK - 1)

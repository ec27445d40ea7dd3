"""Making topics, letting them grow and deleting them, in ZooKeeper: the controller sees it there, and carries it out.

The writes are those of Kafka's AdminZkClient, in its order: the settings of a topic are there before the topic is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.broker.storage.auto_creation import replication_factor
from oncelog.cluster.config_writes import write_configs
from oncelog.cluster.controller.placement import Placement, new_topic_problem, place
from oncelog.cluster.controller.placement import grow as place_more
from oncelog.cluster.controller.values import ApiError, TopicAssignment
from oncelog.cluster.controller.znodes import decode_assignment, grown_topic, new_topic, order_to_delete
from oncelog.cluster.zookeeper.asking import SessionEndedError, ask, read_each, within
from oncelog.cluster.zookeeper.session import (
    Children,
    Data,
    Done,
    Exists,
    GetChildren,
    GetData,
    SetData,
    ZooKeeperError,
)
from oncelog.cluster.zookeeper.znodes import ConfigEntity, ZnodeError, paths
from oncelog.cluster.zookeeper.znodes.topics import id_text
from oncelog.coordination import Promise, start
from oncelog.wire import ErrorCode
from oncelog.wire.topic_names import name_problem

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.cluster.members import ClusterMembers
    from oncelog.cluster.zookeeper.session import ZooKeeper
    from oncelog.environment import Clock, Random

logger = logging.getLogger("oncelog.broker")

AUTO_CREATION_TIMEOUT_MS = 10_000
"""A client that asks for metadata waits no longer for ZooKeeper. It gives up after 30 s if it was not told otherwise."""
RESERVED_IDS = (UUID(int=0), UUID(int=1))
"""Kafka means other things by them."""
NOT_TAKEN = ApiError(ErrorCode.unknown_server_error, "ZooKeeper does not take a topic as large as that.")
ASKED_AGAIN = (ErrorCode.topic_already_exists, ErrorCode.stale_controller_epoch)


@dataclass(frozen=True, slots=True)
class Grown:
    """A topic that has, or would have, so many partitions."""

    topic_id: UUID | None
    partition_count: int


class TopicChanges:
    """Nothing here waits for the controller. A flow raises SessionEndedError if its session is over by then."""

    def __init__(
        self, zookeeper: ZooKeeper, clock: Clock, random: Random, settings: Settings, members: ClusterMembers
    ) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._random = random
        self._settings = settings
        self._members = members

    def place(self, partition_count: int, factor: int) -> Placement | ApiError:
        """Places the replicas of a new topic."""
        racks = self._racks()
        return place(
            racks,
            partition_count,
            factor,
            start_index=int(self._random.fraction() * len(racks)),
            replica_shift=int(self._random.fraction() * len(racks)),
        )

    def _racks(self) -> dict[int, str | None]:
        return {node.node_id: node.rack for node in sorted(self._members.brokers(), key=lambda node: node.node_id)}

    def auto_create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Promise[ErrorCode]:
        """Make a topic that a client asked for by name, or that a coordinator needs.

        Errors: leader_not_available, if it is made, or may be: the client retries; others name the reason.
        """
        return start(self._auto_create(name, partition_count, configs))

    async def _auto_create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> ErrorCode:
        made = start(self._place_and_create(name, partition_count, configs))
        problem = await within(self._clock, AUTO_CREATION_TIMEOUT_MS, made)
        if problem is None or problem.code in ASKED_AGAIN:
            return ErrorCode.leader_not_available
        logger.info("topic %s is not made: %s", name, problem.message)
        return problem.code

    async def _place_and_create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> ApiError | None:
        placement = self.place(partition_count, replication_factor(self._settings, name))
        if isinstance(placement, ApiError):
            return placement
        try:
            made = await self.problem(name, placement) or await self.create(name, placement, configs)
        except SessionEndedError:
            return None
        return made if isinstance(made, ApiError) else None

    async def problem(self, name: str, placement: Placement) -> ApiError | None:
        """Why there can be no topic of this name, which is one that Kafka takes, with these replicas."""
        requests = (Exists(paths.delete_topic(name)), Exists(paths.topic(name)))
        leaving, there = await read_each(self._zookeeper, requests)
        if isinstance(leaving, Done):
            return being_deleted(name)
        if isinstance(there, Done):
            return _exists(name)
        return await self._collision(name) or new_topic_problem(placement)

    async def is_leaving(self, name: str) -> bool:
        """True while the deletion waits for a broker that is away and has a replica."""
        try:
            node = await self._node(name)
        except ZnodeError:
            return False
        alive = self._racks().keys()
        return node is None or all(alive >= set(one.replicas) for one in node[0].partitions.values())

    async def _collision(self, name: str) -> ApiError | None:
        if "." not in name and "_" not in name:
            return None
        (found,) = await read_each(self._zookeeper, [GetChildren(paths.TOPICS)])
        names = found.names if isinstance(found, Children) else ()
        if name in names:
            return _exists(name)
        folded = name.replace(".", "_")
        others = [other for other in names if other.replace(".", "_") == folded]
        if not others:
            return None
        message = f"Topic '{name}' collides with existing topics: {', '.join(others)}"
        return ApiError(ErrorCode.invalid_topic_exception, message)

    async def create(self, name: str, placement: Placement, configs: Mapping[str, str]) -> UUID | ApiError:
        """Make a topic; its id. Errors: topic_already_exists, stale_controller_epoch, unknown_server_error."""
        problem = await write_configs(self._zookeeper, ConfigEntity("topics", name), configs)
        if problem is not None:
            return problem
        topic_id = self._new_id()
        logger.info("topic %s is made in ZooKeeper, with %d partitions and id %s", name, len(placement), topic_id)
        created = await ask(self._zookeeper, new_topic(name, topic_id, placement))
        # A request that was sent again after a lost connection finds what it has made itself.
        if created is ZooKeeperError.NODE_EXISTS and await self.topic_id(name) != topic_id:
            return _exists(name)
        return NOT_TAKEN if created is ZooKeeperError.SYSTEM_ERROR else topic_id

    def _new_id(self) -> UUID:
        while True:
            topic_id = self._random.uuid()
            # Tools would take a text that begins with a minus sign for an option.
            if topic_id not in RESERVED_IDS and not id_text(topic_id).startswith("-"):
                return topic_id

    async def partition_counts(self, names: Iterable[str]) -> dict[UUID, int]:
        """How many partitions each of these topics has, as far as there is one."""
        counts = {}
        for name in names:
            (found,) = await read_each(self._zookeeper, [GetData(paths.topic(name))])
            if not isinstance(found, Data):
                continue
            try:
                assignment = decode_assignment(name, found)
            except ZnodeError as error:
                logger.error("%s", error)
                continue
            if assignment.topic_id is not None:
                counts[assignment.topic_id] = len(assignment.partitions)
        return counts

    async def topic_id(self, name: str) -> UUID | None:
        """The id of the topic that has this name in ZooKeeper; None if there is none, or its entry says nothing of it."""
        try:
            node = await self._node(name)
        except ZnodeError:
            return None
        return None if node is None else node[0].topic_id

    async def _node(self, name: str) -> tuple[TopicAssignment, int] | None:
        """The assignment of a topic, with its version in ZooKeeper. Raises ZnodeError."""
        found = await ask(self._zookeeper, GetData(paths.topic(name)))
        return (decode_assignment(name, found), found.stat.version) if isinstance(found, Data) else None

    async def delete(self, name: str) -> ApiError | None:
        """Mark a topic, and everything in it, for deletion; None also if it is so already."""
        if not isinstance(await ask(self._zookeeper, Exists(paths.topic(name))), Done):
            return ApiError(ErrorCode.unknown_topic_or_partition)
        logger.info("topic %s is marked for deletion in ZooKeeper", name)
        await ask(self._zookeeper, order_to_delete(name))
        return None

    async def grow(
        self, name: str, partition_count: int, manual: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> Grown | ApiError:
        """Give a topic as many partitions; `manual` has the brokers of each new one.

        A reassignment that began meanwhile is not written over: then it is decided anew.
        """
        missing = ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        if name_problem(name) is not None:
            return missing
        if isinstance(await ask(self._zookeeper, Exists(paths.delete_topic(name))), Done):
            return ApiError(ErrorCode.invalid_topic_exception, "The topic is queued for deletion.")
        while True:
            try:
                found = await self._node(name)
            except ZnodeError as error:
                return ApiError(ErrorCode.unknown_server_error, str(error))
            if found is None:
                return missing
            existing, version = found
            added = place_more(name, existing.partitions, self._racks(), partition_count, manual)
            if isinstance(added, ApiError):
                return added
            grown = Grown(existing.topic_id, partition_count)
            if validate_only:
                return grown
            write = grown_topic(name, existing, version, added)
            written = await ask(self._zookeeper, write)
            if written is ZooKeeperError.SYSTEM_ERROR:
                return NOT_TAKEN
            if isinstance(written, Done) or await self._is_written(write):
                logger.info("topic %s has %d partitions in ZooKeeper now", name, partition_count)
                return grown

    async def _is_written(self, write: SetData) -> bool:
        """A request that was sent again after a lost connection finds what it has written itself."""
        found = await ask(self._zookeeper, GetData(write.path))
        return isinstance(found, Data) and found.data == write.data


def being_deleted(name: str) -> ApiError:
    return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion.")


def _exists(name: str) -> ApiError:
    return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")

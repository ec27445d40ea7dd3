"""The topics of a cluster. The controller tells which topics there are and who leads; the journal has this broker's replicas."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from oncelog.broker.config.configuration import Settings, topic_values
from oncelog.broker.slices import Slices
from oncelog.broker.storage.journal import Journal, ReplicasHosted, ReplicasLeft
from oncelog.broker.storage.log_settings import log_config
from oncelog.broker.storage.partition import Partition, ReplicaRole, UnopenedLog
from oncelog.broker.storage.topics import OpenLog, Topic, Topics
from oncelog.broker.view import LEADER_DURING_DELETE, UNKNOWN, Leadership
from oncelog.coordination import Promise, start
from oncelog.environment import DiskError
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")

NO_EPOCH = -1
REACHED_AT_ONCE = 1000
DURING_DELETE = Leadership(LEADER_DURING_DELETE)


@dataclass(frozen=True, slots=True)
class ReplicaId:
    """A replica that this broker shall have."""

    topic: str
    topic_id: UUID
    index: int


class TopicConfigs(Protocol):
    """The settings of topics."""

    def of_topic(self, name: str) -> Mapping[str, str]:
        """The last known settings of a topic."""
        ...

    async def read_topics(self, names: Iterable[str]) -> None:
        """Reads the current settings of topics, and applies them."""
        ...


class SharedTopics(Topics):
    """A replica is in the journal before its files are there, and until they are gone."""

    def __init__(
        self,
        journal: Journal,
        slices: Slices,
        settings: Settings,
        configs: TopicConfigs,
        open_log: OpenLog,
        make: Callable[[str, int, Mapping[str, str]], Promise[ErrorCode]],
        before_deletion: Callable[[Sequence[Partition]], Promise[None]],
        after_deletion: Callable[[Sequence[Partition]], Promise[None]],
        delete_unopened: Callable[[Topic, int, UnopenedLog], None],
        survives: Callable[[DiskError], bool],
    ) -> None:
        """`make` creates a topic in ZooKeeper."""
        super().__init__(slices, NO_EPOCH, settings, open_log, delete_unopened, survives)
        self._journal = journal
        self._configs = configs
        self._make = make
        self._before_deletion = before_deletion
        self._after_deletion = after_deletion
        self.on_learned: Callable[[Topic], None] = lambda _: None
        """Called with each topic whose state has changed."""
        self.on_gone: Callable[[Topic], None] = lambda _: None
        """Called when a topic is being deleted, and again when its last replica here is gone; or when its name is another's."""
        self._here: dict[tuple[str, int], Partition] = {}
        self._leaving: dict[tuple[str, int], Promise[None]] = {}
        self._being_made: dict[str, Promise[ErrorCode]] = {}
        self._names_to_be: dict[UUID, str] = {}
        """Names of topics whose first replicas are being created here."""
        self._awaited: dict[str, Promise[None]] = {}
        self._being_deleted_ids: set[UUID] = set()
        self._doubted: set[UUID] = set()
        """Topics from before, not yet confirmed by a controller."""

    def create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Promise[ErrorCode]:
        """Creates a topic. Resolved once it is in ZooKeeper: the controller announces it."""
        if name in self._by_name:
            return Promise.ready(ErrorCode.none)
        if super().collision(name) is not None:
            return Promise.ready(ErrorCode.invalid_topic_exception)
        if name not in self._being_made:
            made = self._make(name, partition_count, configs)
            self._being_made[name] = made
            made.then(lambda _: self._is_made(name))
            return made
        return self._being_made[name]

    def collision(self, name: str) -> str | None:
        """None: the creation checks for collisions in ZooKeeper."""
        return None

    def _names(self) -> Iterable[str]:
        return (*self._by_name, *self._being_made)

    def _is_made(self, name: str) -> None:
        del self._being_made[name]

    def told(self, name: str) -> Topic | None:
        """The topic of this name, unless it is being deleted (as in Kafka's ZkMetadataCache). Its replica may stay here while the
        deletion waits for a broker that is down.
        """
        topic = self.named(name)
        return None if topic is None or self.is_going(topic) else topic

    def is_going(self, topic: Topic) -> bool:
        return topic.topic_id in self._being_deleted_ids

    def announcement_of(self, name: str) -> Promise[None]:
        """Resolved when the controller announces a topic of this name, or when one is gone."""
        return self._awaited.setdefault(name, Promise())

    def _tell(self, name: str) -> None:
        awaited = self._awaited.pop(name, None)
        if awaited is not None:
            awaited.resolve(None)

    def hosted(self) -> Iterable[Partition]:
        """All that have a replica here."""
        return self._here.values()

    def replica(self, name: str, index: int) -> Partition | None:
        """The replica that is here of a partition of this name, also of a topic that was deleted and made again since."""
        return self._here.get((name, index))

    def name_of(self, topic_id: UUID) -> str | None:
        topic = self._by_id.get(topic_id)
        return self._names_to_be.get(topic_id) if topic is None else topic.name

    def learn(self, name: str, topic_id: UUID, states: Mapping[int, Leadership]) -> Topic:
        """Hear from the controller who leads these partitions of a topic. They are all of a topic that is new."""
        known = self._by_id.get(topic_id)
        topic = known or self._new_topic(name, topic_id)
        is_there = any(one.leader != LEADER_DURING_DELETE for one in states.values())
        if is_there:
            self._doubted.discard(topic_id)
        if is_there or (known is None and name not in self._by_name):
            self._name(topic)
        count = len(topic.partitions)
        self._reach(topic, max(states, default=-1))
        for index, leadership in states.items():
            deleted = leadership.leader == LEADER_DURING_DELETE
            topic.partitions[index].leadership = UNKNOWN if deleted else leadership
        self._note_deletion(topic_id, states)
        if len(topic.partitions) > count:
            self.version += 1
        self.on_learned(topic)
        self._forget_if_gone(topic)
        self._tell(name)
        return topic

    def _note_deletion(self, topic_id: UUID, states: Mapping[int, Leadership]) -> None:
        """A controller that may delete no topics gives up what the one before has not ended."""
        if any(one.leader == LEADER_DURING_DELETE for one in states.values()):
            self._being_deleted_ids.add(topic_id)
        else:
            self._being_deleted_ids.discard(topic_id)

    def doubt(self) -> None:
        """Marks all topics as unconfirmed: this broker may miss deletions until a controller sends its state."""
        self._doubted = {topic.topic_id for topic in self}

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forgets unconfirmed topics except these. Their replicas stay here, without a name.

        They are deleted only when another topic needs the name: at a wrong chroot of ZooKeeper every topic seems to be gone.
        """
        topics = [self._by_id[topic_id] for topic_id in self._doubted if topic_id in self._by_id]
        self._doubted.clear()
        for topic in topics:
            if topic.name in names:
                continue
            self.learn(topic.name, topic.topic_id, dict.fromkeys(range(len(topic.partitions)), DURING_DELETE))
            if self._by_name.get(topic.name) is topic:
                logger.info("topic %s with id %s was deleted; replicas of it are left over", topic.name, topic.topic_id)
                del self._by_name[topic.name]
                self.version += 1
                self._tell(topic.name)

    def claim(self, topic_id: UUID) -> None:
        """Confirms a topic: the controller orders replicas of it, even if this broker's ZooKeeper server is behind."""
        self._doubted.discard(topic_id)
        topic = self._by_id.get(topic_id)
        if topic is not None and topic.name not in self._by_name:
            self._being_deleted_ids.discard(topic_id)
            self._name(topic)

    def reach(self, partition_counts: Mapping[UUID, int]) -> None:
        """Extends topics to their partition counts: the controller may not have announced each partition yet."""
        for topic_id, count in partition_counts.items():
            topic = self._by_id.get(topic_id)
            if topic is not None:
                if count > len(topic.partitions):
                    self._reach(topic, count - 1)
                    self.version += 1
                self.on_learned(topic)

    def _make_topic(self, name: str, topic_id: UUID) -> Topic:
        topic = self._new_topic(name, topic_id)
        self._name(topic)
        return topic

    def _new_topic(self, name: str, topic_id: UUID) -> Topic:
        """A topic that is known by its id."""
        configs = dict(self._configs.of_topic(name))
        topic = self._by_id[topic_id] = Topic(name, topic_id, configs, topic_values(self._settings, configs), [])
        return topic

    def _name(self, topic: Topic) -> None:
        """Its name is its own from now on. A topic that had it was deleted: of that, replicas may be left over, and no leader."""
        before = self._by_name.get(topic.name)
        if before is topic:
            return
        self._by_name[topic.name] = topic
        self.version += 1
        if before is not None:
            logger.info("topic %s is another one now, with id %s", topic.name, topic.topic_id)
            for partition in before.partitions:
                partition.leadership = UNKNOWN
            self.on_gone(before)
            self._forget_if_gone(before)

    def _reach(self, topic: Topic, index: int) -> None:
        for new in range(len(topic.partitions), index + 1):
            topic.partitions.append(Partition(topic.name, new, NO_EPOCH, self.failed, self._wakes))

    def _forget_if_gone(self, topic: Topic) -> None:
        """Forgets a topic once no partition has a leader, or may get one, and no replica is here."""
        if any(one.leadership is not UNKNOWN for one in topic.partitions):
            return
        has_its_name = self._by_name.get(topic.name) is topic
        if has_its_name and topic.topic_id in self._being_deleted_ids:
            # Of a topic whose deletion this broker has missed the name may be another one's by now.
            self.on_gone(topic)
        if any(one.role is not ReplicaRole.NONE for one in topic.partitions):
            return
        del self._by_id[topic.topic_id]
        self._being_deleted_ids.discard(topic.topic_id)
        if has_its_name:
            del self._by_name[topic.name]
        self.version += 1
        for partition in topic.partitions:
            partition.wake()
        self._tell(topic.name)

    def replay_hosted(self, name: str, topic_id: UUID, indexes: Iterable[int]) -> Iterator[None]:
        """Open the logs of replicas that a start finds in the journal, one each step."""
        return self._open_all([ReplicaId(name, topic_id, index) for index in sorted(indexes)])

    def host(self, replicas: Sequence[ReplicaId]) -> Promise[None]:
        """Have these replicas, of which there is none here yet; resolves when their logs are open."""
        return start(self._host(replicas))

    async def _host(self, replicas: Sequence[ReplicaId]) -> None:
        if not replicas:
            # An order that brings nothing new does not wait for the journal's disk.
            return
        self._names_to_be = {one.topic_id: one.topic for one in replicas}
        for one in replicas:
            while (going := self._leaving.get((one.topic, one.index))) is not None:
                await going
        # There is no notification of a new topic's settings.
        await self._configs.read_topics({one.topic for one in replicas})
        by_topic: defaultdict[tuple[str, UUID], list[int]] = defaultdict(list)
        for one in replicas:
            by_topic[one.topic, one.topic_id].append(one.index)
        records = [
            ReplicasHosted(topic=name, topic_id=str(topic_id), partitions=indexes)
            for (name, topic_id), indexes in by_topic.items()
        ]
        await self._journal.write(records)
        await self._slices.run(self._open_all(replicas))
        self._names_to_be.clear()

    def _open_all(self, replicas: Sequence[ReplicaId]) -> Iterator[None]:
        for one in replicas:
            while (topic := self._told_topic(one)) and one.index - len(topic.partitions) > REACHED_AT_ONCE:
                self._reach(topic, len(topic.partitions) + REACHED_AT_ONCE)
                yield
            self._reach(topic, one.index)
            config = log_config(self._settings, topic.values, is_internal=topic.is_internal)
            log, directory = self._open_log(topic, one.index, config)
            partition = topic.partitions[one.index]
            partition.host(log, directory, ReplicaRole.FOLLOWER)
            self._here[one.topic, one.index] = partition
            if partition.is_offline:
                topic.offline.add(one.index)
            yield

    def _told_topic(self, replica: ReplicaId) -> Topic:
        return self._by_id.get(replica.topic_id) or self._make_topic(replica.topic, replica.topic_id)

    async def take_names(self, replicas: Sequence[ReplicaId]) -> None:
        """Delete, for each of these replicas, the one that is here of a topic that had the name before."""
        left_over = [self._here[one.topic, one.index] for one in replicas]
        for partition, one in zip(left_over, replicas, strict=True):
            logger.info(
                "%s of the topic with id %s is deleted: another topic has its name", partition, partition.topic_id
            )
            # The name is the other's at once: what groups have committed for that stays.
            if one.topic_id not in self._by_id:
                self._make_topic(one.topic, one.topic_id)
        await self.leave(left_over)

    def leave(self, partitions: Sequence[Partition]) -> Promise[None]:
        """Delete these replicas and their files; resolves when no power cut can bring them back."""
        gone: Promise[None] = Promise()
        for partition in partitions:
            partition.role = ReplicaRole.LEAVING
            self._leaving[partition.topic, partition.index] = gone
            partition.wake()
        start(self._leave(partitions, gone))
        return gone

    async def _leave(self, partitions: Sequence[Partition], gone: Promise[None]) -> None:
        await self._before_deletion(partitions)
        by_topic: defaultdict[tuple[str, UUID], list[int]] = defaultdict(list)
        for partition in partitions:
            by_topic[partition.topic, partition.topic_id].append(partition.index)
        records = [
            ReplicasLeft(topic=name, topic_id=str(topic_id), partitions=indexes)
            for (name, topic_id), indexes in by_topic.items()
        ]
        await self._journal.write(records)
        await self._slices.run(self._remove(partitions))
        await self._after_deletion(partitions)
        for partition in partitions:
            del self._leaving[partition.topic, partition.index]
        gone.resolve(None)

    def _remove(self, partitions: Sequence[Partition]) -> Iterator[None]:
        for partition in partitions:
            topic = self._by_id[partition.topic_id]
            try:
                self._remove_files(topic, partition)
            except DiskError as error:
                if not self._survives(error):
                    raise
            partition.leave()
            del self._here[partition.topic, partition.index]
            topic.offline.discard(partition.index)
            self._forget_if_gone(topic)
            yield

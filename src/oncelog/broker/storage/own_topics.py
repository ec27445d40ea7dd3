"""The topics of a broker that is alone: it makes them, deletes them and gives them partitions, and its journal keeps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from uuid import UUID

from oncelog.broker.config.configuration import Settings, topic_values
from oncelog.broker.slices import Slices
from oncelog.broker.storage.journal import Journal, TopicCreated, TopicDeleted
from oncelog.broker.storage.log_settings import log_config
from oncelog.broker.storage.partition import Partition, UnopenedLog
from oncelog.broker.storage.topics import OpenLog, Topic, Topics, configure_logs
from oncelog.coordination import Promise, start
from oncelog.environment import DiskError, Random
from oncelog.wire import ErrorCode

logger = logging.getLogger("oncelog.broker")


UNTOLD_MAX = 1000
"""So many deleted topics are remembered until somebody asks for them."""


class OwnTopics(Topics):
    """A change is durable in the journal before anybody hears of it."""

    def __init__(
        self,
        journal: Journal,
        slices: Slices,
        random: Random,
        leader_epoch: int,
        settings: Settings,
        open_log: OpenLog,
        before_deletion: Callable[[Topic], Promise[None]],
        after_deletion: Callable[[str, int], Promise[None]],
        on_made: Callable[[Topic], None],
        delete_unopened: Callable[[Topic, int, UnopenedLog], None],
        survives: Callable[[DiskError], bool],
    ) -> None:
        super().__init__(slices, leader_epoch, settings, open_log, delete_unopened, survives)
        self._journal = journal
        self._random = random
        self._before_deletion = before_deletion
        self._after_deletion = after_deletion
        self._on_made = on_made
        self._being_made: dict[str, Promise[ErrorCode]] = {}
        self._growing: dict[UUID, Promise[None]] = {}
        self._names_in_use: dict[str, Promise[None]] = {}
        self._untold: dict[str, None] = {}
        """Names of topics that were deleted, the newest last, and that nobody has asked for since."""

    def _names(self) -> Iterable[str]:
        return (*self._by_name, *self._being_made)

    def exists(self, name: str) -> bool:
        return name in self._by_name or name in self._being_made

    def tell_of_deletion(self, name: str) -> bool:
        if name not in self._untold:
            return False
        del self._untold[name]
        return True

    def create(self, name: str, partition_count: int, configs: Mapping[str, str]) -> Promise[ErrorCode]:
        """Resolve when it is there."""
        self._untold.pop(name, None)
        if name in self._by_name:
            return Promise.ready(ErrorCode.none)
        if name not in self._being_made:
            made = self._being_made[name] = Promise()
            start(self._create(name, partition_count, dict(configs), made))
            return made
        return self._being_made[name]

    async def all_made(self, names: Iterable[str | None]) -> None:
        """Wait until those of the topics that are being made are there."""
        for name in names:
            if name in self._being_made:
                await self._being_made[name]

    async def _create(self, name: str, partition_count: int, configs: dict[str, str], made: Promise[ErrorCode]) -> None:
        # The directories of the one before have its name until they are gone.
        while (before := self._being_deleted.get(name) or self._names_in_use.get(name)) is not None:
            await before
        record = TopicCreated(
            name=name, topic_id=str(self._random.uuid()), partition_count=partition_count, configs=configs
        )
        await self._journal.write([record])
        await self._slices.run(self._make(record))
        logger.info("topic %s is there, with %d partitions", name, partition_count)
        self._on_made(self._by_name[name])
        del self._being_made[name]
        made.resolve(ErrorCode.none)

    def replay_created(self, record: TopicCreated) -> Iterator[None]:
        """Open a topic's logs, one each step. Raises SettingError for a configuration that is not allowed."""
        return self._make(record)

    def _make(self, record: TopicCreated) -> Iterator[None]:
        """Open a topic's logs, one each step; at the end it is there."""
        configs = dict(record.configs)
        topic = Topic(record.name, record.uuid, configs, topic_values(self._settings, configs), [])
        yield from self._open(topic, 0, record.partition_count, topic.partitions)
        if topic.values != topic_values(self._settings, configs):
            # The broker has been given other settings meanwhile.
            self._apply_settings(topic)
        self._note_offline(topic)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.version += 1

    def grow(self, topic: Topic, partition_count: int) -> Promise[None]:
        """Give a topic as many partitions; the journal says so already. It is not deleted before they are there."""
        grown = self._growing[topic.topic_id] = Promise()
        start(self._grow(topic, partition_count, grown))
        return grown

    async def _grow(self, topic: Topic, partition_count: int, grown: Promise[None]) -> None:
        opened: list[Partition] = []
        await self._slices.run(self._open(topic, len(topic.partitions), partition_count, opened))
        # It may have been given other settings meanwhile.
        config = log_config(self._settings, topic.values, is_internal=topic.is_internal)
        configure_logs(opened, config)
        topic.partitions += opened
        self._note_offline(topic)
        self.version += 1
        logger.info("topic %s has %d partitions now", topic.name, partition_count)
        del self._growing[topic.topic_id]
        grown.resolve(None)

    def delete(self, topic: Topic) -> Promise[None]:
        """Delete a topic and its files; readers that wait for it are woken and find it gone."""
        if topic.name in self._being_deleted:
            return self._being_deleted[topic.name]
        gone = self._being_deleted[topic.name] = Promise()
        start(self._delete(topic, gone))
        return gone

    async def _delete(self, topic: Topic, gone: Promise[None]) -> None:
        await self._before_deletion(topic)
        await self._journal.write([TopicDeleted(name=topic.name)])
        if topic.topic_id in self._growing:
            await self._growing[topic.topic_id]
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self._untold[topic.name] = None
        if len(self._untold) > UNTOLD_MAX:
            del self._untold[next(iter(self._untold))]
        self.version += 1
        partition_count = len(topic.partitions)
        await self._slices.run(self._remove(topic))
        # A topic is made under this name when nothing of this one can come back.
        logger.info("topic %s is deleted", topic.name)
        free = self._names_in_use[topic.name] = Promise()
        del self._being_deleted[topic.name]
        gone.resolve(None)
        await self._after_deletion(topic.name, partition_count)
        del self._names_in_use[topic.name]
        free.resolve(None)

    def _remove(self, topic: Topic) -> Iterator[None]:
        """Delete the partitions, and let go of each: to free ten thousand at once takes long."""
        while topic.partitions:
            partition = topic.partitions.pop()
            try:
                self._remove_files(topic, partition)
            except DiskError as error:
                if not self._survives(error):
                    raise
            partition.wake()
            yield

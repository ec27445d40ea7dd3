"""The work around deleted topics and replicas that leave: moves end, and checkpoints forget them."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.broker.config.configuration import Settings
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.log_settings import log_config
from oncelog.broker.storage.moving import LogMoves
from oncelog.broker.storage.partition import Partition, UnopenedLog
from oncelog.broker.storage.topics import Topic
from oncelog.coordination import Promise, start
from oncelog.environment import Clock, Disk
from oncelog.log import LogDirectories, delete_partition


class Departures:
    def __init__(self, clock: Clock, log_directories: LogDirectories, settings: Settings, disk: Disk) -> None:
        self._clock = clock
        self._log_directories = log_directories
        self._settings = settings
        self._disk = disk

    def tell(
        self, checkpoints: Checkpoints, moves: LogMoves, offsets: CommittedOffsets, transactions: Transactions
    ) -> None:
        """From now on these are told: they are made once the topics are known."""
        self._checkpoints = checkpoints
        self._moves = moves
        self._offsets = offsets
        self._transactions = transactions

    def before_deletion(self, topic: Topic) -> Promise[None]:
        """A topic made anew under this name must not be held to the offsets of the one that goes."""
        self._offsets.forget_topic(topic)
        return start(self._moves.end_all(topic))

    def after_deletion(self, topic: str, partition_count: int) -> Promise[None]:
        """Resolve when no power cut can bring the files back, for a topic made anew would take them for its own.

        A power cut may keep what the journal says next and lose what names the files had by then: a checkpoint makes durable
        which names are in each directory, and holds nobody to the recovery points of those that are gone.
        """
        self._transactions.leaders_changed()
        self._log_directories.forget((topic, index) for index in range(partition_count))
        return self._checkpoints.write()

    def forget_offsets(self, topic: Topic) -> None:
        self._offsets.forget_topic(topic)

    def before_leaving(self, partitions: Sequence[Partition]) -> Promise[None]:
        return start(self._end_moves_of(partitions))

    async def _end_moves_of(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            await self._moves.end((partition.topic_id, partition.index))

    def after_leaving(self, partitions: Sequence[Partition]) -> Promise[None]:
        self._log_directories.forget((one.topic, one.index) for one in partitions)
        return self._checkpoints.write()

    def delete_unopened(self, topic: Topic, index: int, log: UnopenedLog) -> None:
        if self._disk.exists(log.directory):
            config = log_config(self._settings, topic.values, is_internal=topic.is_internal)
            delay_ms = config.file_delete_delay_ms
            delete_partition(self._disk, self._clock, log.directory, topic.name, index, topic.topic_id, delay_ms)

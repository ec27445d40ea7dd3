"""What goes on around topics that are deleted, and replicas that leave: moves end, and checkpoints forget them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.storage.log_settings import log_config
from oncelog.coordination import Parked, start
from oncelog.log import LogDirectories, delete_partition

if TYPE_CHECKING:
    from oncelog.broker.config.configuration import Settings
    from oncelog.broker.coordinators.offsets import CommittedOffsets
    from oncelog.broker.coordinators.transactions import Transactions
    from oncelog.broker.storage.checkpoints import Checkpoints
    from oncelog.broker.storage.moving import LogMoves
    from oncelog.broker.storage.partition import Partition, UnopenedLog
    from oncelog.broker.storage.topics import Topic
    from oncelog.environment import Clock, Disk


class Needs(Protocol):
    """What of the broker is needed here."""

    checkpoints: Checkpoints
    clock: Clock
    log_directories: LogDirectories
    moves: LogMoves
    offsets: CommittedOffsets
    settings: Settings
    transactions: Transactions


class Departures:
    def __init__(self, broker: Needs, disk: Disk) -> None:
        self._broker = broker
        self._disk = disk

    def before_deletion(self, topic: Topic) -> Parked[None]:
        """A topic made anew under this name must not be held to the offsets of the one that goes."""
        self._broker.offsets.forget_topic(topic)
        return start(self._broker.moves.end_all(topic))

    def after_deletion(self, topic: str, partition_count: int) -> Parked[None]:
        """Release when no power cut can bring the files back, for a topic made anew would take them for its own.

        A power cut may keep what the journal says next and lose what names the files had by then: a checkpoint makes durable
        which names are in each directory, and holds nobody to the recovery points of those that are gone.
        """
        self._broker.transactions.leaders_changed()
        self._broker.log_directories.forget((topic, index) for index in range(partition_count))
        return self._broker.checkpoints.write()

    def forget_offsets(self, topic: Topic) -> None:
        self._broker.offsets.forget_topic(topic)

    def before_leaving(self, partitions: Sequence[Partition]) -> Parked[None]:
        return start(self._end_moves_of(partitions))

    async def _end_moves_of(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            await self._broker.moves.end((partition.topic_id, partition.index))

    def after_leaving(self, partitions: Sequence[Partition]) -> Parked[None]:
        self._broker.log_directories.forget((one.topic, one.index) for one in partitions)
        return self._broker.checkpoints.write()

    def delete_unopened(self, topic: Topic, index: int, log: UnopenedLog) -> None:
        if self._disk.exists(log.directory):
            delay_ms = log_config(
                self._broker.settings, topic.values, is_internal=topic.is_internal
            ).file_delete_delay_ms
            clock = self._broker.clock
            delete_partition(self._disk, clock, log.directory, topic.name, index, topic.topic_id, delay_ms)

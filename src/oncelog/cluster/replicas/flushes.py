"""What followers make durable before their leader hears of it: flush.messages and flush.ms hold for them as for a leader.

A leader counts the end that a Fetch names into the high watermark, and by that tells producers and readers that the records stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.storage.partition import Partition
from oncelog.coordination import start
from oncelog.coordination.deadline import Deadline
from oncelog.log import DataDirectory
from oncelog.replication.fetch_session import TopicPartition

if TYPE_CHECKING:
    from oncelog.broker.storage.durability import Durability
    from oncelog.environment import Clock

PATIENCE_MS = 50
"""For so long the next Fetch waits for a flush. Most disks are done by then, and the fetch session keeps its partitions."""


class Flushes:
    """Nobody holds the logs meanwhile: a log may be followed no more, be led or be deleted before its flush is over."""

    def __init__(
        self,
        clock: Clock,
        durability: Durability,
        partitions: Mapping[TopicPartition, Partition],
        on_end: Callable[[], None],
    ) -> None:
        """`partitions` has at any time those that are followed. `on_end` hears of each flush that is over."""
        self._clock = clock
        self._durability = durability
        self._partitions = partitions
        self._on_end = on_end
        self._under_way: set[TopicPartition] = set()

    def is_due(self, key: TopicPartition) -> bool:
        return self._partitions[key].log.durability.needs_flush(self._clock.now_ms())

    async def make_durable(self, keys: Iterable[TopicPartition]) -> None:
        """Flush what is due of these, and wait until that is over, or takes too long. Then it goes on by itself."""
        begun = [start(self._flush(some)) for some in self._begin(keys)]
        if not begun:
            return
        patience = Deadline(self._clock, PATIENCE_MS)
        try:
            for flush in begun:
                await patience.until(flush)
        finally:
            patience.end()

    def _begin(self, keys: Iterable[TopicPartition]) -> Collection[Sequence[TopicPartition]]:
        """What is due and not under way, apart for each directory: one disk does not wait for another."""
        due: defaultdict[DataDirectory, list[TopicPartition]] = defaultdict(list)
        for key in keys:
            if key in self._partitions and key not in self._under_way and self.is_due(key):
                due[self._partitions[key].directory].append(key)
        return due.values()

    async def _flush(self, keys: Sequence[TopicPartition]) -> None:
        self._under_way.update(keys)
        # A disk that fails takes its directory offline, with what is followed there.
        await self._durability.make_durable([self._partitions[key].log for key in keys])
        self._under_way.difference_update(keys)
        self._on_end()

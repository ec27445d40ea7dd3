"""Flushes of a follower before its next Fetch: flush.messages and flush.ms hold for followers as for a leader.

The leader advances the high watermark by the end offset of the Fetch, and so acknowledges the records to producers and readers.
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
    """A flush does not lock its logs: a log may be led or deleted, or follow no leader, before its flush ends."""

    def __init__(
        self,
        clock: Clock,
        durability: Durability,
        partitions: Mapping[TopicPartition, Partition],
        on_end: Callable[[], None],
    ) -> None:
        """`partitions` always has the followed partitions. `on_end` is called after each flush."""
        self._clock = clock
        self._durability = durability
        self._partitions = partitions
        self._on_end = on_end
        self._under_way: set[TopicPartition] = set()

    def is_due(self, key: TopicPartition) -> bool:
        return self._partitions[key].log.durability.needs_flush(self._clock.now_ms())

    async def make_durable(self, keys: Iterable[TopicPartition]) -> None:
        """Flushes the due partitions, and waits PATIENCE_MS at most. A longer flush goes on by itself."""
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
        """Groups the due partitions by directory: no disk waits for another."""
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

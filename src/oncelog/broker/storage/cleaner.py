"""Compacting logs, one at a time, the one that needs it most first (Kafka's LogCleaner)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from oncelog.broker.config.configuration import Settings
from oncelog.broker.slices import Slices, beside
from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.topics import Topics
from oncelog.coordination import Promise, Task, sleep, start
from oncelog.environment import Clock, Disk, DiskError, DiskFullError, RefusedError, Syncable, Workers
from oncelog.log import DamagedLogError, PartitionLog
from oncelog.log.compaction import Cleaning, CleaningSync, CleaningWork, UncleanableError

logger = logging.getLogger("oncelog.broker")

BACKOFF_MIN_MS = 50
"""However short the setting says: to look at every log takes time."""
REST = 2
"""So many times as long as a step took is rested after it: reading, deciding and writing take the interpreter from those who
are served.
"""
MIB = 1024 * 1024

LogKey = tuple[UUID, int]


class LogCleaner:
    """Begins with the broker, unless log.cleaner.enable is false."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        clock: Clock,
        durability: Durability,
        settings: Settings,
        slices: Slices,
        topics: Topics,
        workers: Workers,
        survives: Callable[[DiskError], bool],
        disk: Disk,
    ) -> None:
        self._checkpoints = checkpoints
        self._clock = clock
        self._durability = durability
        self._settings = settings
        self._slices = slices
        self._topics = topics
        self._workers = workers
        self._survives = survives
        self._disk = disk
        self._uncleanable: set[LogKey] = set()
        self._task: Task[None] | None = None
        if settings.value("log.cleaner.enable"):
            self._task = start(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.end()

    async def _run(self) -> None:
        while True:
            await sleep(self._clock, max(self._settings.number("log.cleaner.backoff.ms"), BACKOFF_MIN_MS))
            try:
                while await self._clean_all():
                    pass
            except DiskError as error:
                if not self._survives(error):
                    return

    async def _clean_all(self) -> bool:
        """Clean the logs that are worth it, the one with the largest dirty share first; False if none was cleaned.

        What they have is made durable for all of them at once, for the logs of others share the write-ahead log with it.
        """
        found: dict[LogKey, float] = {}
        await self._slices.run(self._look_at_all(found))
        if not found:
            return False
        ends = {key: log.log_end_offset for key in found if (log := self._log(key)) is not None}
        await self._durability.leave_to_themselves([log for key in ends if (log := self._log(key)) is not None])
        await self._checkpoints.write()
        has_cleaned = False
        for key in sorted(ends, key=found.__getitem__, reverse=True):
            if await self._clean(key, ends[key]):
                has_cleaned = True
        return has_cleaned

    async def _clean(self, key: LogKey, end_offset: int) -> bool:
        """Clean a log, of which everything below `end_offset` is in its own files alone; False if that was not to be."""
        cleaning = self._begin(key, end_offset)
        if cleaning is None:
            return False
        began_ms = self._clock.monotonic_ms()
        try:
            await self._carry_out(cleaning)
        except UncleanableError as error:
            self._give_up(key, error)
            return False
        except DamagedLogError as damage:
            self._take_offline(key, damage)
            return False
        except (DiskFullError, RefusedError) as error:
            self._leave(key, error)
            return False
        await self._checkpoints.write()
        return self._report(key, cleaning, began_ms)

    def _look_at_all(self, found: dict[LogKey, float]) -> Iterator[None]:
        """Note the dirty share of every log that is worth cleaning; one partition each step.

        Kafka seals a segment whose records have waited too long with the next append alone, whenever that is.
        """
        now_ms = self._clock.now_ms()
        for partition in self._topics.partitions():
            log = partition.log
            try:
                log.compaction.roll_overdue(now_ms)
                dirt = log.compaction.dirt(now_ms)
            except DiskError as error:
                self._topics.failed(partition, error)
                continue
            key = (log.topic_id, log.partition)
            if dirt is not None and key not in self._uncleanable and log.compaction.is_worth_cleaning(dirt):
                found[key] = dirt.ratio
            yield

    def _begin(self, key: LogKey, end_offset: int) -> Cleaning | None:
        log = self._log(key)
        if log is None:
            return None
        load_factor = self._settings.value("log.cleaner.io.buffer.load.factor")
        assert isinstance(load_factor, float), "it has a default"
        logger.info("%s: cleaning begins", log.name)
        return log.compaction.begin(self._settings.number("log.cleaner.dedupe.buffer.size"), load_factor, end_offset)

    async def _carry_out(self, cleaning: Cleaning) -> None:
        """The log drops its cleaning when it is deleted or its segments change otherwise: then there are no more steps."""
        clock = self._clock
        began_ms = clock.monotonic_ms()
        for step in cleaning.steps():
            match step:
                case CleaningWork(work):
                    await beside(self._workers, work, is_long=True)
                    took_ms = clock.monotonic_ms() - began_ms
                    if took_ms > 0:
                        await sleep(clock, took_ms * REST)
                    began_ms = clock.monotonic_ms()
                case CleaningSync(files):
                    if not await self._sync(files):
                        return

    def _sync(self, files: Sequence[Syncable]) -> Promise[bool]:
        """Resolve when the files are durable, or with False when their directory is offline."""
        durable: Promise[bool] = Promise()

        def synced(error: DiskError | None) -> None:
            if error is None:
                durable.resolve(True)
            elif self._survives(error):
                durable.resolve(False)

        self._disk.sync(files, synced)
        return durable

    def _leave(self, key: LogKey, error: DiskFullError | RefusedError) -> None:
        """A cleaning needs room before it makes some, and memory."""
        log = self._log(key)
        if log is not None:
            log.compaction.drop()
            logger.warning("%s is not cleaned now: %s", log.name, error)

    def _give_up(self, key: LogKey, error: UncleanableError) -> None:
        """Leave a log as it is until the next start, as Kafka does."""
        self._uncleanable.add(key)
        log = self._log(key)
        if log is not None:
            log.compaction.drop()
            logger.error("%s is not cleaned any more until the next start: %s", log.name, error)

    def _take_offline(self, key: LogKey, damage: DamagedLogError) -> None:
        """Serve a log no more that cannot be read; the others go on."""
        topic_id, index = key
        topic = self._topics.with_id(topic_id)
        partition = None if topic is None else topic.partition(index)
        if partition is not None:
            partition.log.compaction.drop()
            self._topics.take_offline(partition, damage)

    def _report(self, key: LogKey, cleaning: Cleaning, began_ms: float) -> bool:
        """Log the result; True if the log was cleaned to the end."""
        log = self._log(key)
        if log is None or cleaning.is_dropped:
            return False
        took_s = (self._clock.monotonic_ms() - began_ms) / 1000
        logger.info(
            "%s: cleaned up to offset %s; of %.1f MiB, %.1f MiB are left, after %.1f s",
            log.name,
            log.compaction.cleaned_offset,
            cleaning.bytes_before / MIB,
            cleaning.bytes_written / MIB,
            took_s,
        )
        return True

    def _log(self, key: LogKey) -> PartitionLog | None:
        topic_id, index = key
        topic = self._topics.with_id(topic_id)
        partition = None if topic is None else topic.partition(index)
        return None if partition is None or partition.is_offline else partition.log

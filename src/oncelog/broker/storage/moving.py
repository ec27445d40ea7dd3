"""Moving the logs of partitions to other log directories, one after the other (Kafka's ReplicaAlterLogDirsManager).

A move is known by the directory of its future log alone: a start that finds one begins to copy again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from uuid import UUID

from oncelog.broker.storage.checkpoints import Checkpoints
from oncelog.broker.storage.durability import Durability
from oncelog.broker.storage.partition import Partition, ReplicaRole
from oncelog.broker.storage.topics import Topic, Topics
from oncelog.coordination import Promise, Task, sleep, start
from oncelog.environment import Clock, Disk, DiskError, Random, Syncable
from oncelog.log import (
    PARTITION_METADATA,
    FutureLog,
    LogDirectories,
    PartitionLog,
    SyncPoint,
    delete_partition,
    read_topic_id,
)
from oncelog.log.names import future_partition_of

logger = logging.getLogger("oncelog.broker")

REST = 2
"""So many times as long as a step took is rested after it."""
ATTEMPTS = 5
"""So often the rest is copied while nobody may sync the log; then everybody is let on for a while."""
PAUSE_MS = 100

LogKey = tuple[UUID, int]


class MoveState(Enum):
    """WAITING -> COPYING -> SWITCHING -> COPYING or OVER. From each of the first two it may be OVER, too."""

    WAITING = "waiting"
    COPYING = "copying"
    SWITCHING = "switching"
    OVER = "over"


NEXT = {
    MoveState.WAITING: {MoveState.COPYING, MoveState.OVER},
    MoveState.COPYING: {MoveState.SWITCHING, MoveState.OVER},
    MoveState.SWITCHING: {MoveState.COPYING, MoveState.OVER},
    MoveState.OVER: set[MoveState](),
}


class Move:
    """One log on its way to `log_directory`. `over` is resolved when it is there, or will not go there.

    `is_cut`: the log was cut off, and what was copied of it counts no more.
    """

    __slots__ = ("_state", "future", "is_called_off", "is_cut", "key", "log_directory", "name", "over")

    def __init__(self, key: LogKey, name: str, log_directory: str, future: FutureLog) -> None:
        self.key = key
        self.name = name
        self.log_directory = log_directory
        self.future = future
        self.over: Promise[None] = Promise()
        self.is_called_off = False
        self.is_cut = False
        self._state = MoveState.WAITING

    def log_is_cut(self) -> None:
        self.is_cut = True

    @property
    def state(self) -> MoveState:
        return self._state

    def become(self, state: MoveState) -> None:
        assert state in NEXT[self._state], f"{self._state} is not followed by {state}"
        self._state = state
        if state is MoveState.OVER:
            self.over.resolve(None)


class LogMoves:
    """At most one move of a log at a time. One that is SWITCHING cannot be taken back."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        clock: Clock,
        durability: Durability,
        log_directories: LogDirectories,
        topics: Topics,
        survives: Callable[[DiskError], bool],
        disk: Disk,
        random: Random,
    ) -> None:
        self._checkpoints = checkpoints
        self._clock = clock
        self._durability = durability
        self._log_directories = log_directories
        self._topics = topics
        self._survives = survives
        self._disk = disk
        self._random = random
        self._moves: dict[LogKey, Move] = {}
        self._task: Task[None] | None = None

    def resume(self) -> None:
        """Begin the moves again that the last stop has interrupted, and remove what is left of others."""
        for log_directory, path in self._log_directories.futures():
            partition = self._partition_of(path)
            self._disk.remove(path)
            if partition is None or not partition.is_readable:
                continue
            where = self._log_directories.directory_of(partition.topic, partition.index)
            if where != log_directory and self.of((partition.log.topic_id, partition.index)) is None:
                self.begin(partition, log_directory)

    def _partition_of(self, path: str) -> Partition | None:
        index = future_partition_of(path.rpartition("/")[2])
        with suppress(DiskError):
            topic = self._topics.with_id(read_topic_id(self._disk, f"{path}/{PARTITION_METADATA}"))
            if topic is not None and index is not None:
                return topic.partition(index)
        return None

    def stop(self) -> None:
        """Stop; the next start begins the moves again."""
        if self._task is not None:
            self._task.end()

    def of(self, key: LogKey) -> Move | None:
        """The move of a log that is under way."""
        return self._moves.get(key)

    def begin(self, partition: Partition, log_directory: str) -> None:
        """Move a log that is not on its way. Raises DiskError if the directory cannot be written."""
        log = partition.log
        key = (log.topic_id, log.partition)
        assert key not in self._moves, "a log moves to one directory at a time"
        move = Move(key, log.name, log_directory, self._new_future(log, log_directory))
        log.compaction.pause()
        log.on_cut = move.log_is_cut
        self._moves[key] = move
        logger.info("%s moves to %s", log.name, log_directory)
        if self._task is None or self._task.is_resolved:
            self._task = start(self._run())

    def _new_future(self, log: PartitionLog, log_directory: str) -> FutureLog:
        topic, _, _ = log.name.rpartition("-")
        number = self._log_directories.moves_of(topic, log.partition) + 1
        return FutureLog(self._disk, log, log_directory, self._random.uuid(), number)

    async def end(self, key: LogKey) -> None:
        """Come back when a log is on its way no more: a move that can be taken back is."""
        move = self._moves.get(key)
        if move is None:
            return
        if move.state is MoveState.SWITCHING:
            move.is_called_off = True
            await move.over
        else:
            logger.info("%s does not move to %s any more", move.name, move.log_directory)
            self._drop(move)

    async def end_all(self, topic: Topic) -> None:
        """Come back when no log of a topic, which is to be deleted, is on its way."""
        topic_id, count = topic.topic_id, len(topic.partitions)
        for index in range(count):
            await self.end((topic_id, index))

    async def _run(self) -> None:
        while (move := next(iter(self._moves.values()), None)) is not None:
            try:
                await self._carry_out(move)
            except DiskError as error:
                if move.future.is_in_place:
                    if not self._survives(error):
                        return
                    if move.state is not MoveState.OVER:
                        self._forget(move)
                    continue
                # Other uses of the directory meet the error, too.
                logger.error("%s does not move to %s: %s", move.name, move.log_directory, error)
                if move.state is not MoveState.OVER:
                    self._drop(move)

    async def _carry_out(self, move: Move) -> None:
        move.become(MoveState.COPYING)
        while move.state is MoveState.COPYING:
            log = self._log(move)
            if move.is_called_off or log is None:
                self._drop(move)
                return
            if move.is_cut:
                self._begin_again(move, log)
            await self._copy(move)
            if move.state is not MoveState.COPYING or move.is_cut or self._log(move) is None:
                # It may be offline by now, or gone: the next round sees to that.
                continue
            if move.future.is_near:
                await self._switch(move)

    def _begin_again(self, move: Move, log: PartitionLog) -> None:
        """Copy it into a directory of another name: no power cut may bring back there what was copied before."""
        self._discard(move.future)
        move.is_cut = False
        move.future = self._new_future(log, move.log_directory)

    async def _copy(self, move: Move) -> None:
        """One pass over the log."""
        clock = self._clock
        began_ms = clock.monotonic_ms()
        for step in move.future.steps():
            if step is not None:
                await _synced(self._disk, step.files)
            took_ms = clock.monotonic_ms() - began_ms
            if took_ms > 0:
                await sleep(clock, took_ms * REST)
            if move.state is MoveState.OVER or move.is_cut or self._log(move) is None:
                return
            began_ms = clock.monotonic_ms()

    async def _switch(self, move: Move) -> None:
        """Let the log go on in the copy.

        Everything that was said to be durable is durable in the copy then: while nobody may sync the log's own files, the copy
        is synced once more. Nothing more is said to be until the copy's new name is durable.
        """
        log = self._log(move)
        assert log is not None, "it was there when this step began"
        move.become(MoveState.SWITCHING)
        held, source = log, log.directory
        await self._durability.hold(held)
        try:
            synced = await self._take_over(move)
            if synced is not None:
                await self._checkpoints.write()
                if self._log(move) is not None:
                    held.is_durable_in_copy(synced)
        except DiskError as error:
            if not move.future.is_in_place or self._survives(error):
                self._durability.let_go(held)
            raise
        self._durability.let_go(held)
        if synced is not None and self._log(move) is None:
            # Its disk failed just then: whichever directory the next start finds, the old one is not removed here.
            logger.error("%s is offline, and in %s too", move.name, source)
            self._forget(move)
        elif synced is not None:
            await self._finish(move, source)
        else:
            move.become(MoveState.COPYING)
            await sleep(self._clock, PAUSE_MS)

    async def _take_over(self, move: Move) -> SyncPoint | None:
        """Up to where the log is durable in the copy, in which it goes on; None if it changed too much meanwhile."""
        for _ in range(ATTEMPTS):
            log = self._log(move)
            if log is None or move.is_cut:
                return None
            synced = log.durability.sync_point()
            for step in move.future.steps():
                if step is not None:
                    await _synced(self._disk, step.files)
            if self._log(move) is None:
                return None
            try:
                move.future.take_over(synced)
            finally:
                if move.future.is_in_place:
                    self._moved(move)
            if move.future.is_in_place:
                return synced
        return None

    def _moved(self, move: Move) -> None:
        partition = self._partition(move)
        assert partition is not None, "it is not deleted while a log of it changes its directory"
        directories = self._log_directories
        directories.moved((partition.topic, partition.index), move.log_directory)
        partition.directory = directories.holder(partition.topic, partition.index)

    async def _finish(self, move: Move, source: str) -> None:
        """Remove what the log was before; nothing can bring it back when this is over."""
        topic, _, index = move.name.rpartition("-")
        delay_ms = self._file_delete_delay_ms(move)
        delete_partition(self._disk, self._clock, source, topic, int(index), self._random.uuid(), delay_ms)
        await self._checkpoints.write()
        logger.info("%s is in %s", move.name, move.log_directory)
        self._forget(move)

    def _file_delete_delay_ms(self, move: Move) -> int:
        topic = self._topics.with_id(move.key[0])
        assert topic is not None, "it is not deleted while a log of it changes its directory"
        return int(str(topic.values["file.delete.delay.ms"]))

    def _drop(self, move: Move) -> None:
        """Leave the log where it is, and remove what was copied."""
        assert not move.future.is_in_place, "the log is in there now"
        self._forget(move)
        self._discard(move.future)

    def _discard(self, future: FutureLog) -> None:
        with suppress(DiskError):
            future.drop()
        self._disk.in_background(lambda: self._disk.remove(future.directory), lambda _: None)

    def _forget(self, move: Move) -> None:
        del self._moves[move.key]
        log = self._log(move)
        if log is not None:
            log.compaction.resume()
            log.on_cut = lambda: None
        move.become(MoveState.OVER)

    def _log(self, move: Move) -> PartitionLog | None:
        """The log that moves; None if it is gone, or offline."""
        partition = self._partition(move)
        return None if partition is None or partition.is_offline else partition.log

    def _partition(self, move: Move) -> Partition | None:
        """By the id of its topic: another one may have its name by now."""
        topic_id, index = move.key
        topic = self._topics.with_id(topic_id)
        partition = None if topic is None else topic.partition(index)
        return None if partition is None or partition.role is ReplicaRole.NONE else partition


async def _synced(disk: Disk, files: Sequence[Syncable]) -> None:
    """Raises DiskError if they cannot be made durable."""
    over: Promise[DiskError | None] = Promise()
    disk.sync(files, over.resolve)
    error = await over
    if error is not None:
        raise error

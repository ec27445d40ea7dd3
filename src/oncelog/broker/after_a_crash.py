"""A start after a stop that was not clean: the write-ahead log gives back, lost decisions are forgotten, producers fenced."""

from __future__ import annotations

from uuid import UUID

from oncelog.broker.coordinators.loading import JournalState
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.journal import BootTrusted, Journal
from oncelog.broker.storage.opening import LeftByLastStop
from oncelog.broker.storage.topics import TRANSACTION_STATE, Topics
from oncelog.environment import Disk
from oncelog.log import DamagedLogError, LogDirectories, OwnCheckpoint, PartitionLog, PartitionOffsets, Replayed, replay

KEPT = ".kept"


def replay_write_ahead(disk: Disk, directories: LogDirectories, state: JournalState) -> Replayed:
    """Give the logs back what they had lost to a power cut, before they are opened."""
    names = {record.uuid: record.name for record in state.topics.values()}
    names |= {topic_id: one.topic for topic_id, one in state.hosted.items()}

    def path(topic_id: UUID, partition: int) -> str | None:
        name = names.get(topic_id)
        return None if name is None else directories.partition_path(name, partition)

    return replay(disk, directories.home, path)


def put_away(disk: Disk, replayed: Replayed) -> None:
    """The logs have what is in the files of the write-ahead log."""
    for path in replayed.files:
        if replayed.is_whole:
            disk.remove(path)
        else:
            # A repair of the log that is too short needs what is in here.
            disk.rename(path, path + KEPT)


def left_by_last_stop(
    directories: LogDirectories,
    replayed: Replayed,
    own: OwnCheckpoint | None,
    high_watermarks: PartitionOffsets,
    *,
    was_clean: bool,
) -> LeftByLastStop:
    """The offsets of each log in the files beside it."""
    return LeftByLastStop(
        was_clean,
        directories.recovery_points(),
        directories.log_start_offsets(),
        directories.cleaned_offsets(),
        _durable_ends(replayed, own),
        None if own is None else own.aborted,
        None if own is None else own.gaps_below,
        high_watermarks,
    )


def _durable_ends(replayed: Replayed, own: OwnCheckpoint | None) -> dict[tuple[UUID, int], int]:
    """The durable ends in the write-ahead log, and those in an earlier one of logs that could not be opened since."""
    ends = {} if own is None else dict(own.durable_ends)
    for log, end in replayed.durable_ends.items():
        ends[log] = max(end, ends.get(log, 0))
    return ends


def cut_back_decisions(topics: Topics, left: LeftByLastStop) -> None:
    """Forget every decision that was not durable: what it is about may be lost, and nobody was told of it."""
    for partition in topics.partitions():
        log = partition.log
        if has_decisions(log):
            vouched = left.durable_ends.get((log.topic_id, log.partition), 0)
            try:
                log.truncate_to(max(vouched, left.recovery_points.get((partition.topic, partition.index), 0)))
            except DamagedLogError as damage:
                topics.take_offline(partition, damage)


def has_decisions(log: PartitionLog) -> bool:
    return log.name == f"{TRANSACTION_STATE}-{log.partition}"


class Boot:
    """While a boot is not trusted no stop is a clean one: the next start has to fence every producer again."""

    def __init__(self, boot_id: str, journal: Journal, transactions: Transactions, *, is_trusted: bool) -> None:
        self.is_trusted = is_trusted
        self._id = boot_id
        self._journal = journal
        self._transactions = transactions

    async def trust(self) -> None:
        """Write down that nothing since this boot is lost; after a power cut, once every producer is fenced."""
        if not self.is_trusted:
            await self._transactions.fence_all()
            if not self._transactions.knows_every_id():
                # Those whose log is damaged are fenced by the start that can read it: until then no stop is a clean one.
                return
        self.is_trusted = True
        await self._journal.write([BootTrusted(boot_id=self._id)])

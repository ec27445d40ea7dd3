"""The start of a broker: its environment, and the report of what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oncelog.broker.journal_metadata import JournalMetadata
from oncelog.broker.metadata import NewMetadata
from oncelog.environment import Clock, Disk, Random, Workers

if TYPE_CHECKING:
    from oncelog.broker.storage.topics import Topics


class Environment(NamedTuple):
    """The world around a broker. One that is alone has its metadata from its journal."""

    clock: Clock
    disk: Disk
    workers: Workers
    random: Random
    new_metadata: NewMetadata = JournalMetadata


class StartReport(NamedTuple):
    """The findings of a start. Bytes are those that followed the last checkpoint, and those of torn appends.

    `damage` has a sentence for each partition that is offline.
    """

    was_clean: bool
    partitions_read: int
    bytes_read: int
    bytes_cut: int
    hanging_transactions: int
    damage: tuple[str, ...]


def report_of(topics: Topics, *, was_clean: bool, hanging_transactions: int) -> StartReport:
    recoveries = [partition.log.recovery for partition in topics.partitions()]
    return StartReport(
        was_clean,
        sum(recovery.bytes_read > 0 for recovery in recoveries),
        sum(recovery.bytes_read for recovery in recoveries),
        sum(recovery.bytes_cut for recovery in recoveries),
        hanging_transactions,
        tuple(one.damage for one in topics.every_partition() if one.damage is not None),
    )

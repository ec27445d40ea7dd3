"""Faults that are planted in the broker, and within how many seeds the simulation has to find each.

A simulation that finds nothing may be looking at nothing: each of these must make it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from oncelog.broker.broker import BrokerCore
from oncelog.broker.coordinators.offsets import CommittedOffsets
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.storage.durability import Durability
from oncelog.coordination import Parked
from oncelog.log.partition_log import PartitionLog
from oncelog.simulation.disk import SimulatedDisk

Planted = Callable[[], AbstractContextManager[Any]]


def _one_marker_is_forgotten() -> AbstractContextManager[Any]:
    found = Transactions._partitions
    return patch.object(Transactions, "_partitions", lambda self, markers: found(self, markers)[1:])


def _aborts_become_commits() -> AbstractContextManager[Any]:
    complete = Transactions._complete
    return patch.object(Transactions, "_complete", lambda self, markers: complete(self, _committed(markers)))


def _committed(markers: Any) -> Any:
    return markers._replace(committed=True) if hasattr(markers, "_replace") else replace(markers, committed=True)


def _aborted_list_is_empty() -> AbstractContextManager[Any]:
    return patch.object(PartitionLog, "aborted_transactions", lambda self, first, upper: ())


def _stable_offset_is_the_high_watermark() -> AbstractContextManager[Any]:
    return patch.object(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _nothing_is_made_durable() -> AbstractContextManager[Any]:
    return patch.object(Durability, "make_durable", lambda self, logs: Parked.ready(None))


def _syncs_do_nothing() -> AbstractContextManager[Any]:
    return patch.object(SimulatedDisk, "sync_up_to", lambda self, mark: None)


def _prepared_transactions_are_forgotten_at_start() -> AbstractContextManager[Any]:
    return patch.object(Transactions, "complete_prepared", lambda self: None)


def _offsets_miss_their_markers() -> AbstractContextManager[Any]:
    return patch.object(CommittedOffsets, "replay_marker", lambda self, partition, producer_id, committed: None)


def _write_ahead_is_not_replayed() -> AbstractContextManager[Any]:
    replayed = BrokerCore._replay_write_ahead
    return patch.object(BrokerCore, "_replay_write_ahead", lambda self, topics: replayed(self, ()))


PLANTED: dict[str, tuple[Planted, int]] = {
    "one marker is forgotten": (_one_marker_is_forgotten, 3),
    "aborted transactions are committed": (_aborts_become_commits, 3),
    "the list of aborted transactions is empty": (_aborted_list_is_empty, 3),
    "the last stable offset is the high watermark": (_stable_offset_is_the_high_watermark, 6),
    "nothing is made durable": (_nothing_is_made_durable, 12),
    "syncs do nothing": (_syncs_do_nothing, 12),
    "prepared transactions are forgotten at a start": (_prepared_transactions_are_forgotten_at_start, 12),
    "offsets miss the markers of their transactions": (_offsets_miss_their_markers, 3),
    "the write-ahead log is not replayed": (_write_ahead_is_not_replayed, 12),
}
"""What is wrong, the patch that makes it so, and the seeds from any first one on that are enough to find it."""
